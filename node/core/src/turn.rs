//! One event being decided: the state it may touch and the actions it has asked for.

use mesh_protocol::codec::encode;
use mesh_protocol::delivery::Epoch;
use mesh_protocol::id::{MessageId, NodeId};
use mesh_protocol::limits::MESSAGE_BYTES_MAX;
use mesh_protocol::message::PeerMessage;
use rand::Rng;

use crate::event::Action;
use crate::limits::PARCEL_BODY_BYTES_MAX;
use crate::minted::Minted;
use crate::outbox::{self, Class, NewParcel, PublishError};
use crate::parts;
use crate::receive;
use crate::site::Site;
use crate::store::{Overlay, StoreError};
use crate::time::Now;

/// The context of one event.
pub(crate) struct Turn<'t, 'o> {
    /// Durable state with this event's writes.
    pub(crate) tx: &'t mut Overlay<'o>,
    /// When it happens.
    pub(crate) now: Now,
    /// Randomness.
    pub(crate) rng: &'t mut dyn Rng,
    /// The ids made so far.
    pub(crate) minted: &'t mut Minted,
    /// This node.
    pub(crate) site: &'t Site,
    /// Whether the process is about to stop: then nothing new begins.
    pub(crate) stopping: bool,
    /// Whether the sandbox is still being looked at: then jobs wait for what it offers.
    pub(crate) awaits_executor: bool,
    /// What is to be done after the commit.
    pub(crate) actions: Vec<Action>,
}

/// Where a message to another node is in its outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Place {
    /// The outbox's numbering.
    pub epoch: Epoch,
    /// The sequence in it.
    pub seq: u64,
}

/// How a message left.
pub(crate) enum Sent {
    /// It was for this node, and has been handled.
    Here,
    /// It is in an outbox.
    Queued(Option<Place>, outbox::Queued),
    /// It was not taken; nothing changed.
    Refused(PublishError),
}

impl Turn<'_, '_> {
    /// What is not the time in a new id.
    pub(crate) fn mint(&mut self) -> [u8; 10] {
        self.minted.next(self.now.wall_ms, self.rng)
    }

    /// A new message id.
    pub(crate) fn message_id(&mut self) -> MessageId {
        let random = self.mint();
        MessageId::mint(self.now.wall_ms, random)
    }

    /// Sends a message to a node: this one at once, another through its outbox, in this commit either way.
    pub(crate) fn send(
        &mut self,
        to: NodeId,
        message: MessageId,
        class: Class,
        content: PeerMessage,
    ) -> Result<Sent, StoreError> {
        if to == self.site.me {
            receive::handle(self, to, content)?;
            return Ok(Sent::Here);
        }
        match self.publish(to, message, class, encode(&content)) {
            Ok(queued) => {
                self.actions.push(Action::OutboxGrew(to));
                let place = queued.seq.map(|seq| Place { epoch: queued.epoch, seq });
                Ok(Sent::Queued(place, queued))
            }
            Err(PublishError::Store(error)) => Err(error),
            Err(refused) => Ok(Sent::Refused(refused)),
        }
    }

    /// Puts a message in an outbox: whole, or its parts and then its last word. All of it or nothing.
    fn publish(
        &mut self,
        to: NodeId,
        message: MessageId,
        class: Class,
        body: Vec<u8>,
    ) -> Result<outbox::Queued, PublishError> {
        let parcel =
            |message, class, body| NewParcel { message, body, class, deadline_ms: None, supersedes: None };
        if body.len() <= PARCEL_BODY_BYTES_MAX {
            return outbox::publish(self.tx, self.now, self.rng, to, parcel(message, class, body));
        }
        if body.len() > MESSAGE_BYTES_MAX {
            return Err(PublishError::TooLong { bytes: body.len(), limit: MESSAGE_BYTES_MAX });
        }
        outbox::check_room(self.tx, self.now, self.rng, to, class, body.len())?;
        let (parts, last) = parts::split(message, &body);
        for (id, part) in parts {
            outbox::publish(self.tx, self.now, self.rng, to, parcel(id, Class::Part, encode(&part)))?;
        }
        outbox::publish(self.tx, self.now, self.rng, to, parcel(message, class, encode(&last)))
    }

    /// Keeps room in a node's outbox for the end of work that is being accepted. False when there is none; nothing
    /// changed then. This node needs none for itself.
    pub(crate) fn reserve(&mut self, to: NodeId, bytes: u64) -> Result<bool, StoreError> {
        if to == self.site.me {
            return Ok(true);
        }
        match outbox::reserve(self.tx, self.now, self.rng, to, bytes) {
            Ok(()) => Ok(true),
            Err(PublishError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Sends the end of something, into the room that accepting it reserved. What was refused has none, and goes
    /// into the outbox's own reserve for short messages.
    pub(crate) fn report(
        &mut self,
        to: NodeId,
        reserved: Option<u64>,
        content: PeerMessage,
    ) -> Result<(), StoreError> {
        let class = reserved.map_or(Class::Control, |reserved| Class::Terminal { reserved });
        let message = self.message_id();
        match self.send(to, message, class, content)? {
            Sent::Here | Sent::Queued(..) => Ok(()),
            Sent::Refused(refused) => {
                // Its peer is gone, or floods us with what we refuse. The origin's own silence limit ends it there.
                tracing::warn!(peer = %to.short(), %refused, "an outcome was not queued");
                Ok(())
            }
        }
    }
}

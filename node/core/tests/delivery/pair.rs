//! Two nodes and a perfect link: what the tests are about is done by hand, the rest by these.

use mesh_node_core::outbox::{self, Class, Delivered, NewParcel, PublishError, Queued, Resumed, Take};
use mesh_node_core::store::{Change, OrderedStore, Overlay, Store, Table};
use mesh_node_core::time::{NodeTime, Now};
use mesh_protocol::delivery::{Ack, Open, Parcel, Resume};
use mesh_protocol::id::{MessageId, NodeId};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub(crate) const SENDER: NodeId = NodeId::from_bytes([1; 32]);
pub(crate) const RECEIVER: NodeId = NodeId::from_bytes([2; 32]);

pub(crate) const HOUR_MS: u64 = 3_600_000;

/// A disk and a clock.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) disk: OrderedStore,
    pub(crate) now: Now,
    pub(crate) rng: ChaCha8Rng,
}

impl Node {
    fn new(seed: u64) -> Self {
        let now = Now { node: NodeTime(1_000), wall_ms: 1_700_000_000_000 };
        Self { disk: OrderedStore::default(), now, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// An event that commits.
    pub(crate) fn commit<T>(&mut self, event: impl FnOnce(&mut Overlay<'_>, Now, &mut ChaCha8Rng) -> T) -> T {
        let mut tx = Overlay::new(&self.disk);
        let decided = event(&mut tx, self.now, &mut self.rng);
        let changes = tx.into_changes();
        self.disk.apply(changes);
        decided
    }

    /// An event that a crash takes back.
    pub(crate) fn crash_in<T>(
        &mut self,
        event: impl FnOnce(&mut Overlay<'_>, Now, &mut ChaCha8Rng) -> T,
    ) -> T {
        event(&mut Overlay::new(&self.disk), self.now, &mut self.rng)
    }

    /// A disk put back into a machine whose randomness went on.
    pub(crate) fn restored(backup: &Self) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(99), ..backup.clone() }
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.now = Now { node: self.now.node.plus_ms(ms), wall_ms: self.now.wall_ms + ms };
    }
}

/// A sender and a receiver.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) sender: Node,
    pub(crate) receiver: Node,
}

pub(crate) fn message(number: u64) -> MessageId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    MessageId::mint(1, random)
}

pub(crate) fn request(number: u64) -> NewParcel {
    NewParcel {
        message: message(number),
        body: format!("body {number}").into_bytes(),
        class: Class::Request,
        deadline_ms: None,
        supersedes: None,
    }
}

/// What a handler does with a message it takes: one row.
pub(crate) fn apply(tx: &mut Overlay<'_>, message: MessageId) {
    let key = message.as_bytes().to_vec();
    tx.write_raw(vec![Change { table: Table::Messages, key, value: Some(Vec::new()) }]);
}

/// Takes a parcel and applies it in the same event.
pub(crate) fn take_and_apply(tx: &mut Overlay<'_>, now: Now, session: u64, parcel: Parcel) -> Take {
    let taken = outbox::take(tx, now, SENDER, session, parcel).unwrap();
    if let Take::Apply { message, .. } = &taken {
        apply(tx, *message);
    }
    taken
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self { sender: Node::new(1), receiver: Node::new(2) }
    }

    /// With these requests queued.
    pub(crate) fn with_requests(numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut pair = Self::new();
        for number in numbers {
            pair.publish(request(number)).unwrap();
        }
        pair
    }

    pub(crate) fn publish(&mut self, parcel: NewParcel) -> Result<Queued, PublishError> {
        self.sender.commit(|tx, now, rng| outbox::publish(tx, now, rng, RECEIVER, parcel))
    }

    pub(crate) fn open(&mut self, session: u64) -> Open {
        self.sender.commit(|tx, _, rng| outbox::open(tx, rng, RECEIVER, session).unwrap())
    }

    pub(crate) fn handle_open(&mut self, open: Open) -> Resume {
        self.receiver.commit(|tx, now, _| outbox::handle_open(tx, now, SENDER, open).unwrap())
    }

    pub(crate) fn handle_resume(&mut self, session: u64, resume: Resume) -> Resumed {
        self.sender
            .commit(|tx, now, rng| outbox::handle_resume(tx, now, rng, RECEIVER, session, resume).unwrap())
    }

    /// A new session, up to the sender's decision.
    pub(crate) fn connect(&mut self, session: u64) -> Resumed {
        let open = self.open(session);
        let resume = self.handle_open(open);
        self.handle_resume(session, resume)
    }

    /// What the sending task would send from a sequence on.
    pub(crate) fn parcels(&self, session: u64, from: u64) -> Vec<Parcel> {
        outbox::next_parcels(&self.sender.disk, RECEIVER, session, from, 1_000, u64::MAX)
            .unwrap()
            .unwrap_or_default()
    }

    pub(crate) fn take(&mut self, session: u64, parcel: Parcel) -> Take {
        self.receiver.commit(|tx, now, _| take_and_apply(tx, now, session, parcel))
    }

    pub(crate) fn ack(&self) -> Ack {
        outbox::ack_for(&self.receiver.disk, SENDER).unwrap().unwrap()
    }

    pub(crate) fn handle_ack(&mut self, session: u64, ack: Ack) -> Vec<Delivered> {
        self.sender
            .commit(|tx, now, _| outbox::handle_ack(tx, now, RECEIVER, session, ack).unwrap().delivered)
    }

    /// A whole session: connects, sends everything, settles it. Returns what was delivered.
    pub(crate) fn deliver(&mut self, session: u64) -> Vec<MessageId> {
        let Resumed::Live { gap, send_from, mut delivered, .. } = self.connect(session) else {
            panic!("the session does not live");
        };
        if let Some(gap) = gap {
            self.receiver.commit(|tx, now, _| outbox::handle_gap(tx, now, SENDER, session, gap).unwrap());
        }
        for parcel in self.parcels(session, send_from) {
            self.take(session, parcel);
        }
        let ack = self.ack();
        delivered.extend(self.handle_ack(session, ack));
        delivered.into_iter().map(|delivered| delivered.message).collect()
    }

    pub(crate) fn is_applied(&self, number: u64) -> bool {
        self.receiver.disk.get(Table::Messages, message(number).as_bytes()).unwrap().is_some()
    }

    pub(crate) fn view(&self) -> outbox::OutboxView {
        outbox::depth(&self.sender.disk, self.sender.now, RECEIVER).unwrap().unwrap()
    }
}

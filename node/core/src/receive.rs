//! A message from a node, by what it is. Who sent it is the link's word; nothing in it changes that.

use mesh_protocol::id::{ConversationId, MessageId, NodeId};
use mesh_protocol::message::{PeerMessage, Post};
use mesh_protocol::policy::{Permission, PermissionProfile};

use crate::broker::conversation::{self, Message};
use crate::broker::{flight, run};
use crate::jobs::ended::Ended;
use crate::jobs::{execution, job};
use crate::outbox::Class;
use crate::parts;
use crate::policy;
use crate::store::{StoreError, get};
use crate::turn::Turn;

/// Applies one message, in the commit that marks it as taken.
pub(crate) fn handle(turn: &mut Turn<'_, '_>, from: NodeId, message: PeerMessage) -> Result<(), StoreError> {
    match message {
        PeerMessage::Post(post) => accept_post(turn, from, post),
        PeerMessage::Ask(request) => run::accept(turn, from, request),
        PeerMessage::RunStarted { flight } => flight::started(turn, from, flight),
        PeerMessage::RunEnded { flight, outcome } => flight::ended(turn, from, flight, outcome),
        PeerMessage::StopRun { flight, reason } => run::stop(turn, from, flight, reason),
        PeerMessage::Job(request) => execution::accept(turn, from, request),
        PeerMessage::JobStarted { job } => job::started(turn, from, job),
        PeerMessage::JobEnded { job, result, evidence, outputs } => {
            job::ended(turn, from, job, Ended { result, evidence, outputs })
        }
        PeerMessage::JobEvents { job, events } => job::told(turn, from, job, &events),
        PeerMessage::StopJob { job, reason } => execution::stop(turn, from, job, reason),
        PeerMessage::PostRefused { conversation, message, detail } => {
            post_refused(turn, from, (conversation, message), &detail)
        }
        PeerMessage::Part { of, index, bytes } => parts::take(turn, from, (of, index), bytes),
        PeerMessage::Whole { of, parts, sha256 } => match parts::assemble(turn, from, (of, parts), sha256)? {
            Some(message) => handle(turn, from, message),
            None => {
                tracing::warn!(peer = %from.short(), "a message of several parts did not arrive whole");
                let message = turn.message_id();
                turn.send(from, message, Class::Control, PeerMessage::Unassembled { of }).map(drop)
            }
        },
        PeerMessage::Unassembled { of } => job::unassembled(turn, from, of),
    }
}

/// A node did not take a message from here. Of anything else it may say so as often as it likes: nothing is kept.
fn post_refused(
    turn: &mut Turn<'_, '_>,
    from: NodeId,
    (conversation, message): (ConversationId, MessageId),
    detail: &str,
) -> Result<(), StoreError> {
    let posted = get::<Message>(turn.tx, &message)?;
    if posted.is_none_or(|posted| posted.conversation != conversation) {
        tracing::warn!(peer = %from.short(), "a peer refuses a message that it was not sent");
        return Ok(());
    }
    let detail: String = detail.chars().take(500).collect();
    let people = (format!("node {}", turn.site.view.label(from)), "operator".to_owned());
    let own = turn.message_id();
    conversation::record(turn, own, conversation, people, format!("not delivered: {detail}"), Some(message));
    Ok(())
}

fn accept_post(turn: &mut Turn<'_, '_>, from: NodeId, post: Post) -> Result<(), StoreError> {
    let setting = turn.site.agents.get(&post.to).filter(|setting| setting.advertised);
    let profile = setting.map(|_| PermissionProfile::Observe);
    let allowed = match profile {
        Some(profile) => policy::permits_agent(
            turn.tx,
            turn.site,
            turn.now,
            from,
            Permission::Message,
            (post.to.as_str(), profile),
        )?,
        None => false,
    };
    if !allowed {
        let here = turn.site.view.label(turn.site.me);
        let detail = match profile {
            None => format!("node {here} has no agent @{}", post.to),
            Some(_) => {
                let remedy = policy::remedy(turn.site, from, Permission::Message);
                format!("{}; {remedy}", policy::refusal(turn.site, Permission::Message))
            }
        };
        let refused =
            PeerMessage::PostRefused { conversation: post.conversation, message: post.message, detail };
        let message = turn.message_id();
        return turn.send(from, message, Class::Control, refused).map(drop);
    }
    let people = (run::requester(turn, from, &post.from.name), format!("@{}", post.to));
    conversation::record_from_peer(turn, post.message, post.conversation, people, post.body)
}

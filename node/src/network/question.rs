//! Questions to a linked peer, and its questions to this node: one frame each way, never queued.
//!
//! Revocation lists travel this way, whole: at every new link, and at once when one becomes newer. A node that was cut
//! off hears of a revocation with its first link, and no peer can take one back, since only newer lists by the root's
//! word are taken.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_protocol::codec::{decode, encode};
use mesh_protocol::id::NodeId;
use mesh_protocol::limits::QUESTION_FRAME_BYTES_MAX;
use mesh_protocol::peer::PeerState;
use mesh_protocol::policy::Grant;
use mesh_protocol::question::{Answer, Question, Reach};
use mesh_protocol::revocation::RevocationList;
use mesh_protocol::stream::StreamKind;

use super::{Event, Shared};
use crate::transport::{Connection, Receiver, Sender};

/// How long a question waits for its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Shows a peer our revocation list, and takes its own when that is newer.
pub(super) fn compare_revocations(shared: Arc<Shared>, connection: Connection) {
    tokio::spawn(async move {
        let ours = shared.revocations.borrow().as_ref().map(|list| list.as_bytes().to_vec());
        let question = Question::Revocations(ours.unwrap_or_default());
        if let Some(Answer::Revocations(theirs)) = ask(&connection, &question).await {
            take(&shared, connection.peer(), &theirs).await;
        }
    });
}

/// Asks what this node may do at the peer's.
pub(super) async fn ask_grant(connection: &Connection) -> Option<Grant> {
    match ask(connection, &Question::Grant).await {
        Some(Answer::Grant(grant)) => Some(grant),
        Some(_) | None => None,
    }
}

/// Asks whether the peer reaches another member, and would carry packets to it.
pub(super) async fn ask_reach(connection: &Connection, target: NodeId) -> Option<Reach> {
    match ask(connection, &Question::Reach(target)).await {
        Some(Answer::Reach(reach)) => Some(reach),
        Some(_) | None => None,
    }
}

/// The time a question and its answer take, from this node to the peer's and back.
pub(super) async fn round_trip(connection: &Connection) -> Option<Duration> {
    let number = rand::random();
    let began = Instant::now();
    match ask(connection, &Question::Echo(number)).await {
        Some(Answer::Echo(answered)) if answered == number => Some(began.elapsed()),
        Some(_) | None => None,
    }
}

async fn ask(connection: &Connection, question: &Question) -> Option<Answer> {
    let exchange = async {
        let (mut sender, mut receiver) = connection.open(StreamKind::Question).await.ok()?;
        sender.send_frame(&encode(question), QUESTION_FRAME_BYTES_MAX).await.ok()?;
        sender.finish().ok()?;
        let frame = receiver.receive_frame(QUESTION_FRAME_BYTES_MAX).await.ok()??;
        decode::<Answer>(&frame).ok()
    };
    tokio::time::timeout(ANSWER_WITHIN, exchange).await.ok()?
}

/// Answers a peer's question; what is not understood is given up.
pub(super) fn answer(shared: Arc<Shared>, peer: NodeId, mut sender: Sender, mut receiver: Receiver) {
    let Some(place) = shared.quotas.question(peer, shared.clock.now().node) else { return };
    tokio::spawn(async move {
        let _place = place;
        let exchange = async {
            let frame = receiver.receive_frame(QUESTION_FRAME_BYTES_MAX).await.ok()??;
            let answer = match decode::<Question>(&frame).ok()? {
                Question::Revocations(theirs) => {
                    Answer::Revocations(newer_than(&shared, peer, &theirs).await)
                }
                Question::Grant => Answer::Grant(shared.observer.grant_of(peer)),
                Question::Reach(target) => Answer::Reach(reach(&shared, peer, target)),
                Question::Echo(number) => Answer::Echo(number),
            };
            sender.send_frame(&encode(&answer), QUESTION_FRAME_BYTES_MAX).await.ok()?;
            sender.finish().ok()?;
            sender.finished().await.ok()
        };
        // A peer that does not wait for its answer does not need it.
        let _ = tokio::time::timeout(ANSWER_WITHIN, exchange).await;
    });
}

/// What this node says of its way to a member.
fn reach(shared: &Shared, asker: NodeId, target: NodeId) -> Reach {
    let link = shared.link(target).filter(|link| !link.key().relayed);
    let rtt_us = link.as_ref().and_then(|link| u64::try_from(link.rtt().as_micros()).ok());
    let alive = shared.membership().state(&target) == Some(PeerState::Alive);
    Reach { alive, direct: link.is_some(), carries: shared.relays_for(asker), rtt_us }
}

/// Takes the peer's list if it is newer; answers with ours if that is.
async fn newer_than(shared: &Shared, peer: NodeId, theirs: &[u8]) -> Vec<u8> {
    let ours = shared.revocations.borrow().clone();
    let their_ver = RevocationList::verify(theirs, &shared.root).map_or(0, |list| list.ver());
    take(shared, peer, theirs).await;
    ours.filter(|list| list.ver() > their_ver).map(|list| list.as_bytes().to_vec()).unwrap_or_default()
}

async fn take(shared: &Shared, peer: NodeId, theirs: &[u8]) {
    if theirs.is_empty() {
        return;
    }
    let known = shared.revocations.borrow().clone();
    match RevocationList::succeed(theirs, &shared.root, known.as_ref()) {
        // Fails only when the driver is gone.
        Ok(list) => drop(shared.events.send(Event::NewerRevocations(list)).await),
        Err(error) => tracing::debug!(peer = %peer.short(), %error, "a revocation list was not taken"),
    }
}

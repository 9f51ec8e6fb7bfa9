//! Taking connections in: who may try, who proves its address first, who gets through.
//!
//! ```text
//!   packet of a new peer ─ too many connections or handshakes? ──> refused
//!        │                 many handshakes, address unproven? ───> retry: prove it (RFC 9000, section 8.1.2)
//!        v
//!   TLS ─ certificate ─ Hello ─ let in? ── each within the greeting's time ──> Connection
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mesh_protocol::close::CloseCode;
use quinn::Incoming;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection::Connection;
use super::endpoint::Shared;
use super::greeting::GreetingError;
use super::inbound::code_for;
use super::line::{Line, certified_peer, purpose};
use super::settings::INCOMING_MAX;

/// Runs until the endpoint is closed.
pub(super) async fn listen(shared: Arc<Shared>, deliver: mpsc::Sender<Connection>) {
    let mut handshakes = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            // Before new ones, so that what has ended is not counted.
            Some(_) = handshakes.join_next(), if !handshakes.is_empty() => {}
            incoming = shared.quic.accept() => {
                let Some(incoming) = incoming else { return };
                if let Some(incoming) = triage(&shared, incoming, handshakes.len()) {
                    handshakes.spawn(take_in(Arc::clone(&shared), incoming, deliver.clone()));
                }
            }
        }
    }
}

/// Decides before any cryptography whether a handshake may begin.
fn triage(shared: &Shared, incoming: Incoming, pending: usize) -> Option<Incoming> {
    let counters = &shared.counters;
    if shared.is_full() || pending >= INCOMING_MAX {
        counters.overloaded.fetch_add(1, Ordering::Relaxed);
        incoming.refuse();
        return None;
    }
    if pending >= shared.settings.retry_from && !incoming.remote_address_validated() {
        counters.retried.fetch_add(1, Ordering::Relaxed);
        // Fails only for a peer that proved its address already.
        let _ = incoming.retry();
        return None;
    }
    Some(incoming)
}

/// One peer, from its first packet to its place in the queue of connections.
async fn take_in(shared: Arc<Shared>, incoming: Incoming, deliver: mpsc::Sender<Connection>) {
    let address = incoming.remote_address();
    let deadline = Instant::now() + shared.settings.greeting;
    let Ok(connecting) = incoming.accept() else { return };
    let quic = match tokio::time::timeout_at(deadline, connecting).await {
        Ok(Ok(quic)) => quic,
        Ok(Err(error)) => {
            shared.counters.refused.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%address, %error, "refused a handshake");
            return;
        }
        Err(_) => {
            shared.counters.silent.fetch_add(1, Ordering::Relaxed);
            return;
        }
    };
    let line = Line::new(quic);
    match greet(&shared, &line, deadline).await {
        Ok(connection) => {
            shared.counters.accepted.fetch_add(1, Ordering::Relaxed);
            // Fails only when the endpoint is being dropped.
            let _ = deliver.send(connection).await;
        }
        Err(Some(code)) => {
            let silent = code == CloseCode::NoHello;
            let counter = if silent { &shared.counters.silent } else { &shared.counters.refused };
            counter.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%address, %code, "closed a connection before it began");
            line.close(code, "");
        }
        Err(None) => {
            shared.counters.silent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The greeting; on failure the code to close with, or `None` when the peer was faster.
async fn greet(
    shared: &Arc<Shared>,
    line: &Arc<Line>,
    deadline: Instant,
) -> Result<Connection, Option<CloseCode>> {
    let peer = certified_peer(&line.quic).ok_or(Some(CloseCode::Protocol))?;
    // The table may have changed since TLS asked it.
    let check = || shared.admission.check(peer).map_err(|exclusion| Some(code_for(exclusion)));
    check()?;
    let introduction = shared.introduction();
    let answer = introduction.answer(line, peer);
    let agreement = match tokio::time::timeout_at(deadline, answer).await {
        Ok(Ok(agreement)) => agreement,
        Ok(Err(GreetingError::Unfit(code))) => return Err(Some(code)),
        Ok(Err(GreetingError::Ended(_))) if line.quic.close_reason().is_some() => return Err(None),
        Ok(Err(GreetingError::Ended(_))) => return Err(Some(CloseCode::Protocol)),
        Err(_) => return Err(Some(CloseCode::NoHello)),
    };
    check()?;
    let purpose = purpose(&line.quic).ok_or(Some(CloseCode::Protocol))?;
    let (line, admission) = (Arc::clone(line), Arc::clone(&shared.admission));
    Connection::start(line, agreement, purpose, admission, shared.paths.as_ref()).ok_or(None)
}

//! Dialling a member: several addresses, one connection, one reason when there is none.
//!
//! The attempts of a plan start at their times, and the next one at once when all running ones failed (Happy
//! Eyeballs, RFC 8305). The first to finish TLS with the dialled node's certificate wins, the others are dropped, and
//! only the winner says Hello.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mesh_node_core::links::{Attempt, DialFailure, FailureKind};
use mesh_protocol::close::CloseCode;
use mesh_protocol::id::NodeId;
use quinn::{ConnectError, ConnectionError, TransportErrorCode};
use thiserror::Error;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::connection::Connection;
use super::endpoint::Shared;
use super::greeting::GreetingError;
use super::inbound::code_for;
use super::line::{Line, certified_peer};
use super::{CloseReason, Purpose, StreamError};
use crate::identity::{MemberVerifier, Refusal, name_of};

/// Why the other end did not let this one in, by the alert it sent (RFC 8446, section 6.2) or its close code.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum PeerRefusal {
    /// It does not know the root of our certificate.
    #[error("it does not take this node for a member of its mesh")]
    NotMember,
    /// Our certificate is out of date by its clock.
    #[error("this node's certificate is out of date by its clock")]
    OutOfDate,
    /// The mesh shut this node out.
    #[error("this node is revoked")]
    Revoked,
    /// Its operator shut this node out.
    #[error("this node is blocked there")]
    Blocked,
    /// It found that we do not own our certificate.
    #[error("this node's key does not fit its certificate")]
    NotOwner,
    /// It did not like our certificate for another reason: the number of its alert.
    #[error("it refused this node's certificate (alert {0})")]
    Certificate(u8),
}

/// Why a dial gave no connection.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum DialCause {
    /// There was nothing to dial.
    #[error("no address is known")]
    NoAddress,
    /// The address cannot be dialled from here.
    #[error("the address cannot be used from here")]
    BadAddress,
    /// Nothing answered in time.
    #[error("nothing answered")]
    NoAnswer,
    /// This end did not believe what answered.
    #[error("refused here: {0}")]
    NotBelieved(#[from] Refusal),
    /// What answered did not let this end in.
    #[error("refused there: {0}")]
    Refused(PeerRefusal),
    /// The ends have no protocol, version or key exchange in common.
    #[error("no common protocol version or key exchange")]
    Incompatible,
    /// One end has all the connections it holds.
    #[error("it takes no connections now")]
    Busy,
    /// The connection ended before both ends had said Hello.
    #[error("the connection ended at once: {0}")]
    Ended(CloseReason),
    /// This endpoint is closed.
    #[error("this node's endpoint is closed")]
    EndpointClosed,
}

impl DialCause {
    /// Whether dialling again soon could help.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            // Another member at the address: the address is old, and the next one may be right.
            Self::NotBelieved(Refusal::OtherNode(_)) => FailureKind::Passing,
            Self::NotBelieved(_) | Self::Refused(_) => FailureKind::Refused,
            Self::Incompatible => FailureKind::Incompatible,
            Self::NoAddress
            | Self::BadAddress
            | Self::NoAnswer
            | Self::Busy
            | Self::Ended(_)
            | Self::EndpointClosed => FailureKind::Passing,
        }
    }
}

/// A dial that gave no connection.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("cannot reach {}: {cause}", peer.short())]
pub struct DialError {
    /// Whom we dialled.
    pub peer: NodeId,
    /// The cause that says most: a refusal before silence, then the last one.
    pub cause: DialCause,
    /// Where that happened.
    pub address: Option<SocketAddr>,
    /// Every address that was tried and what came of it, in the order they ended.
    pub tried: Vec<(SocketAddr, DialCause)>,
}

impl From<DialError> for DialFailure {
    fn from(error: DialError) -> Self {
        Self { kind: error.cause.kind(), text: error.cause.to_string(), address: error.address }
    }
}

/// An attempt that got through TLS, and until when it may say Hello.
struct Reached {
    quic: quinn::Connection,
    address: SocketAddr,
    deadline: Instant,
}

type Failed = (DialCause, Option<SocketAddr>);

/// Dials by a plan and greets.
pub(super) async fn dial(
    shared: &Arc<Shared>,
    peer: NodeId,
    number: u64,
    plan: &[Attempt],
    purpose: Purpose,
) -> Result<Connection, DialError> {
    let mut tried = Vec::new();
    let outcome = match shared.admission.check(peer) {
        Err(exclusion) => Err((DialCause::NotBelieved(exclusion.into()), None)),
        Ok(()) => match race(shared, peer, plan, purpose, &mut tried).await {
            Ok(reached) => greet(shared, peer, number, reached, purpose)
                .await
                .inspect_err(|(cause, address)| tried.extend(address.map(|at| (at, cause.clone())))),
            Err(failed) => Err(failed),
        },
    };
    outcome.map_err(|(cause, address)| DialError { peer, cause, address, tried })
}

/// Runs the attempts of a plan until one is through TLS, or none is left.
async fn race(
    shared: &Arc<Shared>,
    peer: NodeId,
    plan: &[Attempt],
    purpose: Purpose,
    tried: &mut Vec<(SocketAddr, DialCause)>,
) -> Result<Reached, Failed> {
    let start = Instant::now();
    let mut waiting: VecDeque<Attempt> = plan.iter().copied().collect();
    let mut running: JoinSet<Result<Reached, Failed>> = JoinSet::new();
    let mut worst: Failed = (DialCause::NoAddress, None);
    loop {
        let at = waiting.front().map(|next| start + Duration::from_millis(next.after_ms));
        tokio::select! {
            biased;
            Some(ended) = running.join_next() => {
                if let Ok(Err((cause, Some(address)))) = &ended {
                    tried.push((*address, cause.clone()));
                }
                match settle(ended, worst) {
                    Ok(reached) => return Ok(reached),
                    Err(failed) => worst = failed,
                }
            }
            () = tokio::time::sleep_until(at.unwrap_or(start)), if at.is_some() && !running.is_empty() => {}
            // Nothing runs, so there is nothing to wait for.
            else => {}
        }
        if running.is_empty() || at.is_some_and(|at| Instant::now() >= at) {
            match waiting.pop_front() {
                Some(next) => _ = running.spawn(reach(Arc::clone(shared), peer, next.address, purpose)),
                None if running.is_empty() => return Err(worst),
                None => {}
            }
        }
    }
}

/// What an ended attempt makes of the dial: done, or a reason to give if all others fail too.
fn settle(ended: Result<Result<Reached, Failed>, JoinError>, worst: Failed) -> Result<Reached, Failed> {
    match ended {
        Ok(Ok(reached)) => Ok(reached),
        Ok(Err(failed)) if failed.0.kind() != FailureKind::Passing => Err(failed),
        Ok(Err(failed)) if worst.0.kind() == FailureKind::Passing => Err(failed),
        Ok(Err(_)) | Err(_) => Err(worst),
    }
}

/// One attempt, up to the end of TLS.
async fn reach(
    shared: Arc<Shared>,
    peer: NodeId,
    address: SocketAddr,
    purpose: Purpose,
) -> Result<Reached, Failed> {
    let deadline = Instant::now() + shared.settings.greeting;
    let failed = |cause| (cause, Some(address));
    if shared.is_full() {
        return Err(failed(DialCause::Busy));
    }
    let (config, verifier) =
        shared.client_for(peer, purpose).ok_or_else(|| failed(DialCause::Incompatible))?;
    let connecting = shared.quic.connect_with(config, address, &name_of(peer)).map_err(|error| {
        failed(match error {
            ConnectError::InvalidRemoteAddress(_) => DialCause::BadAddress,
            ConnectError::EndpointStopping => DialCause::EndpointClosed,
            _ => DialCause::Incompatible,
        })
    })?;
    match tokio::time::timeout_at(deadline, connecting).await {
        Err(_) => Err(failed(DialCause::NoAnswer)),
        Ok(Err(error)) => Err(failed(cause_of(&error, Some(&verifier)))),
        Ok(Ok(quic)) => Ok(Reached { quic, address, deadline }),
    }
}

async fn greet(
    shared: &Arc<Shared>,
    peer: NodeId,
    number: u64,
    Reached { quic, address, deadline }: Reached,
    purpose: Purpose,
) -> Result<Connection, Failed> {
    let failed = |cause| (cause, Some(address));
    let line = Line::new(quic);
    let refuse = |code| {
        line.close(code, "");
        failed(DialCause::Ended(CloseReason::Here(code)))
    };
    if certified_peer(&line.quic) != Some(peer) {
        return Err(refuse(CloseCode::FalseHello));
    }
    let introduction = shared.introduction();
    let greeting = introduction.greet(&line, peer, number);
    let agreement = match tokio::time::timeout_at(deadline, greeting).await {
        Ok(Ok(agreement)) => agreement,
        Ok(Err(GreetingError::Unfit(CloseCode::Incompatible))) => {
            line.close(CloseCode::Incompatible, "");
            return Err(failed(DialCause::Incompatible));
        }
        Ok(Err(GreetingError::Unfit(code))) => return Err(refuse(code)),
        Ok(Err(GreetingError::Ended(error))) => return Err(failed(ended(&line, error, deadline).await)),
        Err(_) => return Err(refuse(CloseCode::NoHello)),
    };
    // The table may have changed since TLS asked it.
    if let Err(exclusion) = shared.admission.check(peer) {
        line.close(code_for(exclusion), "");
        return Err(failed(DialCause::NotBelieved(exclusion.into())));
    }
    Connection::start(line, agreement, purpose, Arc::clone(&shared.admission), shared.paths.as_ref())
        .ok_or_else(|| failed(DialCause::Ended(CloseReason::Here(CloseCode::PathLost))))
}

/// Why a greeting ended from outside. A peer that gives the stream up closes the connection next, and its reason says
/// more.
async fn ended(line: &Line, error: StreamError, deadline: Instant) -> DialCause {
    match tokio::time::timeout_at(deadline, line.quic.closed()).await {
        Ok(reason) => cause_of(&reason, None),
        Err(_) => {
            line.close(CloseCode::Protocol, "");
            broken(&error.to_string())
        }
    }
}

/// What the library's error means for a dial. The verifier knows why this end refused.
fn cause_of(error: &ConnectionError, verifier: Option<&MemberVerifier>) -> DialCause {
    let refused_here = verifier.and_then(MemberVerifier::refusal);
    match error {
        ConnectionError::TransportError(_) if refused_here.is_some() => {
            refused_here.map_or(DialCause::Incompatible, DialCause::NotBelieved)
        }
        ConnectionError::TransportError(error) => {
            cause_of_code(error.code).unwrap_or_else(|| broken(&error.to_string()))
        }
        ConnectionError::ConnectionClosed(close) => {
            cause_of_code(close.error_code).unwrap_or_else(|| broken(&close.error_code.to_string()))
        }
        ConnectionError::ApplicationClosed(close) => {
            match CloseCode::from_number(close.error_code.into_inner()) {
                CloseCode::Revoked => DialCause::Refused(PeerRefusal::Revoked),
                CloseCode::Blocked => DialCause::Refused(PeerRefusal::Blocked),
                CloseCode::Incompatible => DialCause::Incompatible,
                CloseCode::Busy => DialCause::Busy,
                _ => DialCause::Ended(CloseReason::new(error, None)),
            }
        }
        ConnectionError::TimedOut => DialCause::NoAnswer,
        ConnectionError::VersionMismatch => DialCause::Incompatible,
        ConnectionError::LocallyClosed => DialCause::EndpointClosed,
        ConnectionError::Reset | ConnectionError::CidsExhausted => {
            DialCause::Ended(CloseReason::new(error, None))
        }
    }
}

fn broken(text: &str) -> DialCause {
    DialCause::Ended(CloseReason::Broken(text.to_owned()))
}

/// What a transport error code says; codes of TLS alerts are 0x100 and the alert (RFC 9001, section 4.8).
fn cause_of_code(code: TransportErrorCode) -> Option<DialCause> {
    if code == TransportErrorCode::CONNECTION_REFUSED {
        return Some(DialCause::Busy);
    }
    let alert = u64::from(code).checked_sub(0x100).and_then(|alert| u8::try_from(alert).ok())?;
    Some(match alert {
        // handshake_failure: no key exchange in common; protocol_version; no_application_protocol.
        40 | 70 | 120 => DialCause::Incompatible,
        44 => DialCause::Refused(PeerRefusal::Revoked),
        45 => DialCause::Refused(PeerRefusal::OutOfDate),
        // unknown_ca; certificate_required.
        48 | 116 => DialCause::Refused(PeerRefusal::NotMember),
        49 => DialCause::Refused(PeerRefusal::Blocked),
        51 => DialCause::Refused(PeerRefusal::NotOwner),
        other => DialCause::Refused(PeerRefusal::Certificate(other)),
    })
}

//! One dial of a peer, by every way there is: its own addresses first, and another member's help when they take long.

use std::sync::Arc;
use std::time::Duration;

use mesh_node_core::links::{Attempt, DETOUR_AFTER_MS, DialFailure, FailureKind, Path};
use mesh_protocol::id::NodeId;

use super::{Shared, detour};
use crate::transport::Connection;

/// By its own addresses only.
pub(super) async fn directly(
    shared: &Shared,
    peer: NodeId,
    number: u64,
    plan: &[Attempt],
) -> Result<Connection, DialFailure> {
    let dialled = shared.endpoint.dial(peer, number, plan).await;
    dialled.map_err(|error| {
        for (address, cause) in &error.tried {
            shared.note(peer, Some(Path::Direct(*address)), &cause.to_string());
        }
        if error.tried.is_empty() {
            shared.note(peer, None, &error.cause.to_string());
        }
        error.into()
    })
}

/// By its own addresses, and through another member when that takes long or fails. Whichever comes first; the failure
/// is that of the addresses, which says more about the peer.
pub(super) async fn any_way(
    shared: &Arc<Shared>,
    peer: NodeId,
    number: u64,
    plan: &[Attempt],
) -> Result<Connection, DialFailure> {
    if plan.is_empty() {
        return detour::dial(shared, peer, number).await.ok_or_else(|| no_address(shared, peer));
    }
    let direct = directly(shared, peer, number, plan);
    tokio::pin!(direct);
    let head_start = Duration::from_millis(DETOUR_AFTER_MS);
    if let Ok(early) = tokio::time::timeout(head_start, &mut direct).await {
        return match early {
            Err(failure) if failure.kind == FailureKind::Passing => {
                detour::dial(shared, peer, number).await.ok_or(failure)
            }
            settled => settled,
        };
    }
    let around = detour::dial(shared, peer, number);
    tokio::pin!(around);
    tokio::select! {
        // Both at once: the direct one is better.
        biased;
        direct = &mut direct => match direct {
            Err(failure) if failure.kind == FailureKind::Passing => around.await.ok_or(failure),
            settled => settled,
        },
        relayed = &mut around => match relayed {
            Some(connection) => {
                for attempt in plan {
                    let way = Some(Path::Direct(attempt.address));
                    shared.note(peer, way, "no answer before another member carried");
                }
                Ok(connection)
            }
            None => direct.await,
        },
    }
}

/// It says nowhere that it can be dialled, and no member carries to it.
fn no_address(shared: &Shared, peer: NodeId) -> DialFailure {
    let text = "it advertises no address, and no member linked here carries to it".to_owned();
    shared.note(peer, None, &text);
    DialFailure { kind: FailureKind::Passing, text, address: None }
}

//! Stops that came before the job they are about: remembered, so that it is not begun when it does.
//!
//! A request comes after its stop only where a disk was set back, so a stop is remembered as long as a message that was
//! applied. Of one peer a bounded number is: anybody can make up jobs to stop.

use mesh_protocol::id::NodeId;
use mesh_protocol::job::{JobSpec, Language};
use serde::{Deserialize, Serialize};

use super::events::JobKey;
use super::execution::{Execution, ExecutionState};
use super::outline::Outline;
use crate::deadline::{self, Deadline};
use crate::limits::{JOB_EARLY_STOPS_MAX, SEEN_MS};
use crate::store::{Overlay, Record, StoreError, Table, get};
use crate::turn::Turn;

/// How many of a peer's are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct EarlyStops(u64);

impl Record for EarlyStops {
    const TABLE: Table = Table::EarlyStops;
    type Key = NodeId;
}

/// Remembers one, and returns whether it is: there may be too many.
pub(super) fn remember(turn: &mut Turn<'_, '_>, key: JobKey) -> Result<bool, StoreError> {
    let (origin, job) = key;
    let known = get::<EarlyStops>(turn.tx, &origin)?.map_or(0, |EarlyStops(known)| known);
    if known >= JOB_EARLY_STOPS_MAX {
        return Ok(false);
    }
    turn.tx.put(&origin, &EarlyStops(known.saturating_add(1)));
    turn.tx.put(&key, &stopped(turn));
    deadline::set(turn, turn.now.node.plus_ms(SEEN_MS), Deadline::ForgetExecution(origin, job));
    Ok(true)
}

/// An execution is forgotten; if it was one of these, there is room for another.
pub(super) fn forgotten(
    tx: &mut Overlay<'_>,
    origin: NodeId,
    execution: &Execution,
) -> Result<(), StoreError> {
    // Nobody's job runs in nobody's name.
    if !execution.tenant.is_empty() {
        return Ok(());
    }
    match get::<EarlyStops>(tx, &origin)? {
        Some(EarlyStops(known)) if known > 1 => tx.put(&origin, &EarlyStops(known - 1)),
        Some(_) => tx.delete::<EarlyStops>(&origin),
        None => {}
    }
    Ok(())
}

fn stopped(turn: &Turn<'_, '_>) -> Execution {
    Execution {
        tenant: String::new(),
        asked: Outline::of(&JobSpec::new(Language::Bash, String::new())),
        state: ExecutionState::Ended,
        attempt: 0,
        queued_at: turn.now.node,
        created_wall_ms: turn.now.wall_ms,
        reserved: 0,
    }
}

#[cfg(test)]
mod tests {
    use mesh_protocol::codec::encode;

    use super::*;

    #[test]
    fn the_bytes_of_the_count_never_change() {
        assert_eq!(encode(&EarlyStops(300)), [0xac, 2]);
    }
}

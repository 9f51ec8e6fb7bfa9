//! Stops that came before the ask or the job they are about: remembered, so that it is not begun when it does come.
//!
//! A request comes after its stop only where a disk was set back, so a stop is remembered as long as a message that was
//! applied, in the place of what it stops. Of one peer a bounded number is: anybody can make up what to stop.

use mesh_protocol::id::NodeId;
use serde::{Deserialize, Serialize};

use crate::limits::EARLY_STOPS_MAX;
use crate::store::{Overlay, Record, StoreError, Table, get};

/// How many of a peer's are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct EarlyStops(u64);

impl Record for EarlyStops {
    const TABLE: Table = Table::EarlyStops;
    type Key = NodeId;
}

/// Takes room for one, if there is some.
pub(crate) fn take_room(tx: &mut Overlay<'_>, origin: NodeId) -> Result<bool, StoreError> {
    let known = get::<EarlyStops>(tx, &origin)?.map_or(0, |EarlyStops(known)| known);
    let room = known < EARLY_STOPS_MAX;
    if room {
        tx.put(&origin, &EarlyStops(known.saturating_add(1)));
    }
    Ok(room)
}

/// One is forgotten.
pub(crate) fn give_room(tx: &mut Overlay<'_>, origin: NodeId) -> Result<(), StoreError> {
    match get::<EarlyStops>(tx, &origin)? {
        Some(EarlyStops(known)) if known > 1 => tx.put(&origin, &EarlyStops(known - 1)),
        Some(_) => tx.delete::<EarlyStops>(&origin),
        None => {}
    }
    Ok(())
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

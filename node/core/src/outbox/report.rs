//! What delivery could not do, durably: restored disks and the gaps they left. For people, and for whoever has to
//! call an outcome unknown.

use mesh_protocol::delivery::Epoch;
use mesh_protocol::id::NodeId;
use serde::{Deserialize, Serialize};

use crate::limits::DELIVERY_REPORTS_MAX;
use crate::store::{Key, Overlay, Record, Scan, Store, StoreError, Table, scan_prefix};
use crate::time::NodeTime;

/// One finding about the deliveries from or to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryReport {
    /// When it was found.
    pub at: NodeTime,
    /// The same for people, milliseconds since 1970.
    pub wall_ms: u64,
    /// The other node.
    pub peer: NodeId,
    /// What this node was in it.
    pub side: Side,
    /// What was found.
    pub kind: ReportKind,
    /// The numbering of the range.
    pub epoch: Epoch,
    /// First sequence concerned.
    pub from: u64,
    /// Last sequence concerned.
    pub to: u64,
}

/// Which end of an outbox this node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    /// It is this node's outbox.
    Sending,
    /// It is the peer's outbox.
    Receiving,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReportKind {
    /// The sender's disk went back. It no longer knows what it queued in this range; the rest went again.
    SenderRolledBack,
    /// The receiver's disk went back: effects in this range are undone. What the sender keeps goes again.
    ReceiverRolledBack,
    /// Of those effects, these cannot be brought back. The outcome of what they began is unknown.
    Gap,
    /// The sender began a new numbering: its disk went back, or its operator discarded the outbox.
    NewEpoch,
}

impl Record for DeliveryReport {
    const TABLE: Table = Table::DeliveryReports;
    type Key = (NodeId, u64);
}

/// Adds a report, in place of the peer's oldest when there are many.
pub(super) fn write(tx: &mut Overlay<'_>, report: &DeliveryReport) -> Result<(), StoreError> {
    let newest = tx.scan(Table::DeliveryReports, &Scan::prefix(&report.peer.to_bytes(), 1).backwards())?;
    let number = match newest.first() {
        Some((key, _)) => <(NodeId, u64)>::from_bytes(key)
            .map_err(|source| StoreError::Key { table: Table::DeliveryReports, source })?
            .1
            .saturating_add(1),
        None => 0,
    };
    tx.put(&(report.peer, number), report);
    if let Some(oldest) = number.checked_sub(DELIVERY_REPORTS_MAX) {
        tx.delete::<DeliveryReport>(&(report.peer, oldest));
    }
    Ok(())
}

/// The reports kept, in order of peer and then of time, at most `limit`.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn reports(store: &dyn Store, limit: usize) -> Result<Vec<DeliveryReport>, StoreError> {
    Ok(scan_prefix::<DeliveryReport>(store, &(), limit)?.into_iter().map(|(_, report)| report).collect())
}

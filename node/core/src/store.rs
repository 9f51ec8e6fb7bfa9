//! Durable state, as the core sees it: ordered rows of bytes in named tables.
//!
//! [`Store`] is the read side and has two implementations, a database (in the node) and [`OrderedStore`] (maps in
//! memory, for simulations and tests); [`conformance`] is the one suite both must pass. Writes go into an [`Overlay`]
//! over a store: the handler of an event sees its own writes, and nobody else does until they are applied. A handler
//! that fails simply drops its overlay.
//!
//! Typed access is by [`Record`]: a value type that knows its table, its version and its key.

pub mod conformance;
mod key;
mod merge;
mod ordered;
mod overlay;
mod record;
mod tables;

pub use key::{Key, KeyError};
pub use merge::merge;
pub use ordered::OrderedStore;
pub use overlay::{Change, Overlay};
pub use record::{Record, get, scan_before, scan_from, scan_last, scan_last_of, scan_prefix};

use mesh_protocol::codec::DecodeError;
use thiserror::Error;

/// The tables. The number is the first byte of every key on disk: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// Single rows about this node: identity, counters, clock.
    Node = 1,
    /// Members' signed directory records, by node.
    Directory = 2,
    /// What a peer may do here, by node.
    Policy = 3,
    /// The preset for members without a row of their own: one row.
    DefaultTrust = 7,
    /// This node's place in its mesh: one row.
    Place = 8,
    /// How often this node has started: one row.
    Starts = 9,
    /// Nodes blocked here, by node.
    Blocks = 51,
    /// What a ticket's user may do here, by ticket.
    TicketTrusts = 52,
    /// Tickets issued here, by ticket.
    Tickets = 4,
    /// Certificates issued here, by node.
    Certificates = 5,
    /// The newest revocation list: one row.
    Revocations = 6,
    /// The sending side of each peer's outbox, by peer.
    OutboxHeads = 10,
    /// Parcels waiting for a peer's acknowledgement, by peer and sequence.
    OutboxParcels = 11,
    /// Parcels by message, to find one again.
    OutboxMessages = 12,
    /// The receiving side: which session of a peer may deliver, and how far each epoch was taken in, by peer.
    InboxMarks = 13,
    /// Messages already applied, by peer and message.
    InboxSeen = 14,
    /// Deadlines of parcels, by time.
    OutboxDeadlines = 15,
    /// What delivery could not do: gaps, rollbacks, by peer and number.
    DeliveryReports = 16,
    /// Messages applied, by time, to forget old ones.
    InboxSeenByTime = 17,
    /// The one status a slot has in its outbox and the one waiting behind it, by peer and slot.
    OutboxSlots = 18,
    /// What all outboxes of this node hold together: a single row.
    OutboxTotals = 19,
    /// Conversations, by conversation.
    Conversations = 20,
    /// Messages, by message.
    Messages = 21,
    /// Receipts of commands that carry a client's own id, by that id.
    Receipts = 22,
    /// Which message each peer's parts are being put together for, by peer.
    PartHeads = 24,
    /// Parts of a message that has not arrived whole, by peer and place.
    Parts = 25,
    /// Asks as their origin knows them, by flight.
    Flights = 30,
    /// Asks as the node that runs them knows them, by origin and flight.
    Runs = 31,
    /// Runs waiting or at work, by time.
    RunQueue = 32,
    /// What is due when: deadlines of flights, runs, jobs and executions, by time.
    Deadlines = 33,
    /// Flights that have not ended, by target node and flight.
    OpenFlights = 34,
    /// Jobs as their origin knows them, by job.
    Jobs = 40,
    /// Jobs as the node that runs them knows them, by origin and job.
    Executions = 41,
    /// Jobs that have not ended, by executor and job.
    OpenJobs = 42,
    /// Evidence of jobs, by job: the exact bytes.
    Evidence = 43,
    /// Executions waiting or running, by time.
    JobQueue = 44,
    /// What waiting executions are to run, by origin and job; and, at their origin, jobs that may be run elsewhere.
    JobBodies = 45,
    /// Events of jobs, by origin, job and place.
    JobEvents = 46,
    /// Files that jobs left, by job and place.
    JobOutputs = 47,
    /// What each tenant has here, by tenant.
    JobUsage = 48,
    /// When each tenant's turn was, by tenant.
    JobTurns = 49,
    /// Jobs whose end this node decided and has not attested, by job.
    Unattested = 53,
    /// What was seen of the streams of jobs whose end is to be signed, by job.
    StreamsSeen = 54,
    /// How many asks and jobs of each peer are remembered as stopped before they came, by peer.
    EarlyStops = 55,
    /// Events that made a handler panic, by time.
    Quarantine = 50,
}

impl Table {
    /// The first byte of this table's keys on disk.
    #[must_use]
    pub const fn prefix(self) -> u8 {
        self as u8
    }
}

/// Why state could not be read. Nothing was changed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The database failed. The node stops taking work and opens it again.
    #[error("cannot read the database")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A row is not what its table holds: a newer release wrote it, or the file is damaged.
    #[error("row in table {table:?} is not readable")]
    Row {
        /// Where.
        table: Table,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// A key is not what its table holds.
    #[error("key in table {table:?} is not readable")]
    Key {
        /// Where.
        table: Table,
        /// What is wrong with it.
        #[source]
        source: KeyError,
    },
}

/// One row: key (without the table's prefix) and value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Which rows of a table a scan visits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// First key that may be visited, inclusive.
    pub from: Vec<u8>,
    /// First key that may not; `None` for the end of the table.
    pub to: Option<Vec<u8>>,
    /// Last row first.
    pub backwards: bool,
    /// Rows at most.
    pub limit: usize,
}

impl Scan {
    /// All keys that begin with these bytes, at most `limit`.
    #[must_use]
    pub fn prefix(prefix: &[u8], limit: usize) -> Self {
        Self { from: prefix.to_vec(), to: key::successor(prefix), backwards: false, limit }
    }

    /// The same rows, last first.
    #[must_use]
    pub fn backwards(mut self) -> Self {
        self.backwards = true;
        self
    }
}

/// A consistent view of durable state.
pub trait Store {
    /// The value at a key.
    ///
    /// # Errors
    /// [`StoreError::Backend`] when the database fails.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The rows a scan visits, in key order.
    ///
    /// # Errors
    /// [`StoreError::Backend`] when the database fails.
    fn scan(&self, table: Table, scan: &Scan) -> Result<Vec<Row>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_maps_are_a_store() {
        conformance::check_all(OrderedStore::default);
    }
}

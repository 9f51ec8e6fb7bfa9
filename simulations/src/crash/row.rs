//! The crashes and failures that delivery must survive, by the names of the table in the documentation.

/// A row of that table. `S` is the sender's side, `R` the receiver's, `L` the link's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    /// Before the commit that publishes.
    S1,
    /// During it.
    S2,
    /// After it, before its caller was told.
    S3,
    /// The commit returned an error, and the machine runs on.
    S4,
    /// Before a parcel was put on the wire.
    S5,
    /// It was, and is not acknowledged.
    S6,
    /// The acknowledgement has arrived and is not recorded.
    S7,
    /// The sender's disk is restored from a backup.
    S8,
    /// A parcel was read and not committed.
    R1,
    /// During the commit that takes it.
    R2,
    /// After it, before the acknowledgement was sent.
    R3,
    /// The acknowledgement was sent and lost.
    R4,
    /// What a parcel asks for is durable and has not begun.
    R5,
    /// Its effect is written and not committed.
    R6,
    /// An effect outside is done and its end is not recorded.
    R7,
    /// Its end is recorded, with the answer, which was not sent.
    R8,
    /// The receiver's disk is restored from a backup.
    R9,
    /// The receiver's disk is full.
    R10,
    /// The link is lost.
    L1,
    /// The peer is blocked or revoked.
    L2,
    /// A message expired before it was sent.
    L3,
}

impl Row {
    /// All of them. Not here: a database that does not open (`S9`), which is a file's business.
    pub const ALL: [Self; 21] = [
        Self::S1,
        Self::S2,
        Self::S3,
        Self::S4,
        Self::S5,
        Self::S6,
        Self::S7,
        Self::S8,
        Self::R1,
        Self::R2,
        Self::R3,
        Self::R4,
        Self::R5,
        Self::R6,
        Self::R7,
        Self::R8,
        Self::R9,
        Self::R10,
        Self::L1,
        Self::L2,
        Self::L3,
    ];
}

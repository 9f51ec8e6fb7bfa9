//! One anti-entropy exchange over one stream, as a machine that eats and emits frames.
//!
//! ```text
//!   initiator:  AwaitDigest --Buckets--> AwaitRows --last Rows--.
//!                    |---------Digest--------------------> AwaitRecords --last Records--> Done
//!                    '---------Same------------------------------------------------------^
//!   responder:  AwaitRoot -------------> AwaitSelect -----> AwaitOffers ---last Offer---> Done
//!                    '---------equal root------------------------------------------------^
//! ```
//! `AwaitRows` and `AwaitSelect` are only for directories too large for one digest.
//!
//! The driver is a loop: open a stream, send what [`Exchange::initiate`] gives (the responder starts with
//! [`Exchange::respond`]), then for each frame read send [`Step::send`], check [`Step::heard`] with [`Heard::check`]
//! and hand it to the membership machine, and stop at [`Step::done`]. It decides nothing, and an error ends only this exchange.
//!
//! The machine holds no directory: each step is given the one of that moment, so records that arrive meanwhile by
//! other exchanges are not asked for twice. Bounds: as many frames and records as a directory has members.

use std::collections::BTreeSet;

use mesh_protocol::codec::DecodeError;
use mesh_protocol::id::NodeId;
use mesh_protocol::limits::CONTROL_FRAME_BYTES_MAX;
use mesh_protocol::record::{NodeRecord, RecordError, SignedRecord, Unchecked, VerifiedRecord};
use mesh_protocol::root::RootKey;
use mesh_protocol::sync::{
    BUCKETS, BucketHash, DIGEST_ROWS_MAX, DigestRow, IdPrefix, Liveness, MEMBERS_MAX, ROWS_PER_FRAME_MAX,
    SyncFrame,
};
use thiserror::Error;

use super::{Directory, Entry, prefix};

/// Bytes of records in one frame: what the frame holds, less its head and a full list of wanted prefixes.
const RECORDS_PER_FRAME_BYTES: usize = CONTROL_FRAME_BYTES_MAX - 8 * ROWS_PER_FRAME_MAX - 64;
/// Bytes a record takes in a frame beside its body: signature and two lengths.
const RECORD_OVERHEAD_BYTES: usize = 70;

/// Why an exchange ended early. What it had already brought stays.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum ExchangeError {
    /// The peer's bytes are no frame.
    #[error("the peer sent an unreadable frame")]
    Frame(#[from] DecodeError),
    /// A frame that has no place here.
    #[error("the peer sent a frame out of turn")]
    OutOfTurn,
    /// More frames or records than a directory can hold.
    #[error("the peer sent more than {MEMBERS_MAX} records or frames")]
    TooMuch,
}

/// What an exchange brought so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// Records, unverified.
    pub records: Vec<SignedRecord>,
    /// Members that the peer gets no answer from: where to look, not what to believe.
    pub silent: Vec<NodeId>,
}

/// The same after its signatures were checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Records that are their owners' word.
    pub records: Vec<VerifiedRecord>,
    /// Why others were dropped, to count against who brought them.
    pub refused: Vec<RecordError>,
    /// As in [`Heard::silent`].
    pub silent: Vec<NodeId>,
}

impl Heard {
    /// Checks the signatures that `unchecked` says are worth it. It is the costly part of an exchange, done before the
    /// membership machine is bothered.
    #[must_use]
    pub fn check(
        self,
        root: &RootKey,
        unchecked: impl Fn(&NodeRecord, &SignedRecord) -> Unchecked,
    ) -> Checked {
        let mut checked = Checked { silent: self.silent, ..Checked::default() };
        for signed in self.records {
            match signed.verify_unchecked(root, &unchecked) {
                Ok(news) => checked.records.extend(news),
                Err(error) => checked.refused.push(error),
            }
        }
        checked
    }
}

/// What to do after one frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Frame bodies to send, in order, each within [`CONTROL_FRAME_BYTES_MAX`].
    pub send: Vec<Vec<u8>>,
    /// What to hand to the membership machine.
    pub heard: Heard,
    /// Nothing more will come or go.
    pub done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    AwaitRoot,
    AwaitDigest,
    AwaitSelect,
    AwaitRows,
    AwaitOffers,
    AwaitRecords,
    Done,
}

/// One end of one exchange.
#[derive(Debug)]
pub struct Exchange {
    phase: Phase,
    wanted: Vec<IdPrefix>,
    selected: Selection,
    rows: Vec<DigestRow>,
    frames: usize,
    records: usize,
}

impl Exchange {
    /// The end that opens the stream, and its first frame.
    #[must_use]
    pub fn initiate(directory: &Directory) -> (Self, Vec<u8>) {
        (Self::in_phase(Phase::AwaitDigest), SyncFrame::Root(directory.root()).encode())
    }

    /// The end that accepts it.
    #[must_use]
    pub const fn respond() -> Self {
        Self::in_phase(Phase::AwaitRoot)
    }

    const fn in_phase(phase: Phase) -> Self {
        let everything = [0xff; BUCKETS / 8];
        Self { phase, wanted: Vec::new(), selected: everything, rows: Vec::new(), frames: 0, records: 0 }
    }

    /// Takes one frame body from the peer. `liveness` is what this node makes of each member.
    ///
    /// # Errors
    /// [`ExchangeError`]: close the stream, count it against the peer.
    pub fn handle(
        &mut self,
        directory: &Directory,
        liveness: impl Fn(&NodeId) -> Liveness,
        body: &[u8],
    ) -> Result<Step, ExchangeError> {
        self.frames = self.frames.saturating_add(1);
        if self.frames > MEMBERS_MAX {
            return Err(ExchangeError::TooMuch);
        }
        match (self.phase, SyncFrame::decode(body)?) {
            (Phase::AwaitRoot, SyncFrame::Root(root)) if root == directory.root() => {
                self.phase = Phase::Done;
                Ok(Step { send: vec![SyncFrame::Same.encode()], done: true, ..Step::default() })
            }
            (Phase::AwaitRoot, SyncFrame::Root(_)) if directory.len() > DIGEST_ROWS_MAX => {
                self.phase = Phase::AwaitSelect;
                Ok(Step::sending(&SyncFrame::Buckets(directory.buckets().to_vec())))
            }
            (Phase::AwaitRoot, SyncFrame::Root(_)) => {
                self.phase = Phase::AwaitOffers;
                Ok(Step::sending(&SyncFrame::Digest(digest(directory, self.selected, liveness))))
            }
            (Phase::AwaitDigest, SyncFrame::Same) => {
                self.phase = Phase::Done;
                Ok(Step { done: true, ..Step::default() })
            }
            (Phase::AwaitDigest, SyncFrame::Digest(rows)) => {
                self.phase = Phase::AwaitRecords;
                Ok(compare(directory, self.selected, &rows))
            }
            (Phase::AwaitDigest, SyncFrame::Buckets(theirs)) => {
                self.phase = Phase::AwaitRows;
                self.selected = differing(directory.buckets(), &theirs);
                Ok(Step::sending(&SyncFrame::Select(self.selected)))
            }
            (Phase::AwaitSelect, SyncFrame::Select(selected)) => {
                self.phase = Phase::AwaitOffers;
                let rows = digest(directory, selected, liveness);
                let pages = with_last(chunks(&rows));
                let frames = pages.map(|(rows, last)| SyncFrame::Rows { rows, last }.encode());
                Ok(Step { send: frames.collect(), ..Step::default() })
            }
            (Phase::AwaitRows, SyncFrame::Rows { rows, last }) => {
                self.rows.extend(rows);
                if self.rows.len() > MEMBERS_MAX {
                    return Err(ExchangeError::TooMuch);
                }
                if !last {
                    return Ok(Step::default());
                }
                self.phase = Phase::AwaitRecords;
                Ok(compare(directory, self.selected, &std::mem::take(&mut self.rows)))
            }
            (Phase::AwaitOffers, SyncFrame::Offer { wanted, records, last }) => {
                self.count(&records)?;
                self.wanted.extend(wanted);
                self.after_offer(directory, records, last)
            }
            (Phase::AwaitRecords, SyncFrame::Records { records, last }) => {
                self.count(&records)?;
                if last {
                    self.phase = Phase::Done;
                }
                Ok(Step { heard: Heard { records, silent: Vec::new() }, done: last, ..Step::default() })
            }
            _ => Err(ExchangeError::OutOfTurn),
        }
    }

    fn after_offer(
        &mut self,
        directory: &Directory,
        records: Vec<SignedRecord>,
        last: bool,
    ) -> Result<Step, ExchangeError> {
        if self.wanted.len() > MEMBERS_MAX {
            return Err(ExchangeError::TooMuch);
        }
        let heard = Heard { records, silent: Vec::new() };
        if !last {
            return Ok(Step { heard, ..Step::default() });
        }
        self.phase = Phase::Done;
        let wanted: BTreeSet<IdPrefix> = std::mem::take(&mut self.wanted).into_iter().collect();
        let chosen = wanted.iter().filter_map(|wanted| directory.by_prefix(wanted));
        let pages = pages(chosen.map(|(_, entry)| entry.signed()));
        let send = with_last(pages).map(|(records, last)| SyncFrame::Records { records, last }.encode());
        Ok(Step { send: send.collect(), heard, done: true })
    }

    fn count(&mut self, records: &[SignedRecord]) -> Result<(), ExchangeError> {
        self.records = self.records.saturating_add(records.len());
        if self.records > MEMBERS_MAX { Err(ExchangeError::TooMuch) } else { Ok(()) }
    }
}

impl Step {
    fn sending(frame: &SyncFrame) -> Self {
        Self { send: vec![frame.encode()], ..Self::default() }
    }
}

/// A bit for each bucket.
type Selection = [u8; BUCKETS / 8];

fn differing(ours: &[BucketHash], theirs: &[BucketHash]) -> Selection {
    let mut selected = [0; BUCKETS / 8];
    for (byte, (ours, theirs)) in selected.iter_mut().zip(ours.chunks(8).zip(theirs.chunks(8))) {
        for (bit, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            *byte |= u8::from(ours != theirs) << bit;
        }
    }
    selected
}

fn entries_in(directory: &Directory, selected: Selection) -> impl Iterator<Item = (&NodeId, &Entry)> {
    directory.iter().filter(move |(node, _)| {
        let [bucket, ..] = *node.as_bytes();
        selected.get(usize::from(bucket / 8)).is_some_and(|byte| byte >> (bucket % 8) & 1 == 1)
    })
}

fn digest(
    directory: &Directory,
    selected: Selection,
    liveness: impl Fn(&NodeId) -> Liveness,
) -> Vec<DigestRow> {
    entries_in(directory, selected)
        .map(|(node, entry)| DigestRow { prefix: prefix(node), mark: entry.mark, liveness: liveness(node) })
        .collect()
}

/// The initiator's answer to a digest: what the peer lacks, what it seems to have newer, and whom it calls silent.
fn compare(directory: &Directory, selected: Selection, rows: &[DigestRow]) -> Step {
    let mut not_lacking = BTreeSet::new();
    let mut wanted = Vec::new();
    let mut silent = Vec::new();
    for row in rows {
        let held = directory.by_prefix(&row.prefix);
        if let Some((node, _)) = held.filter(|_| row.liveness == Liveness::Silent) {
            silent.push(*node);
        }
        match held {
            Some((node, entry)) if entry.mark == row.mark => {
                not_lacking.insert(*node);
            }
            Some((node, entry)) => {
                if row.mark.is_not_older_than(entry.mark) {
                    wanted.push(row.prefix);
                }
                if !entry.mark.is_not_older_than(row.mark) {
                    not_lacking.insert(*node);
                }
            }
            None => wanted.push(row.prefix),
        }
    }
    let lacking = entries_in(directory, selected).filter(|(node, _)| !not_lacking.contains(*node));
    let pages = pages(lacking.map(|(_, entry)| entry.signed()));
    let mut wanted = chunks(&wanted);
    let frames = pages.len().max(wanted.len());
    let mut pages = pages;
    pages.resize_with(frames, Vec::new);
    wanted.resize_with(frames, Vec::new);
    let offers = with_last(wanted.into_iter().zip(pages).collect());
    let send = offers.map(|((wanted, records), last)| SyncFrame::Offer { wanted, records, last }.encode());
    Step { send: send.collect(), heard: Heard { records: Vec::new(), silent }, done: false }
}

/// In runs of at most [`ROWS_PER_FRAME_MAX`]; one empty run when there is nothing.
fn chunks<T: Clone>(all: &[T]) -> Vec<Vec<T>> {
    let mut chunks: Vec<Vec<T>> = all.chunks(ROWS_PER_FRAME_MAX).map(<[T]>::to_vec).collect();
    if chunks.is_empty() {
        chunks.push(Vec::new());
    }
    chunks
}

/// The records in runs that fit in a frame each; one empty run when there are none.
fn pages<'a>(records: impl Iterator<Item = &'a SignedRecord>) -> Vec<Vec<SignedRecord>> {
    let mut pages = Vec::new();
    let (mut page, mut bytes) = (Vec::new(), 0_usize);
    for record in records {
        let more = record.body.len().saturating_add(RECORD_OVERHEAD_BYTES);
        if bytes.saturating_add(more) > RECORDS_PER_FRAME_BYTES {
            pages.push(std::mem::take(&mut page));
            bytes = 0;
        }
        bytes = bytes.saturating_add(more);
        page.push(record.clone());
    }
    pages.push(page);
    pages
}

fn with_last<T>(pages: Vec<T>) -> impl Iterator<Item = (T, bool)> {
    let count = pages.len();
    pages.into_iter().enumerate().map(move |(index, page)| (page, index.saturating_add(1) == count))
}

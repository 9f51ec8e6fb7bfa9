//! The journal: what was committed since the tree was last made durable, in a file beside it.
//!
//! ```text
//!  batch ──> frame ──append, one flush──> kept, its rows in memory
//!
//!  one half of the file  ▓▓▓▓▓▓▓▓▓░░░   a round, on its way into the tree
//!  the other             ▓▓▓░░░░░░░░░   the round after it, which grows meanwhile
//! ```
//!
//! A frame is one batch: its number, the length of its rows, a hash, the rows. The hash covers the frame and the hash
//! before it in its round; the first one, what the round begins after: a commit, and how often the database had been
//! opened. So a frame counts only where it continues exactly what the tree and the rounds before it hold. What else is
//! in the file (torn by a crash, left from an earlier round, or later than a tree that was put back from a backup) is
//! not read. A peer chooses bytes of our rows, so the hash is a cryptographic one.
//!
//! The file has its full length from the start, so that a flush of it moves nothing but data, and a full disk does not
//! stop what is under way.
//!
//! Invariants:
//! - A frame is read again only if every frame before it is.
//! - The tree on the disk never has part of a frame, and is never ahead of the journal but by whole rounds of it.
//! - A round is written over only once the tree has it; who turns the journal sees to that.

use std::fmt;
use std::io;

use redb::StorageBackend;
use serde::{Deserialize, Serialize};
use serde_bytes::{ByteBuf, Bytes};
use sha2::{Digest as _, Sha256};

use super::rows::Written;

/// Bytes before the rows of a frame: its number and their length, each big-endian, and its hash.
const HEADER_BYTES: usize = 8 + 4 + HASH_BYTES;

const HASH_BYTES: usize = 32;

/// Zeros are written this many bytes at a time.
const FILL_BYTES: usize = 64 * 1024;

type Hash = [u8; HASH_BYTES];

/// A row as it is on disk: its key with the table's prefix, and its value, or `None` where it was removed.
#[derive(Debug, Serialize)]
struct Row<'a>(&'a Bytes, Option<&'a Bytes>);

/// The same, read.
#[derive(Debug, Deserialize)]
struct Found(ByteBuf, Option<ByteBuf>);

/// What a round begins after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beginning {
    /// How often the tree had been opened.
    pub(super) opens: u64,
    /// The last commit that is durable in the tree.
    pub(super) commit: u64,
}

impl Beginning {
    /// The hash before the first frame.
    fn hash(self) -> Hash {
        let begin = Sha256::new().chain_update(b"mesh journal 1");
        begin.chain_update(self.opens.to_be_bytes()).chain_update(self.commit.to_be_bytes()).finalize().into()
    }
}

/// The rows of one frame, on their way into it.
#[derive(Debug)]
pub(super) struct Frame {
    /// Room for the header, then the rows.
    bytes: Vec<u8>,
}

impl Frame {
    /// No rows yet.
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; HEADER_BYTES] }
    }

    /// Adds a row, or its removal.
    pub(super) fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        let row = Row(Bytes::new(key), value.map(Bytes::new));
        self.bytes = postcard::to_extend(&row, std::mem::take(&mut self.bytes)).map_err(io::Error::other)?;
        Ok(())
    }

    /// Writes the header, and gives the whole frame and its hash.
    fn seal(&mut self, before: &Hash, number: u64) -> Option<(&[u8], Hash)> {
        let (header, rows) = self.bytes.split_at_mut_checked(HEADER_BYTES)?;
        let length = u32::try_from(rows.len()).ok()?;
        let hash = hash(before, number, rows);
        let (place, rest) = header.split_at_mut_checked(8)?;
        place.copy_from_slice(&number.to_be_bytes());
        let (place, rest) = rest.split_at_mut_checked(4)?;
        place.copy_from_slice(&length.to_be_bytes());
        rest.copy_from_slice(&hash);
        Some((&self.bytes, hash))
    }
}

/// Whether a frame is in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appended {
    /// It is.
    Kept,
    /// There is no room: make the tree durable with this batch in it, and then [`Journal::turn`].
    Full,
}

/// The open file, and where its next frame goes.
pub(super) struct Journal {
    file: Box<dyn StorageBackend>,
    /// Bytes of one half.
    half: u64,
    /// Where the half of this round begins.
    begin: u64,
    end: u64,
    opens: u64,
    last: Hash,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Journal({} of {} bytes)", self.end.saturating_sub(self.begin), self.half)
    }
}

impl Journal {
    /// Takes the file, giving it its length when it is new, to be read from its beginning.
    ///
    /// # Errors
    /// When the file cannot be measured, filled or flushed.
    pub(super) fn open(file: Box<dyn StorageBackend>, capacity: u64, after: Beginning) -> io::Result<Self> {
        let mut at = file.len()?;
        if at < capacity {
            let zeros = [0; FILL_BYTES];
            while at < capacity {
                let bytes = usize::try_from(capacity - at).map_or(FILL_BYTES, |rest| rest.min(FILL_BYTES));
                let end = at.saturating_add(as_u64(bytes));
                file.set_len(end)?;
                file.write(at, zeros.get(..bytes).unwrap_or(&zeros))?;
                at = end;
            }
            file.sync_data()?;
        }
        Ok(Self { file, half: capacity / 2, begin: 0, end: 0, opens: after.opens, last: after.hash() })
    }

    /// Forgets what is in it: the tree was opened, and is durable up to and with what is in it.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn clear(&mut self, after: Beginning) -> io::Result<()> {
        // A tree that was put back counts its openings as the one before did. What that one wrote must not follow.
        let nothing = vec![0; HEADER_BYTES.min(usize::try_from(self.half).unwrap_or(HEADER_BYTES))];
        for half in [0, self.half] {
            self.file.write(half, &nothing)?;
        }
        self.file.sync_data()?;
        self.opens = after.opens;
        self.turn(after.commit);
        Ok(())
    }

    /// Begins a round after this commit in the other half, which must have nothing that the tree has not.
    pub(super) fn turn(&mut self, commit: u64) {
        self.begin = if self.begin == 0 { self.half } else { 0 };
        self.end = self.begin;
        self.last = Beginning { opens: self.opens, commit }.hash();
    }

    /// Whether the round is long enough to be put into the tree: there is still as much room as it takes, for what comes
    /// meanwhile.
    pub(super) fn is_half_full(&self) -> bool {
        self.end.saturating_sub(self.begin) >= self.half / 2
    }

    /// Reads the next frame, which must have this number. Nothing where the round ends.
    ///
    /// # Errors
    /// Those of the file, and where the rows of a whole frame do not read.
    pub(super) fn read(&mut self, number: u64) -> io::Result<Option<Vec<Written>>> {
        let Some(rows_at) = self.room_for(as_u64(HEADER_BYTES)) else { return Ok(None) };
        let mut header = [0; HEADER_BYTES];
        self.file.read(self.end, &mut header)?;
        let Some((found, length, hashed)) = fields(&header).filter(|(found, ..)| *found == number) else {
            return Ok(None);
        };
        let Some(end) = self.room_for(as_u64(HEADER_BYTES).saturating_add(u64::from(length))) else {
            return Ok(None);
        };
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.file.read(rows_at, &mut bytes)?;
        if hash(&self.last, found, &bytes) != hashed {
            return Ok(None);
        }
        let mut rows = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (Found(key, value), after) = postcard::take_from_bytes(rest)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            rows.push(Written {
                key: key.into_vec().into(),
                value: value.map(|value| value.into_vec().into()),
            });
            rest = after;
        }
        self.end = end;
        self.last = hashed;
        Ok(Some(rows))
    }

    /// Adds a frame, and when `wait` says so returns only once the disk has it and all before it.
    ///
    /// # Errors
    /// Those of the file. Whether the frame is in it is then not known until the journal is read again.
    pub(super) fn append(&mut self, number: u64, frame: &mut Frame, wait: bool) -> io::Result<Appended> {
        let Some((bytes, hash)) = frame.seal(&self.last, number) else { return Ok(Appended::Full) };
        let Some(end) = self.room_for(as_u64(bytes.len())) else { return Ok(Appended::Full) };
        self.file.write(self.end, bytes)?;
        if wait {
            self.file.sync_data()?;
        }
        self.end = end;
        self.last = hash;
        Ok(Appended::Kept)
    }

    /// Where something of this length would end, if it fits.
    fn room_for(&self, bytes: u64) -> Option<u64> {
        self.end.checked_add(bytes).filter(|end| end.saturating_sub(self.begin) <= self.half)
    }
}

fn hash(before: &Hash, number: u64, rows: &[u8]) -> Hash {
    let length = as_u64(rows.len());
    let header = Sha256::new()
        .chain_update(before)
        .chain_update(number.to_be_bytes())
        .chain_update(length.to_be_bytes());
    header.chain_update(rows).finalize().into()
}

/// The number, the length and the hash in a header.
fn fields(header: &[u8; HEADER_BYTES]) -> Option<(u64, u32, Hash)> {
    let (number, rest) = header.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let hash = rest.first_chunk::<HASH_BYTES>()?;
    Some((u64::from_be_bytes(*number), u32::from_be_bytes(*length), *hash))
}

fn as_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

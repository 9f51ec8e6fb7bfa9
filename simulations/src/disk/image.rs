//! The bytes of a disk at one moment. A copy costs a pointer for each chunk, so that one may be kept of every
//! operation.

use std::sync::Arc;

/// All bytes of all files of a disk.
#[derive(Debug, Clone, Default)]
pub struct Image {
    pub(super) files: [FileImage; 2],
}

/// Bytes that are shared between copies until one of them changes.
const CHUNK: usize = 4_096;

type Chunk = [u8; CHUNK];

/// All bytes of a file. What was never written is a hole, which reads as zeros and takes no room.
#[derive(Debug, Clone, Default)]
pub(super) struct FileImage {
    /// `None` is a hole.
    chunks: Vec<Option<Arc<Chunk>>>,
    len: u64,
}

impl FileImage {
    /// The length, holes included.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Fills `out` from `offset` on; whether all of it lies within.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        if ends(offset, out.len()).is_none_or(|end| end > self.len) {
            return false;
        }
        for (chunk, within, part) in parts(offset, out.len()) {
            let Some(out) = out.get_mut(part) else { return false };
            match self.chunks.get(chunk).and_then(Option::as_ref).and_then(|bytes| bytes.get(within)) {
                Some(bytes) => out.copy_from_slice(bytes),
                None => out.fill(0),
            }
        }
        true
    }

    /// Writes, and grows when it must.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let Some(end) = ends(offset, data.len()) else { return };
        if end > self.len {
            self.set_len(end);
        }
        for (chunk, within, part) in parts(offset, data.len()) {
            let (Some(chunk), Some(data)) = (self.chunks.get_mut(chunk), data.get(part)) else { continue };
            let chunk = chunk.get_or_insert_with(|| Arc::new([0; CHUNK]));
            if let Some(bytes) = Arc::make_mut(chunk).get_mut(within) {
                bytes.copy_from_slice(data);
            }
        }
    }

    /// Whether a write there would take room that nothing takes yet.
    pub(super) fn fills_a_hole(&self, offset: u64, bytes: usize) -> bool {
        parts(offset, bytes).any(|(chunk, ..)| self.chunks.get(chunk).is_none_or(Option::is_none))
    }

    /// Cuts off, or adds a hole.
    pub(super) fn set_len(&mut self, len: u64) {
        let Ok(bytes) = usize::try_from(len) else { return };
        self.chunks.resize(bytes.div_ceil(CHUNK), None);
        // What is cut off must not come back when it grows again.
        if len < self.len
            && let Some(Some(last)) = self.chunks.last_mut()
            && let Some(rest) = Arc::make_mut(last).get_mut(bytes % CHUNK..).filter(|_| bytes % CHUNK != 0)
        {
            rest.fill(0);
        }
        self.len = len;
    }
}

fn ends(offset: u64, bytes: usize) -> Option<u64> {
    offset.checked_add(u64::try_from(bytes).ok()?)
}

/// The chunks a range covers: which, where within it, and which part of the range that is.
fn parts(
    offset: u64,
    bytes: usize,
) -> impl Iterator<Item = (usize, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = start.checked_add(done).filter(|_| done < bytes)?;
        let within = at % CHUNK;
        let size = (CHUNK - within).min(bytes - done);
        let part = (at / CHUNK, within..within + size, done..done + size);
        done += size;
        Some(part)
    })
}

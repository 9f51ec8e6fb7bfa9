//! Reads one output stream of a job: hashes everything, keeps the beginning, never holds more than a chunk.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::hex;
use crate::report::{JobObserver, Stream, StreamReport};

/// A stream being read.
pub(crate) struct Capture {
    stream: Stream,
    /// The pipe's reading end, not blocking; `None` after its end.
    pipe: Option<OwnedFd>,
    keep: u64,
    seen: u64,
    kept: u64,
    hash: Sha256,
}

impl Capture {
    pub(crate) fn new(stream: Stream, pipe: OwnedFd, keep: u64) -> Self {
        Self { stream, pipe: Some(pipe), keep, seen: 0, kept: 0, hash: Sha256::new() }
    }

    /// A stream that nobody read.
    pub(crate) fn unread(stream: Stream) -> Self {
        Self { stream, pipe: None, keep: 0, seen: 0, kept: 0, hash: Sha256::new() }
    }

    /// The pipe to wait on, until its end.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Bytes read so far.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Reads once, at most `buffer` bytes, and passes on what is still within the limit. Returns whether there
    /// may be more to read at once.
    pub(crate) fn read_once(&mut self, buffer: &mut [u8], observer: &mut dyn JobObserver) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        match rustix::io::read(pipe, &mut *buffer) {
            Ok(0) => self.pipe = None,
            Ok(length) => {
                self.take(buffer.get(..length).unwrap_or_default(), observer);
                return true;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.pipe = None,
        }
        false
    }

    fn take(&mut self, bytes: &[u8], observer: &mut dyn JobObserver) {
        let whole = self.kept == self.seen;
        self.hash.update(bytes);
        self.seen = self.seen.saturating_add(bytes.len() as u64);
        let room = usize::try_from(self.keep - self.kept).unwrap_or(usize::MAX);
        let shown = bytes.get(..room).unwrap_or(bytes);
        if !shown.is_empty() {
            self.kept += shown.len() as u64;
            observer.output(self.stream, shown);
        }
        if whole && self.kept < self.seen {
            observer.truncated(self.stream);
        }
    }

    pub(crate) fn report(self) -> StreamReport {
        StreamReport {
            bytes_seen: self.seen,
            bytes_kept: self.kept,
            raw_sha256: hex(&self.hash.finalize()),
            truncated: self.kept < self.seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Log(Vec<u8>, usize);

    impl JobObserver for Log {
        fn output(&mut self, _: Stream, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }
        fn truncated(&mut self, _: Stream) {
            self.1 += 1;
        }
    }

    #[test]
    fn everything_is_hashed_the_beginning_is_kept_and_truncation_is_told_once() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut capture = Capture::new(Stream::Stdout, reader, 5);
        let mut log = Log::default();
        for part in [&b"abc"[..], b"defg", b"h"] {
            rustix::io::write(&writer, part).unwrap();
            assert!(capture.read_once(&mut [0; 64], &mut log));
        }
        drop(writer);
        assert!(!capture.read_once(&mut [0; 64], &mut log));
        assert!(capture.as_fd().is_none());
        assert_eq!((log.0.as_slice(), log.1), (&b"abcde"[..], 1));
        let report = capture.report();
        assert_eq!((report.bytes_seen, report.bytes_kept, report.truncated), (8, 5, true));
        assert_eq!(report.raw_sha256, hex(&Sha256::digest(b"abcdefgh")));
    }

    #[test]
    fn output_of_exactly_the_limit_is_not_truncated() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut capture = Capture::new(Stream::Stderr, reader, 5);
        let mut log = Log::default();
        rustix::io::write(&writer, b"12345").unwrap();
        capture.read_once(&mut [0; 64], &mut log);
        assert_eq!(log.1, 0);
        assert!(!capture.report().truncated);
    }
}

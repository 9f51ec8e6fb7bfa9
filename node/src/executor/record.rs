//! What waits to become an event: output in the order it was written, in pieces no larger than an event should be.
//!
//! Pieces of one stream that follow each other are put together until they are taken, so that a job which writes a byte
//! at a time makes no more events than somebody could read. A job that writes to both streams in turns, faster than
//! events are stored, fills the queue; what comes then is lost, and that is said.

use std::collections::VecDeque;

use mesh_sandbox::Stream;

/// Bytes of output in one event.
pub(super) const RECORD_BYTES_MAX: usize = 16 * 1024;

/// Events one stream may make. More are cut off, as too many bytes are.
pub(super) const RECORDS_MAX: usize = 8_192;

/// Pieces that wait.
pub(super) const PIECES_MAX: usize = 1_024;

/// Something that becomes an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A job wrote this.
    Output(Stream, Vec<u8>),
    /// The rest of a stream is not kept; this many bytes are.
    Cut(Stream, usize),
}

/// Pieces that wait, in order.
#[derive(Debug, Default)]
pub(super) struct Pieces(VecDeque<Piece>);

/// There is no room.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Pieces {
    /// Adds output.
    pub(super) fn output(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Full> {
        let full = self.0.len() >= PIECES_MAX;
        match self.0.back_mut() {
            Some(Piece::Output(last, waiting)) if *last == stream => waiting.extend_from_slice(bytes),
            _ if full => return Err(Full),
            _ => self.0.push_back(Piece::Output(stream, bytes.to_vec())),
        }
        Ok(())
    }

    /// Adds that a stream is cut. There is always room: it happens once for each.
    pub(super) fn cut(&mut self, stream: Stream, kept: usize) {
        self.0.push_back(Piece::Cut(stream, kept));
    }

    /// The next piece, of at most [`RECORD_BYTES_MAX`], to the end of a line where there is one.
    pub(super) fn next(&mut self) -> Option<Piece> {
        match self.0.front_mut() {
            Some(Piece::Output(stream, waiting)) if waiting.len() > RECORD_BYTES_MAX => {
                let rest = waiting.split_off(end_of_record(waiting));
                Some(Piece::Output(*stream, std::mem::replace(waiting, rest)))
            }
            _ => self.0.pop_front(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Where a record ends that is cut from more than fits: behind a line, or else between characters.
fn end_of_record(bytes: &[u8]) -> usize {
    let most = bytes.get(..RECORD_BYTES_MAX).unwrap_or(bytes);
    let line = most.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
    let within = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    let character = (most.len().saturating_sub(3)..=most.len()).rev().find(|at| !within(at));
    line.or(character).unwrap_or(most.len())
}

#[cfg(test)]
mod tests {
    use mesh_sandbox::Stream::{Stderr, Stdout};

    use super::*;

    fn drained(mut pieces: Pieces) -> Vec<(Stream, Vec<u8>)> {
        let next = || match pieces.next()? {
            Piece::Output(stream, bytes) => Some((stream, bytes)),
            Piece::Cut(..) => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_byte_at_a_time_is_one_record_until_it_is_taken() {
        let mut pieces = Pieces::default();
        for _ in 0..10_000 {
            pieces.output(Stdout, b"x").unwrap();
        }
        assert_eq!(drained(pieces).len(), 1);
    }

    #[test]
    fn records_end_with_lines_where_they_can_and_never_within_a_character() {
        let mut pieces = Pieces::default();
        pieces.output(Stdout, "line\n".repeat(5_000).as_bytes()).unwrap();
        pieces.output(Stderr, "\u{1F600}".repeat(5_000).as_bytes()).unwrap();
        let records = drained(pieces);
        assert!(records.iter().all(|(_, bytes)| bytes.len() <= RECORD_BYTES_MAX));
        assert!(records.iter().all(|(_, bytes)| std::str::from_utf8(bytes).is_ok()));
        assert!(
            records.iter().filter(|(stream, _)| *stream == Stdout).all(|(_, bytes)| bytes.ends_with(b"\n"))
        );
        let whole: Vec<u8> = records.into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(whole.len(), 25_000 + 20_000);
    }

    #[test]
    fn streams_in_turns_fill_the_queue_and_keep_their_order() {
        let mut pieces = Pieces::default();
        for at in 0..PIECES_MAX {
            pieces.output(if at % 2 == 0 { Stdout } else { Stderr }, b"x").unwrap();
        }
        assert_eq!(pieces.output(Stdout, b"y"), Err(Full));
        assert_eq!(pieces.output(Stderr, b"y"), Ok(()), "what goes with the last still fits");
        pieces.next().unwrap();
        assert_eq!(pieces.output(Stdout, b"y"), Ok(()));
    }
}

//! The end of what a program wrote to stderr, fit to be shown: bounded, text, and without the run's secrets.
//!
//! A secret is found as the bytes it was passed as; one that the program encoded or split is not. What the cut at the
//! front or the kill at the end left of a secret is taken out as well.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::engine::Secret;
use crate::limits::{DRAIN_TIME, PIPE_CHUNK_BYTES, STDERR_TAIL_BYTES};

/// Stands for a secret.
const REDACTED: &str = "[redacted]";

/// Beginnings of a secret shorter than this stay at the end of the text: they say little, and match by chance.
const SHORTEST_BEGINNING_BYTES: usize = 4;

/// Collects stderr.
#[derive(Debug)]
pub(crate) struct StderrTail {
    secrets: Vec<Secret>,
    longest_secret: usize,
    bytes: VecDeque<u8>,
    dropped: bool,
}

impl StderrTail {
    /// An empty tail that will not show these.
    pub(crate) fn new(secrets: Vec<Secret>) -> Self {
        let secrets: Vec<Secret> = secrets.into_iter().filter(|secret| !secret.expose().is_empty()).collect();
        let longest_secret = secrets.iter().map(|secret| secret.expose().len()).max().unwrap_or(0);
        Self { secrets, longest_secret, bytes: VecDeque::new(), dropped: false }
    }

    /// Takes in what came next, and forgets what came long before.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend(chunk);
        // One secret more than is shown, so that one which reaches into the shown part is still seen whole.
        let excess = self.bytes.len().saturating_sub(STDERR_TAIL_BYTES + self.longest_secret);
        self.dropped |= excess > 0;
        self.bytes.drain(..excess);
    }

    /// The text to show, at most [`STDERR_TAIL_BYTES`].
    pub(crate) fn into_text(mut self) -> String {
        let bytes = self.bytes.make_contiguous();
        let secret = secret_bytes(bytes, &self.secrets);
        // What is left of a secret whose beginning was dropped lies within one secret's length.
        let from = if self.dropped { self.longest_secret.saturating_sub(1) } else { 0 };

        let mut shown = Vec::with_capacity(bytes.len());
        let mut in_secret = false;
        for (at, (&byte, &is_secret)) in bytes.iter().zip(&secret).enumerate() {
            if is_secret && !in_secret {
                shown.extend_from_slice(REDACTED.as_bytes());
            } else if !is_secret && at >= from {
                shown.push(byte);
            }
            in_secret = is_secret;
        }
        let text: String = String::from_utf8_lossy(&shown)
            .chars()
            .map(|c| if c.is_control() && c != '\n' && c != '\t' { char::REPLACEMENT_CHARACTER } else { c })
            .collect();
        end_of(text.trim_end(), STDERR_TAIL_BYTES).to_owned()
    }
}

/// The end of what a program writes to standard error, without these secrets. Once the program is `gone` it is not waited
/// for longer than [`DRAIN_TIME`]: somebody who left its group may hold the pipe for ever.
pub(crate) async fn tail_of(
    mut stderr: impl AsyncRead + Unpin,
    secrets: Vec<Secret>,
    gone: CancellationToken,
) -> String {
    let mut tail = StderrTail::new(secrets);
    let reading = async {
        let mut chunk = vec![0; PIPE_CHUNK_BYTES];
        while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
            tail.push(chunk.get(..read).unwrap_or_default());
        }
    };
    let drained = async {
        gone.cancelled().await;
        sleep(DRAIN_TIME).await;
    };
    tokio::select! {
        biased;
        () = reading => {}
        () = drained => tracing::debug!("the standard error of a program outlives it"),
    }
    tail.into_text()
}

/// For each byte, whether it belongs to a secret.
fn secret_bytes(bytes: &[u8], secrets: &[Secret]) -> Vec<bool> {
    let mut marks = vec![false; bytes.len()];
    for secret in secrets.iter().map(|secret| secret.expose().as_bytes()) {
        for at in 0..bytes.len() {
            let rest = bytes.get(at..).unwrap_or_default();
            let is_beginning = rest.len() >= SHORTEST_BEGINNING_BYTES && secret.starts_with(rest);
            if (rest.starts_with(secret) || is_beginning)
                && let Some(marks) = marks.get_mut(at..bytes.len().min(at + secret.len()))
            {
                marks.fill(true);
            }
        }
    }
    marks
}

/// The longest end of a text within a number of bytes.
fn end_of(text: &str, limit: usize) -> &str {
    let earliest = text.len().saturating_sub(limit);
    (earliest..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(secrets: &[&str], chunks: &[&[u8]]) -> String {
        let mut tail = StderrTail::new(secrets.iter().map(|secret| Secret::new(*secret)).collect());
        chunks.iter().for_each(|chunk| tail.push(chunk));
        tail.into_text()
    }

    #[test]
    fn secrets_are_taken_out_wherever_reads_split_them() {
        assert_eq!(shown(&["s3cret"], &[b"a s3c", b"ret b s3crets3cret"]), "a [redacted] b [redacted]");
        assert_eq!(shown(&["abc", "cde"], &[b"-abcde-"]), "-[redacted]-", "overlapping secrets");
        assert_eq!(shown(&[""], &[b"text"]), "text", "an empty value is no secret");
    }

    #[test]
    fn a_secret_cut_by_a_kill_is_taken_out() {
        assert_eq!(shown(&["tok-12345"], &[b"using tok-12"]), "using [redacted]");
        assert_eq!(shown(&["tok-12345"], &[b"start"]), "start");
    }

    #[test]
    fn a_secret_cut_at_the_front_is_taken_out_at_every_offset() {
        let secret = "0123456789ABCDEF";
        for filler in 0..=2 * secret.len() {
            let text = [secret.as_bytes(), &vec![b'.'; STDERR_TAIL_BYTES - secret.len() + filler]].concat();
            let text = shown(&[secret], &[&text]);
            assert!(!text.contains(|c| secret.contains(c)), "{filler}: {text}");
            assert!(text.len() <= STDERR_TAIL_BYTES);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pipe_that_outlives_its_program_is_let_go_and_what_came_through_it_is_kept() {
        let (mut held, stderr) = tokio::io::duplex(64);
        tokio::io::AsyncWriteExt::write_all(&mut held, b"last words").await.unwrap();
        let gone = CancellationToken::new();
        let tail = tokio::spawn(tail_of(stderr, Vec::new(), gone.clone()));
        sleep(DRAIN_TIME * 9).await;
        assert!(!tail.is_finished(), "it runs and may say more");
        drop(gone.drop_guard());
        assert_eq!(tail.await.unwrap(), "last words");
    }

    #[test]
    fn only_the_end_is_kept() {
        let text = shown(&[], &[&vec![b'a'; 3 * STDERR_TAIL_BYTES], b"the end\n\n"]);
        assert!(
            text.len() <= STDERR_TAIL_BYTES
                && text.len() > STDERR_TAIL_BYTES - 10
                && text.ends_with("athe end")
        );
    }

    #[test]
    fn bytes_that_are_no_text_cannot_drive_a_terminal_or_grow_the_tail() {
        assert_eq!(shown(&[], &[b"a\x1b[2J\tb\xff\r\n"]), "a\u{fffd}[2J\tb\u{fffd}\u{fffd}");
        assert!(shown(&["x"], &[&b"x\xff".repeat(STDERR_TAIL_BYTES)]).len() <= STDERR_TAIL_BYTES);
    }
}

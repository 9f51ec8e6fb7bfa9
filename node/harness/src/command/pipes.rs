//! The three pipes of a program, moved at once so that none of them can block the others.
//!
//! A program need not read its task, may close what it likes and write what it likes: a reply over its limit is noticed
//! while it is written, and of stderr only the end is kept.

use std::future::pending;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use crate::limits::{PIPE_CHUNK_BYTES, REPLY_BYTES};
use crate::stderr_tail::StderrTail;

/// Why moving stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// Nobody can write to stdout or stderr any more.
    Closed,
    /// stdout is over [`REPLY_BYTES`]. It was closed, and nothing of it is kept.
    ReplyTooLong,
}

/// Our ends of the pipes, and what has come through.
#[derive(Debug)]
pub(super) struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// What is left to write.
    task: Vec<u8>,
    written: usize,
    reply: Vec<u8>,
    too_long: bool,
    tail: StderrTail,
    stdout_chunk: Vec<u8>,
    stderr_chunk: Vec<u8>,
}

impl Pipes {
    pub(super) fn new(
        (stdin, stdout, stderr): (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>),
        task: Vec<u8>,
        tail: StderrTail,
    ) -> Self {
        let chunk = || vec![0; PIPE_CHUNK_BYTES];
        Self {
            stdin,
            stdout,
            stderr,
            task,
            written: 0,
            reply: Vec::new(),
            too_long: false,
            tail,
            stdout_chunk: chunk(),
            stderr_chunk: chunk(),
        }
    }

    /// Moves bytes until there is something to say. Loses nothing when it is dropped, and may be called again.
    pub(super) async fn pump(&mut self) -> Flow {
        while self.stdout.is_some() || self.stderr.is_some() {
            let left = self.task.get(self.written..).unwrap_or_default();
            tokio::select! {
                wrote = write(&mut self.stdin, left) => {
                    self.written += wrote;
                    if wrote == 0 {
                        self.stdin = None;
                    }
                }
                read = read(&mut self.stdout, &mut self.stdout_chunk) => {
                    let chunk = self.stdout_chunk.get(..read).unwrap_or_default();
                    if self.reply.len() + chunk.len() > REPLY_BYTES {
                        self.too_long = true;
                        self.stdout = None;
                        self.reply = Vec::new();
                        return Flow::ReplyTooLong;
                    }
                    self.reply.extend_from_slice(chunk);
                    if read == 0 {
                        self.stdout = None;
                    }
                }
                read = read(&mut self.stderr, &mut self.stderr_chunk) => {
                    self.tail.push(self.stderr_chunk.get(..read).unwrap_or_default());
                    if read == 0 {
                        self.stderr = None;
                    }
                }
            }
        }
        Flow::Closed
    }

    /// Moves bytes until the reply is too long; for ever if it never is.
    pub(super) async fn reply_too_long(&mut self) {
        if self.pump().await == Flow::Closed {
            pending::<()>().await;
        }
    }

    /// Moves bytes until nobody can write any more.
    pub(super) async fn closed(&mut self) {
        while self.pump().await != Flow::Closed {}
    }

    /// The reply, if it kept to its limit, and the end of stderr.
    pub(super) fn into_parts(self) -> (Option<Vec<u8>>, StderrTail) {
        ((!self.too_long).then_some(self.reply), self.tail)
    }
}

/// Bytes written; 0 when there is nothing left to write or nobody reads. Waits for ever on a pipe that is closed.
async fn write(pipe: &mut Option<ChildStdin>, bytes: &[u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.write(bytes).await.unwrap_or(0),
        None => pending().await,
    }
}

/// Bytes read; 0 at the end. Waits for ever on a pipe that is closed.
async fn read(pipe: &mut Option<impl AsyncRead + Unpin>, chunk: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(chunk).await.unwrap_or(0),
        None => pending().await,
    }
}

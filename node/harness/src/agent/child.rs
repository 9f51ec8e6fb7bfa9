//! A program that does a run: started in a process group of its own, read line by line, and ended with all it started.
//!
//! What it writes is hostile: a line that is too long is dropped, and of standard error only the end is kept, without
//! the secrets the program was given.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::EngineError;
use super::child_env::ChildEnv;
use crate::limits::{AGENT_LINE_BYTES, DRAIN_TIME};
use crate::process_group::ProcessGroup;
use crate::stderr_tail::tail_of;

/// A running program. Dropping it kills its group.
#[derive(Debug)]
pub(super) struct Child {
    group: ProcessGroup,
    stdin: Option<ChildStdin>,
    lines: Lines<ChildStdout>,
    stderr: JoinHandle<String>,
    /// Dropped when its group is gone: then nobody has to read its input, and its standard error is read to the end.
    gone: DropGuard,
}

/// How a program ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its status, unless the system did not tell.
    pub(super) status: Option<ExitStatus>,
    /// The end of what it wrote to standard error.
    pub(super) stderr: String,
}

impl Child {
    /// Starts a program in a directory, with exactly this environment.
    pub(super) fn start(
        program: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        env: &ChildEnv,
        directory: &Path,
    ) -> Result<Self, EngineError> {
        let failed = |source: std::io::Error| EngineError::Setup {
            what: format!("the program {program}"),
            source: source.into(),
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .envs(env.variables())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = ProcessGroup::start(&mut command).map_err(failed)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = group.take_pipes() else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let gone = CancellationToken::new();
        let stderr = tokio::spawn(tail_of(stderr, env.secrets().to_vec(), gone.clone()));
        let gone = gone.drop_guard();
        Ok(Self { group, stdin: Some(stdin), lines: Lines::new(stdout), stderr, gone })
    }

    /// Its next line, without the newline; None when it writes no more. When it has ended, what it left behind may still
    /// write, and is not waited for.
    pub(super) async fn line(&mut self) -> Option<String> {
        tokio::select! {
            biased;
            line = self.lines.next() => line,
            () = self.group.leader_exited() => timeout(DRAIN_TIME, self.lines.next()).await.ok().flatten(),
        }
    }

    /// Writes all of a text to its input and closes it. Nobody has to read it.
    pub(super) fn tell(&mut self, text: String) {
        if let Some(mut stdin) = self.stdin.take() {
            let gone = self.gone.token().clone();
            tokio::spawn(gone.run_until_cancelled_owned(async move {
                if let Err(error) = stdin.write_all(text.as_bytes()).await {
                    tracing::debug!(%error, "a program does not read its task");
                }
            }));
        }
    }

    /// Its input and output, to be used elsewhere. A second call is an error.
    pub(super) fn take_pipes(&mut self) -> Result<(ChildStdin, Lines<ChildStdout>), EngineError> {
        let stdin = self.stdin.take();
        let stdin = stdin.ok_or_else(|| EngineError::Agent { message: "its input is in use".into() })?;
        Ok((stdin, std::mem::replace(&mut self.lines, Lines::closed())))
    }

    /// Waits for its own end, for a time, and ends what is left of it.
    pub(super) async fn finish(mut self, patience: Duration) -> Ended {
        self.stdin = None;
        let _outstayed = timeout(patience, self.group.leader_exited()).await;
        self.collect().await
    }

    /// Asks it to end, waits for a time, and ends what is left of it.
    pub(super) async fn end(mut self, grace: Duration) -> Ended {
        self.group.terminate();
        let _outstayed = timeout(grace, self.group.leader_exited()).await;
        self.collect().await
    }

    async fn collect(self) -> Ended {
        let status = self.group.collect().await;
        drop(self.gone);
        Ended { status: status.ok(), stderr: self.stderr.await.unwrap_or_default() }
    }
}

/// Lines of a program, none longer than [`AGENT_LINE_BYTES`]: longer ones are left out.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: Option<BufReader<R>>,
    line: Vec<u8>,
    is_too_long: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader: Some(BufReader::new(reader)), line: Vec::new(), is_too_long: false }
    }

    fn closed() -> Self {
        Self { reader: None, line: Vec::new(), is_too_long: false }
    }

    /// The next line. Loses nothing when it is dropped, and may be called again.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            let reader = self.reader.as_mut()?;
            let chunk = reader.fill_buf().await.unwrap_or_default();
            if chunk.is_empty() {
                self.reader = None;
                return self.take_line();
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            if self.line.len() + part.len() > AGENT_LINE_BYTES {
                self.is_too_long = true;
                self.line.clear();
            }
            if !self.is_too_long {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            reader.consume(used);
            if end.is_some()
                && let Some(line) = self.take_line()
            {
                return Some(line);
            }
        }
    }

    /// The line that was read, unless it was empty or too long.
    fn take_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        let is_too_long = std::mem::take(&mut self.is_too_long);
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\r');
        (!is_too_long && !text.is_empty()).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Vec<String> {
        let mut lines = Lines::new(bytes);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn lines_end_at_a_newline_only() {
        assert_eq!(read("a\r\n\n\u{2028}b\nc".as_bytes()).await, ["a", "\u{2028}b", "c"]);
        assert_eq!(read(b"\xff\n").await, ["\u{fffd}"]);
        assert!(read(b"").await.is_empty());
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_left_out_and_what_follows_is_read() {
        let long = vec![b'x'; AGENT_LINE_BYTES + 1];
        assert_eq!(read(&[b"a\n", &long[..], b"\nb\n"].concat()).await, ["a", "b"]);
        assert_eq!(read(&[&long[1..], b"\n"].concat()).await.len(), 1);
        assert!(read(&long).await.is_empty());
    }
}

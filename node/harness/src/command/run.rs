//! One run of a program, from its start to its outcome.

use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::pipes::Pipes;
use super::spec::CommandSpec;
use super::{environment, program};
use crate::engine::{Failure, FailureReason, RunOutcome, Task};
use crate::limits::{DRAIN_TIME, STOP_GRACE};
use crate::process_group::ProcessGroup;
use crate::run_file::RunFile;
use crate::stderr_tail::StderrTail;

/// Why a program was ended before it ended itself.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stop {
    Cancelled,
    TimedOut { limit: Duration },
    ReplyTooLong,
}

/// A program at work. Fields are dropped in this order: the group is dead before its record goes.
#[derive(Debug)]
pub(super) struct Run {
    group: ProcessGroup,
    pipes: Pipes,
    file: Option<RunFile>,
}

impl Run {
    /// Starts the program. On an error nothing is left running.
    pub(super) fn start(spec: &CommandSpec, task: Task) -> Result<Self, FailureReason> {
        let program = program::resolve(spec)?;
        let mut command = Command::new(program);
        command
            .args(&spec.arguments)
            .current_dir(&spec.working_directory)
            .env_clear()
            .envs(environment::of_run(std::env::vars_os(), &spec.passed_variables, task.variables()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());

        let directory = spec.run_directory.as_deref();
        let mut file = directory
            .map(|directory| RunFile::create(directory, task.run()))
            .transpose()
            .map_err(FailureReason::RunFile)?;
        let mut group = ProcessGroup::start(&mut command).map_err(FailureReason::Spawn)?;
        if let (Some(file), Some(id)) = (&mut file, group.id()) {
            file.record_group(id).map_err(FailureReason::RunFile)?;
        }

        let secrets = task.variables().iter().map(|variable| variable.value.clone()).collect();
        let pipes = Pipes::new(group.take_pipes(), task.text().as_bytes().to_vec(), StderrTail::new(secrets));
        Ok(Self { group, pipes, file })
    }

    /// Waits until the program ends, or has to be ended.
    pub(super) async fn watch(&mut self, limit: Duration, cancel: &CancellationToken) -> Option<Stop> {
        let stop = tokio::select! {
            () = self.group.leader_exited() => None,
            () = cancel.cancelled() => Some(Stop::Cancelled),
            () = sleep(limit) => Some(Stop::TimedOut { limit }),
            () = self.pipes.reply_too_long() => Some(Stop::ReplyTooLong),
        };
        match stop {
            // News of an exit may come later than the exit: a program that had finished was not stopped.
            Some(Stop::Cancelled | Stop::TimedOut { .. }) if !self.group.leader_is_running() => None,
            stop => stop,
        }
    }

    /// Ends what is left of the run, and tells how it went.
    pub(super) async fn finish(mut self, stop: Option<Stop>) -> RunOutcome {
        if stop.is_some() {
            self.group.terminate();
            // Closed pipes are the sign that the leader's children have ended as well, and not only the leader.
            let ended = async { tokio::join!(self.group.leader_exited(), self.pipes.closed()) };
            within(STOP_GRACE, ended).await;
        }
        self.group.kill();
        within(DRAIN_TIME, self.pipes.closed()).await;
        let status = self.group.collect().await;
        drop(self.file);

        let (reply, tail) = self.pipes.into_parts();
        let reply = match stop {
            Some(Stop::Cancelled) => return RunOutcome::Cancelled,
            Some(Stop::TimedOut { limit }) => Err(FailureReason::TimedOut { limit }),
            Some(Stop::ReplyTooLong) => Err(FailureReason::ReplyTooLong),
            None => status.map_err(FailureReason::StatusUnknown).and_then(|status| judge(status, reply)),
        };
        match reply {
            Ok(reply) => RunOutcome::Completed { reply },
            Err(reason) => RunOutcome::Failed(Failure { reason, detail: tail.into_text() }),
        }
    }
}

/// Waits for something, and goes on without it when it takes too long.
async fn within(limit: Duration, awaited: impl Future) {
    if timeout(limit, awaited).await.is_err() {
        tracing::debug!(?limit, "a process outstayed its end");
    }
}

/// What a program that ended by itself has answered. `None` as reply: it was over its limit.
fn judge(status: ExitStatus, reply: Option<Vec<u8>>) -> Result<String, FailureReason> {
    if let Some(signal) = status.signal() {
        return Err(FailureReason::Signal(signal));
    }
    match status.code() {
        Some(0) => {}
        code => return Err(FailureReason::ExitCode(code.unwrap_or(-1))),
    }
    let mut reply = String::from_utf8(reply.ok_or(FailureReason::ReplyTooLong)?)
        .map_err(|_not_text| FailureReason::ReplyNotUtf8)?;
    reply.truncate(reply.trim_end_matches(['\n', '\r']).len());
    if reply.trim().is_empty() { Err(FailureReason::EmptyReply) } else { Ok(reply) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(raw_status: i32, reply: &[u8]) -> Result<String, String> {
        judge(ExitStatus::from_raw(raw_status), Some(reply.to_vec())).map_err(|reason| reason.to_string())
    }

    #[test]
    fn only_exit_code_zero_with_text_is_an_answer() {
        assert_eq!(judged(0, b" two\nlines \r\n\n"), Ok(" two\nlines ".into()));
        assert_eq!(judged(3 << 8, b"text"), Err("exit code 3".into()));
        assert_eq!(judged(9, b"text"), Err("ended by signal 9".into()));
        assert_eq!(judged(0, b" \n"), Err("the reply is empty".into()));
        assert_eq!(judged(0, b"\xff"), Err("the reply is not UTF-8".into()));
        assert!(matches!(judge(ExitStatus::from_raw(0), None), Err(FailureReason::ReplyTooLong)));
    }
}

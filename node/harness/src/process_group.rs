//! A program and everything it starts, as one thing that can be watched and ended: a process group.
//!
//! Invariant: while a group is held, its leader is not collected, so its number belongs to nobody else and a signal
//! cannot hit a stranger. A group is killed before its leader is collected, and when it is dropped.

use std::io;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{self, SignalKind};

use crate::limits::REAP_TIME;

/// A running group, led by the program that was started.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    leader: Child,
    /// Gone when the leader has been collected: the number may be another's by then.
    id: Option<Pid>,
    /// Wakes when a child of this process changes state. Subscribed before the start, so no exit is missed.
    child_signals: unix::Signal,
}

impl ProcessGroup {
    /// Starts a program at the head of a new group.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let child_signals = unix::signal(SignalKind::child())?;
        // Dropping the child collects it in the background; killing it as well is harmless.
        let leader = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { leader, id, child_signals })
    }

    /// The group's number, which is its leader's.
    pub(crate) fn id(&self) -> Option<i32> {
        self.id.map(|id| id.as_raw_nonzero().get())
    }

    /// The leader's pipes. A second call gets nothing.
    pub(crate) fn take_pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.leader.stdin.take(), self.leader.stdout.take(), self.leader.stderr.take())
    }

    /// Waits until the leader has ended, and leaves it uncollected.
    pub(crate) async fn leader_exited(&mut self) {
        while self.leader_is_running() {
            if self.child_signals.recv().await.is_none() {
                // The runtime is shutting down; it will drop this future.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether the leader has not ended yet. Asks the system, so it is true at this moment.
    pub(crate) fn leader_is_running(&self) -> bool {
        let Some(id) = self.id else { return false };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(id), look), Ok(None) | Err(Errno::INTR))
    }

    /// Asks every process of the group to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends every process of the group.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let Some(id) = self.id else { return };
        if let Err(error) = kill_process_group(id, signal) {
            tracing::debug!(group = id.as_raw_nonzero(), ?signal, %error, "signal not delivered");
        }
    }

    /// Ends every process of the group and learns how the leader ended.
    pub(crate) async fn collect(mut self) -> io::Result<ExitStatus> {
        self.kill();
        let status = tokio::time::timeout(REAP_TIME, self.leader.wait()).await??;
        self.id = None;
        Ok(status)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

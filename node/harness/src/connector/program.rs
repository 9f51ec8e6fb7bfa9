//! The program of a server on standard input and output: it starts in a process group of its own and ends with it.

use std::process::Stdio;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{ConnectorAuth, ConnectorConfig};
use crate::host::HostEnv;
use crate::limits::STOP_GRACE;
use crate::log::Log;
use crate::process_group::ProcessGroup;
use crate::secret::Secret;
use crate::stderr_tail::tail_of;

/// Variables of the host that such a program gets: where things are, and who runs it.
const PASSED: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TMPDIR"];

/// Where a program finds its token.
const TOKEN: &str = "MCP_AUTH_TOKEN";

/// A running program. When it ends, whatever it started is ended too; dropping this kills all of it.
#[derive(Debug)]
pub(super) struct Program {
    asked_to_end: CancellationToken,
    attended: JoinHandle<()>,
}

impl Program {
    /// Starts it; its standard error goes to `log` when it has ended.
    pub(super) fn start(
        config: &ConnectorConfig,
        command: &str,
        host: &HostEnv,
        log: &Log,
    ) -> std::io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut child = Command::new(command);
        child.args(&config.args).env_clear();
        child.envs(PASSED.iter().filter_map(|name| Some((name, host.get(name)?))));
        if let ConnectorAuth::Bearer(token) = &config.auth {
            child.env(TOKEN, token.expose());
        }
        child.envs(config.env.iter().map(|(name, value)| (name, value.expose())));
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = ProcessGroup::start(&mut child)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = group.take_pipes() else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        let gone = CancellationToken::new();
        tokio::spawn(tell(stderr, secrets(config), gone.clone(), config.name.clone(), log.clone()));
        let asked_to_end = CancellationToken::new();
        let attended = tokio::spawn(attend(group, gone.drop_guard(), asked_to_end.clone()));
        Ok((Self { asked_to_end, attended }, stdout, stdin))
    }

    /// Ends it: its input is closed already, which asks it to.
    pub(super) async fn end(mut self) {
        self.asked_to_end.cancel();
        if let Err(error) = (&mut self.attended).await {
            tracing::debug!(%error, "the program of a connector was not attended to its end");
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.attended.abort();
    }
}

/// Waits for the end of a program, and ends what it leaves: others of its group would hold its pipes open.
async fn attend(mut group: ProcessGroup, _gone: DropGuard, asked_to_end: CancellationToken) {
    let asked = tokio::select! {
        () = group.leader_exited() => false,
        () = asked_to_end.cancelled() => true,
    };
    if asked && timeout(STOP_GRACE, group.leader_exited()).await.is_err() {
        group.terminate();
        let _outstayed = timeout(STOP_GRACE, group.leader_exited()).await;
    }
    if let Err(error) = group.collect().await {
        tracing::debug!(%error, "the program of a connector does not end");
    }
}

/// What this program was given and must not show.
fn secrets(config: &ConnectorConfig) -> Vec<Secret> {
    let token = match &config.auth {
        ConnectorAuth::Bearer(token) => Some(token.clone()),
        ConnectorAuth::None => None,
    };
    config.env.values().cloned().chain(token).collect()
}

/// Keeps the end of what a program says, and tells it when it says no more.
async fn tell(
    stderr: ChildStderr,
    secrets: Vec<Secret>,
    gone: CancellationToken,
    connector: String,
    log: Log,
) {
    let text = tail_of(stderr, secrets, gone).await;
    if !text.is_empty() {
        log.line(&format!("the connector {connector} wrote: {text}"));
    }
}

//! `run_code`: a command that a model wrote, in the working directory of its run.
//!
//! Who executes it is a seam, [`CodeRunner`], so that a sandbox can take the place of the host. [`LocalCode`] starts it
//! here: in a process group of its own that never outlives the call, with an environment of two variables of the host
//! and what the caller adds. It does not isolate.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};
use tokio::time::{sleep, timeout};

use super::arguments;
use crate::host::HostEnv;
use crate::limits::{CODE_OUTPUT_BYTES, CODE_TIME, DRAIN_TIME, PIPE_CHUNK_BYTES};
use crate::message::{JsonObject, ToolSpec};
use crate::process_group::ProcessGroup;
use crate::secret::Secret;
use crate::stop::{Stop, StopReason};
use crate::tool::{Executing, Tool, ToolContext, ToolError, ToolOutput};

/// Variables of the host that code gets.
const PASSED: [&str; 2] = ["PATH", "HOME"];

/// Executes code of a model.
pub trait CodeRunner: Send + Sync {
    /// Executes it. Nothing of it is left running when this returns or is dropped.
    fn run<'a>(
        &'a self,
        request: CodeRequest,
        stop: &'a Stop,
    ) -> BoxFuture<'a, Result<CodeResult, CodeError>>;
}

/// What to execute.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct CodeRequest {
    /// A line for the shell; with arguments, a program.
    pub command: String,
    /// The program's arguments. With any, no shell is involved.
    #[serde(default)]
    pub args: Vec<String>,
    /// What it reads on standard input; nothing if absent.
    #[serde(default)]
    pub stdin: Option<String>,
}

/// What became of it. A command that fails is a result, not an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodeResult {
    /// What it wrote, up to [`CODE_OUTPUT_BYTES`].
    pub stdout: String,
    /// What it wrote to standard error, up to [`CODE_OUTPUT_BYTES`].
    pub stderr: String,
    /// Its exit code; None when something ended it.
    pub exit_code: Option<i32>,
    /// Whether its time was over.
    pub timed_out: bool,
}

/// Why there is no result.
#[derive(Debug, Error)]
pub enum CodeError {
    /// It was stopped.
    #[error("the command was ended")]
    Stopped(#[from] StopReason),
    /// It could not be started.
    #[error("cannot start {program:?}")]
    Start {
        /// What was to be started.
        program: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It ended, and how is not known.
    #[error("cannot learn how the command ended")]
    Ending(#[source] io::Error),
    /// Who executes code elsewhere failed.
    #[error("cannot execute the command")]
    Elsewhere(#[source] crate::model::BoxError),
}

impl From<CodeError> for ToolError {
    fn from(error: CodeError) -> Self {
        match error {
            CodeError::Stopped(reason) => Self::Stopped(reason),
            other => Self::failed(other),
        }
    }
}

/// Executes code on this host.
#[derive(Debug, Clone)]
pub struct LocalCode {
    /// Where.
    pub workdir: PathBuf,
    /// Variables it gets beside `PATH` and `HOME`: a run's secrets.
    pub env: BTreeMap<String, Secret>,
    /// Where those two come from.
    pub host: HostEnv,
    /// How long it may take.
    pub time_limit: Duration,
}

impl LocalCode {
    /// Code in this directory, with these variables.
    pub fn new(workdir: impl Into<PathBuf>, env: BTreeMap<String, Secret>, host: HostEnv) -> Self {
        Self { workdir: workdir.into(), env, host, time_limit: CODE_TIME }
    }

    fn command(&self, request: &CodeRequest) -> Command {
        let mut command = if request.args.is_empty() {
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(&request.command);
            shell
        } else {
            let mut program = Command::new(&request.command);
            program.args(&request.args);
            program
        };
        command
            .current_dir(&self.workdir)
            .env_clear()
            .envs(PASSED.iter().filter_map(|name| Some((name, self.host.get(name)?))))
            .envs(self.env.iter().map(|(name, value)| (name, value.expose())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    async fn execute(&self, request: CodeRequest, stop: &Stop) -> Result<CodeResult, CodeError> {
        stop.check()?;
        let mut group = ProcessGroup::start(&mut self.command(&request))
            .map_err(|source| CodeError::Start { program: request.command.clone(), source })?;
        let (stdin, stdout, stderr) = group.take_pipes();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let ending = {
            let pipes = async {
                tokio::join!(feed(stdin, request.stdin), keep(stdout, &mut out), keep(stderr, &mut err));
            };
            let mut pipes = pin!(pipes);
            let mut open = true;
            let mut limit = pin!(sleep(self.time_limit));
            let ending = loop {
                tokio::select! {
                    biased;
                    () = group.leader_exited() => break Ending::Exited,
                    reason = stop.fired() => break Ending::Stopped(reason),
                    () = &mut limit => break Ending::TimedOut,
                    () = &mut pipes, if open => open = false,
                }
            };
            group.kill();
            // Somebody who left the group may hold the pipes for ever.
            if open && timeout(DRAIN_TIME, pipes).await.is_err() {
                tracing::debug!("the pipes of a command outlive it");
            }
            ending
        };
        let status = group.collect().await;
        if let Ending::Stopped(reason) = ending {
            return Err(reason.into());
        }
        let timed_out = matches!(ending, Ending::TimedOut);
        let exit_code = if timed_out {
            None
        } else {
            status.map(|it: ExitStatus| it.code()).map_err(CodeError::Ending)?
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(CodeResult { stdout: text(&out), stderr: text(&err), exit_code, timed_out })
    }
}

/// Why waiting for a command ended.
enum Ending {
    Exited,
    Stopped(StopReason),
    TimedOut,
}

/// Writes all of `text` and closes the pipe. Nobody has to read it.
async fn feed(pipe: Option<ChildStdin>, text: Option<String>) {
    if let (Some(mut pipe), Some(text)) = (pipe, text)
        && let Err(error) = pipe.write_all(text.as_bytes()).await
    {
        tracing::debug!(%error, "a command does not read its input");
    }
}

/// Reads to the end and keeps the beginning.
async fn keep(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut chunk = vec![0; PIPE_CHUNK_BYTES];
    while let Ok(read) = pipe.read(&mut chunk).await {
        if read == 0 {
            return;
        }
        let room = read.min(CODE_OUTPUT_BYTES.saturating_sub(kept.len()));
        kept.extend_from_slice(chunk.get(..room).unwrap_or_default());
    }
}

impl CodeRunner for LocalCode {
    fn run<'a>(
        &'a self,
        request: CodeRequest,
        stop: &'a Stop,
    ) -> BoxFuture<'a, Result<CodeResult, CodeError>> {
        Box::pin(self.execute(request, stop))
    }
}

/// The tool `run_code`.
pub(super) struct RunCode {
    spec: ToolSpec,
    runner: std::sync::Arc<dyn CodeRunner>,
}

impl RunCode {
    pub(super) fn new(runner: std::sync::Arc<dyn CodeRunner>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "a line for /bin/sh; with args, a program"},
                "args": {"type": "array", "items": {"type": "string"}, "description": "run the program without a shell"},
                "stdin": {"type": "string"},
            },
            "required": ["command"],
        });
        let description =
            "Run a command in the working directory. Answers with stdout, stderr, exitCode and timedOut.";
        Self { spec: ToolSpec::new("run_code", description, schema), runner }
    }
}

impl Tool for RunCode {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute<'a>(&'a self, input: JsonObject, context: &'a ToolContext) -> Executing<'a> {
        Box::pin(async move {
            let result = self.runner.run(arguments(input)?, &context.stop).await?;
            Ok(ToolOutput::json(json!({
                "stdout": result.stdout,
                "stderr": result.stderr,
                "exitCode": result.exit_code,
                "timedOut": result.timed_out,
            })))
        })
    }
}

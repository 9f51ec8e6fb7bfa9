//! How a run ended, and what to do when it ended badly.
//!
//! An outcome says what is known and no more: an agent that was ended by us did not fail by itself, and a reply that is
//! empty or cut off is no reply.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::limits::REPLY_BYTES;
use crate::run_file::RunFileError;

/// The one end of a run.
#[derive(Debug)]
pub enum RunOutcome {
    /// The agent answered.
    Completed {
        /// What it said: not empty, at most [`REPLY_BYTES`], without newlines at its end.
        reply: String,
    },
    /// There is no answer.
    Failed(Failure),
    /// The caller ended the run. The agent may have had effects before.
    Cancelled,
}

/// Why there is no answer.
#[derive(Debug, Error)]
#[error("the run failed")]
pub struct Failure {
    /// What went wrong.
    #[source]
    pub reason: FailureReason,
    /// The end of what the agent wrote to stderr, or nothing. Written by the agent: text to show, never to act on. The
    /// values of the run's variables and control characters are taken out.
    pub detail: String,
}

/// Whose concern a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The engine could not start or watch the agent: the operator's. The agent had no effects, except in
    /// [`FailureReason::StatusUnknown`].
    Engine,
    /// The agent ran, and did not give an answer: the agent's author's.
    Agent,
}

impl Failure {
    /// Whose concern this is.
    #[must_use]
    pub fn layer(&self) -> Layer {
        match self.reason {
            FailureReason::ProgramNotFound { .. }
            | FailureReason::NotExecutable { .. }
            | FailureReason::NoWorkingDirectory { .. }
            | FailureReason::Spawn(_)
            | FailureReason::RunFile(_)
            | FailureReason::StatusUnknown(_) => Layer::Engine,
            FailureReason::ExitCode(_)
            | FailureReason::Signal(_)
            | FailureReason::TimedOut { .. }
            | FailureReason::EmptyReply
            | FailureReason::ReplyTooLong
            | FailureReason::ReplyNotUtf8 => Layer::Agent,
        }
    }

    /// What to do about it, as a sentence for an operator.
    #[must_use]
    pub fn remediation(&self) -> &'static str {
        match self.reason {
            FailureReason::ProgramNotFound { .. } => {
                "Install the program, or correct its path or the node's PATH."
            }
            FailureReason::NotExecutable { .. } => {
                "Make it an executable file that this user may run (chmod +x)."
            }
            FailureReason::NoWorkingDirectory { .. } => "Create the directory, or configure another one.",
            FailureReason::Spawn(_) => {
                "Check the program's interpreter line, and this user's limits (ulimit -a)."
            }
            FailureReason::RunFile(_) => "Check that the run directory exists, is writable and has space.",
            FailureReason::StatusUnknown(_) => {
                "Something else in this process collects children; that must stop."
            }
            FailureReason::ExitCode(_) => "Read what the agent wrote to stderr, and run it by hand.",
            FailureReason::Signal(_) => {
                "Look for a crash of the agent, or for memory running out on this machine."
            }
            FailureReason::TimedOut { .. } => "Ask for less, or raise the agent's time limit.",
            FailureReason::EmptyReply => "Make the agent write its answer to stdout before it exits.",
            FailureReason::ReplyTooLong => {
                "Make the agent write large results to files and answer with a summary."
            }
            FailureReason::ReplyNotUtf8 => "Make the agent answer in UTF-8.",
        }
    }
}

impl From<FailureReason> for Failure {
    fn from(reason: FailureReason) -> Self {
        Self { reason, detail: String::new() }
    }
}

/// What went wrong in a run.
#[derive(Debug, Error)]
pub enum FailureReason {
    /// There is no such program.
    #[error("program {} not found", program.display())]
    ProgramNotFound {
        /// As configured.
        program: PathBuf,
    },
    /// There is something of that name, and it cannot be run.
    #[error("{} is not executable", program.display())]
    NotExecutable {
        /// Where it is.
        program: PathBuf,
    },
    /// The directory to run in is not there.
    #[error("working directory {} not found", directory.display())]
    NoWorkingDirectory {
        /// As configured.
        directory: PathBuf,
    },
    /// The operating system refused to start it.
    #[error("cannot start the program")]
    Spawn(#[source] io::Error),
    /// The run could not be recorded against a crash, so it was not let run.
    #[error("cannot record the run")]
    RunFile(#[source] RunFileError),
    /// The program ended, and how is not known.
    #[error("cannot learn how the program ended")]
    StatusUnknown(#[source] io::Error),
    /// The program said that it failed.
    #[error("exit code {0}")]
    ExitCode(i32),
    /// Something else ended the program, or it crashed.
    #[error("ended by signal {0}")]
    Signal(i32),
    /// It took too long and was ended.
    #[error("not finished after {limit:?}")]
    TimedOut {
        /// How long it had.
        limit: Duration,
    },
    /// It succeeded without a word.
    #[error("the reply is empty")]
    EmptyReply,
    /// It wrote more than [`REPLY_BYTES`] and was ended.
    #[error("the reply is longer than {REPLY_BYTES} bytes")]
    ReplyTooLong,
    /// Its reply is not text.
    #[error("the reply is not UTF-8")]
    ReplyNotUtf8,
}

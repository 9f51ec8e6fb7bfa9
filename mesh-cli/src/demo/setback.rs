//! Why a step of the demo failed.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use mesh_node::api::tokens::TokenError;
use mesh_node::client::ClientError;
use mesh_node::home::HomeError;
use mesh_node::identity::CertificateError;
use mesh_protocol::evidence::bundle::BundleError;
use mesh_protocol::evidence::trust::TrustError;
use thiserror::Error;

use crate::daemon::DaemonError;

use super::counts::Counts;

/// Why a step failed.
#[derive(Debug, Error)]
pub(crate) enum Setback {
    /// This program cannot be started again.
    #[error("cannot start `mesh-cli {command}`")]
    Spawn {
        /// With which arguments.
        command: String,
        /// What the system says.
        source: io::Error,
    },
    /// A command of this program failed.
    #[error("`mesh-cli {command}` ended with {status}: {said}")]
    Command {
        /// Its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote to standard error.
        said: String,
    },
    /// A file of the demo's own cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// An operator's token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A node did not start.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// A node did not answer, or answered with a reason.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// What was waited for did not come.
    #[error("waited {} s in vain until {what}", within.as_secs())]
    Late {
        /// What was waited for.
        what: &'static str,
        /// How long.
        within: Duration,
    },
    /// The ask ended without an answer.
    #[error("the ask has no answer: {why}")]
    NoAnswer {
        /// How it ended, or where it is.
        why: String,
    },
    /// The answer is not the agent's.
    #[error("the answer is not what the agent says")]
    NotAnAnswer(#[source] serde_json::Error),
    /// The answer is about something else.
    #[error("the answer is wrong: {} words were counted where there are {}", found.words, expected.words)]
    WrongAnswer {
        /// What was answered.
        found: Box<Counts>,
        /// What is so.
        expected: Box<Counts>,
    },
    /// The evidence cannot be read.
    #[error("the evidence cannot be read")]
    Evidence(#[from] BundleError),
    /// The founder's root certificate cannot be used.
    #[error("the root certificate cannot be used")]
    Root(#[from] CertificateError),
    /// The executor's key cannot be trusted.
    #[error("the executor's key cannot be used")]
    Key(#[from] TrustError),
    /// The evidence proves nothing, or not everything.
    #[error("the evidence is not authentic and complete: {why}")]
    NotProved {
        /// What is wrong with it.
        why: String,
    },
    /// The receipt does not say that the ask is held.
    #[error("the receipt does not say that {node} is unreachable")]
    NotHeld {
        /// Whose node it is.
        node: &'static str,
    },
    /// The held ask was not run exactly once.
    #[error("the held ask was run {runs} times")]
    NotOnce {
        /// How often.
        runs: usize,
    },
}

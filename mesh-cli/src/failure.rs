//! Why a command has no answer, and what that means for its exit code.
//!
//! Messages say what is wrong, hints what to do about it; both end in the one shape that all errors have
//! ([`ApiError`]). A negative answer (an ask that failed, evidence that does not verify) is not here: it is an answer.

use std::error::Error;

use mesh_node::api::tokens::TokenError;
use mesh_node::api::v1::keys::book::BookError;
use mesh_node::client::{ClientError, SubmissionError};
use mesh_node::founding::FoundingError;
use mesh_node::home::HomeError;
use mesh_node::identity::KeyError;
use mesh_node::join::JoinError;
use mesh_node::mcp::{OptionsError, ServeError};
use mesh_node::node::NodeError;
use mesh_node::setup::SetupError;
use mesh_node::storage::DatabaseError;
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::ticket::TicketError;
use thiserror::Error;

use crate::exit::Exit;
use crate::input::InputError;

/// Why a command has no answer.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The node did not answer, or answered with a reason.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Whether the node has a job is not known.
    #[error("the job may or may not have been accepted")]
    Unresolved {
        /// What it has to be submitted again under.
        key: String,
        /// What became of the last attempt.
        #[source]
        last: Box<ClientError>,
    },
    /// One of many messages was refused.
    #[error("line {line} was not sent: {}", error.message)]
    Line {
        /// Which line of the input.
        line: u64,
        /// Why.
        error: Box<ApiError>,
    },
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The credential cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The keys of the job API cannot be used.
    #[error(transparent)]
    Keys(#[from] BookError),
    /// A file or standard input cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Setting up this machine failed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The node could not be started.
    #[error(transparent)]
    Daemon(#[from] crate::daemon::DaemonError),
    /// The line is no ticket.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// The command line contradicts itself, in a way the parser cannot see.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to type instead.
        hint: String,
    },
    /// It needs a yes, and nobody can be asked or nobody said it.
    #[error("this needs your word, and it was not given")]
    NotConfirmed {
        /// The flag that gives it.
        flag: &'static str,
    },
    /// A mesh was not founded or joined.
    #[error(transparent)]
    Founding(#[from] FoundingError),
    /// The node of this process does not run.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The adapter's settings are wrong.
    #[error(transparent)]
    Adapter(#[from] OptionsError),
    /// The adapter and its host could not speak.
    #[error(transparent)]
    Host(#[from] ServeError),
    /// The demo could not begin.
    #[error(transparent)]
    Demo(#[from] crate::demo::Setback),
    /// The demo's agent has no answer.
    #[error(transparent)]
    DemoAgent(#[from] crate::demo::agent::AgentError),
    /// What was asked for is there and cannot be written out.
    #[error("cannot write the output")]
    Output(#[source] std::io::Error),
    /// Nothing can be run in the background.
    #[error("cannot start")]
    Runtime(#[source] std::io::Error),
}

/// What to do when an agent's host and the adapter could not speak.
const HOST_HINT: &str =
    "an agent's host starts this command and speaks MCP to it; it is not for the terminal";
/// What to do when the demo does not get as far as its first step.
const DEMO_HINT: &str = "`mesh-cli demo --keep` leaves its nodes and their logs to look at";
/// What to do when standard output does not take what is written.
const OUTPUT_HINT: &str = "check where the output goes: a full disk, or a program that has ended";
/// What to do when what was read from the home's database makes no sense.
const DAMAGED_HINT: &str = "the home is damaged: put a copy of it back, or move it away and join anew";
/// What to do when the system gives less than a process needs.
const SYSTEM_HINT: &str = "check the limits of this user: `ulimit -a` shows open files and processes";

/// A failure as it is shown.
#[derive(Debug)]
pub(crate) struct Report {
    /// What is wrong and what to do.
    pub(crate) error: ApiError,
    /// What caused it, outermost first.
    pub(crate) causes: Vec<String>,
    /// What the process ends with.
    pub(crate) exit: Exit,
}

impl From<SubmissionError> for Failure {
    fn from(error: SubmissionError) -> Self {
        match error {
            SubmissionError::NotAccepted(error) => Self::Client(error),
            SubmissionError::Unresolved { key, last } => Self::Unresolved { key, last: Box::new(last) },
        }
    }
}

impl Failure {
    /// A command line that contradicts itself.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    /// The failure as it is shown.
    pub(crate) fn into_report(self) -> Report {
        let causes = std::iter::successors(self.source(), |cause| (*cause).source())
            .map(ToString::to_string)
            .collect();
        // To a script a node that was never made is as absent as one that is stopped.
        let absent = matches!(self, Self::Client(ClientError::NoHome { .. }));
        let error = self.into_api_error();
        let exit = if absent { Exit::Unavailable } else { Exit::from(error.kind) };
        Report { error, causes, exit }
    }

    fn into_api_error(self) -> ApiError {
        let message = self.to_string();
        let (kind, code, hints) = match self {
            Self::Client(error) => return error.into_api_error(),
            Self::Unresolved { key, .. } => {
                let again =
                    format!("run it again with `--idempotency-key {key}`: it is run once, whatever happened");
                (ErrorKind::Unavailable, "submission_unresolved", vec![again])
            }
            Self::Line { error, .. } => return ApiError { message, ..*error },
            Self::Home(error) => (home_kind(&error), "home_unusable", vec![error.hint()]),
            Self::Token(error) => (ErrorKind::Refused, "token_unusable", error.hints()),
            Self::Keys(error) => (book_kind(&error), "keys_unusable", error.hint().into_iter().collect()),
            Self::Input(error) => (ErrorKind::Invalid, "input_unusable", error.hint().into_iter().collect()),
            Self::Setup(error) => (ErrorKind::Unavailable, "setup_failed", setup_hints(&error)),
            Self::Daemon(error) => (ErrorKind::Unavailable, "node_not_started", error.hints()),
            Self::Ticket(error) => (ErrorKind::Invalid, "not_a_ticket", vec![error.hint().to_owned()]),
            Self::Usage { hint, .. } => (ErrorKind::Invalid, "usage", vec![hint]),
            Self::NotConfirmed { flag } => {
                (ErrorKind::Refused, "not_confirmed", vec![format!("add `{flag}` to say it beforehand")])
            }
            Self::Founding(error) => founding_answer(error),
            Self::Node(error) => node_answer(error),
            Self::Adapter(error) => (ErrorKind::Invalid, "adapter_settings", error.hints()),
            Self::Host(_) => (ErrorKind::Unavailable, "no_session", vec![HOST_HINT.to_owned()]),
            Self::Demo(_) => (ErrorKind::Unavailable, "demo_not_begun", vec![DEMO_HINT.to_owned()]),
            Self::DemoAgent(_) => (ErrorKind::Unavailable, "no_answer", vec![DEMO_HINT.to_owned()]),
            Self::Output(_) => (ErrorKind::Unavailable, "output_failed", vec![OUTPUT_HINT.to_owned()]),
            Self::Runtime(_) => (ErrorKind::Internal, "cannot_start", vec![SYSTEM_HINT.to_owned()]),
        };
        hints.into_iter().fold(ApiError::new(kind, code, message), ApiError::hint)
    }
}

fn founding_answer(error: FoundingError) -> (ErrorKind, &'static str, Vec<String>) {
    match error {
        FoundingError::AlreadyMember { .. } => {
            let other = "`--home DIR` makes another node beside it".to_owned();
            (ErrorKind::Conflict, "already_member", vec!["`mesh-cli status` shows it".to_owned(), other])
        }
        FoundingError::Home(error) => (home_kind(&error), "home_unusable", vec![error.hint()]),
        FoundingError::Config(error) => (ErrorKind::Invalid, "config_invalid", vec![error.hint()]),
        FoundingError::OtherName { .. } => {
            let name = "write `name` under `[node]` there, or leave `--name` out".to_owned();
            (ErrorKind::Conflict, "other_name", vec![name])
        }
        FoundingError::Database(error) => database_answer(&error),
        FoundingError::Key(error) => key_answer(&error),
        FoundingError::Socket(_) => (ErrorKind::Unavailable, "no_socket", vec![SYSTEM_HINT.to_owned()]),
        FoundingError::Join(error) => {
            let (kind, code) = match error {
                JoinError::Refused(_) | JoinError::Unproven => (ErrorKind::Refused, "ticket_refused"),
                _ => (ErrorKind::Unavailable, "not_joined"),
            };
            (kind, code, error.hint().map(str::to_owned).into_iter().collect())
        }
        FoundingError::Store(_) | FoundingError::Root(_) | FoundingError::Certificate(_) => {
            (ErrorKind::Unavailable, "not_founded", vec![DAMAGED_HINT.to_owned()])
        }
    }
}

fn node_answer(error: NodeError) -> (ErrorKind, &'static str, Vec<String>) {
    match error {
        NodeError::NotAMember { .. } | NodeError::NoPlace => {
            let first = "`mesh-cli init` makes a mesh, `mesh-cli join -` joins one".to_owned();
            (ErrorKind::Unavailable, "not_a_member", vec![first])
        }
        NodeError::Home(error) => (home_kind(&error), "home_unusable", vec![error.hint()]),
        NodeError::Config(error) => (ErrorKind::Invalid, "config_invalid", vec![error.hint()]),
        NodeError::Token(error) => (ErrorKind::Refused, "token_unusable", error.hints()),
        NodeError::Keys(error) => (ErrorKind::Refused, "keys_unusable", vec![error.hint()]),
        NodeError::Database(error) => database_answer(&error),
        NodeError::Key(error) => key_answer(&error),
        NodeError::Listen(error) => (ErrorKind::Unavailable, "no_local_socket", vec![error.hint()]),
        NodeError::OtherKey { .. } | NodeError::Certificate(_) | NodeError::Root(_) => {
            let pair = "node.key and mesh.redb belong together: put back those of one home".to_owned();
            (ErrorKind::Conflict, "home_mixed_up", vec![pair])
        }
        NodeError::Store(_) | NodeError::Revocations(_) => {
            (ErrorKind::Unavailable, "state_unreadable", vec![DAMAGED_HINT.to_owned()])
        }
        NodeError::Socket { .. } => {
            let other =
                "another process has the port: set `listen` under `[node]` or `[http]` in config.toml"
                    .to_owned();
            (ErrorKind::Unavailable, "port_taken", vec![other])
        }
        NodeError::Bind(_) | NodeError::System(_) => {
            (ErrorKind::Unavailable, "node_stopped", vec![SYSTEM_HINT.to_owned()])
        }
        NodeError::Writer(_) => {
            let disk = "check that the disk is sound and not full, then `mesh-cli up`".to_owned();
            (ErrorKind::Unavailable, "node_stopped", vec![disk])
        }
    }
}

fn database_answer(error: &DatabaseError) -> (ErrorKind, &'static str, Vec<String>) {
    (ErrorKind::Unavailable, "database_unusable", error.hint().map(str::to_owned).into_iter().collect())
}

fn key_answer(error: &KeyError) -> (ErrorKind, &'static str, Vec<String>) {
    (ErrorKind::Refused, "key_unusable", error.hint().into_iter().collect())
}

fn book_kind(error: &BookError) -> ErrorKind {
    match error {
        BookError::Name { .. } => ErrorKind::Invalid,
        BookError::Unknown { .. } => ErrorKind::NotFound,
        BookError::Taken { .. } => ErrorKind::Conflict,
        BookError::Files(_) | BookError::NoPepper { .. } => ErrorKind::Refused,
        _ => ErrorKind::Unavailable,
    }
}

fn home_kind(error: &HomeError) -> ErrorKind {
    match error {
        HomeError::Nowhere => ErrorKind::Invalid,
        HomeError::Directory { .. } | HomeError::Lock { .. } => ErrorKind::Unavailable,
        HomeError::NotOurs { .. } | HomeError::OpenToOthers { .. } => ErrorKind::Refused,
        HomeError::InUse { .. } => ErrorKind::Conflict,
    }
}

fn setup_hints(error: &SetupError) -> Vec<String> {
    match error {
        SetupError::ByHand => vec!["`mesh-cli setup gvisor --dry-run` lists what to do".to_owned()],
        SetupError::Write { .. } => vec!["run it as root".to_owned()],
        SetupError::Failed { .. } | SetupError::Start { .. } => {
            vec!["mend what it says, then repeat: what is done already is not done again".to_owned()]
        }
        SetupError::Read { .. } => vec!["check that this user may read it".to_owned()],
        // More may be added to it.
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use mesh_node::home::ConfigError;

    use super::*;

    #[test]
    fn a_node_that_was_never_made_is_unavailable() {
        let report = Failure::from(ClientError::NoHome { home: "/h".into() }).into_report();
        assert_eq!(report.exit, Exit::Unavailable);
        assert!(!report.error.hints.is_empty());
    }

    #[test]
    fn what_the_system_refuses_still_names_a_next_step() {
        let denied = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let path = || std::path::PathBuf::from("/h/file");
        let config = ConfigError::Read { path: path(), source: denied() };
        let database = DatabaseError::Create { path: path(), source: denied() };
        let failures = [
            Failure::Output(denied()),
            Failure::Runtime(denied()),
            Failure::from(InputError::Stdin(denied())),
            Failure::from(NodeError::Config(config)),
            Failure::from(NodeError::System(denied())),
            Failure::from(FoundingError::Database(database)),
            Failure::from(FoundingError::Socket(denied())),
        ];
        for failure in failures {
            let error = failure.into_report().error;
            assert!(!error.hints.is_empty(), "{error}");
        }
    }

    #[test]
    fn causes_are_listed_outermost_first() {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        let failure = Failure::from(InputError::Read { path: "/f".into(), source });
        let report = failure.into_report();
        assert_eq!(report.error.message, "cannot read /f");
        assert_eq!(report.causes, ["entity not found"]);
        assert_eq!(report.exit, Exit::Usage);
    }
}

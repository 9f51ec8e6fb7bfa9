//! The agent kernel: what every program that runs agents needs, and nothing of what it runs them for.
//!
//! The crate knows no mesh and no application: no nodes, no peers, no storage, nothing on standard output, and no server
//! but that of a run's own capabilities on loopback.
//! It does not isolate what it runs. Every seam can be used alone, and each has a default that works in this process.
//!
//! | module | what it holds |
//! |---|---|
//! | [`engine`], [`command`], [`run_file`] | the small seam for a program that reads a task, and its engine |
//! | [`message`], [`usage`], [`outcome`] | what is said, used, and how a run ends |
//! | [`stop`], [`log`], [`host`], [`secret`], [`limits`] | ending work early, prose, settings, hidden values, bounds |
//! | [`model`] | model kinds, registry, middleware, streaming, the chat kind |
//! | [`provider`] | the provider seam, options, adapters, selection, retries |
//! | [`tool`] | tools, metadata, projections, functions and models as tools |
//! | [`event`], [`private`] | run events, sinks, redaction |
//! | [`agent_loop`] | the loop seam, the native loop, [`run_agent`](agent_loop::run_agent) and [`run_conversation`](agent_loop::run_conversation) |
//! | [`route`], [`context`] | what serves a capability, what a run knows beforehand |
//! | [`agent`] | the engine seam for whole agents, run specs, gateway, isolation; engines: native, Claude Code, Codex, ACP agents, Pi |
//! | [`environment`] | run environments: materialize, restore, compile |
//! | [`beneath`] | files below one directory, never outside it |
//! | [`capability`] | the capability surface: guards, `write_file`, served on loopback or by a program |
//! | [`primitive`] | the tools every run has: `run_code`, `read_file`, `list_files`, `http_fetch`; downloads |
//! | [`connector`] | clients of MCP servers, and the tools they bring |
//!
//! The small seam:
//!
//! ```
//! use mesh_harness::{CommandEngine, CommandSpec, Engine, RunName, RunOutcome, Task};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! let spec = CommandSpec::new("/bin/cat", std::env::temp_dir());
//! let engine = CommandEngine::new(spec)?;
//!
//! let task = Task::new(RunName::new("run-1")?, "say this back")?;
//! let outcome = engine.run(task, CancellationToken::new()).await;
//!
//! assert!(matches!(outcome, RunOutcome::Completed { reply } if reply == "say this back"));
//! # Ok(())
//! # }
//! ```
//!
//! A node that is killed cannot end its agents itself, so a run may leave a [`run_file`] that the next start sweeps.

pub mod agent;
pub mod agent_loop;
pub mod beneath;
pub mod capability;
pub mod command;
pub mod connector;
pub mod context;
pub mod engine;
pub mod environment;
pub mod event;
pub mod host;
pub mod limits;
pub mod log;
pub mod message;
pub mod model;
pub mod outcome;
pub mod primitive;
pub mod private;
mod process_group;
pub mod provider;
pub mod route;
pub mod run_file;
pub mod secret;
mod stderr_tail;
pub mod stop;
pub mod tool;
pub mod usage;

pub use command::{CommandEngine, CommandSpec, SpecError};
pub use engine::{
    Availability, Capabilities, Engine, Failure, FailureReason, Layer, RunFuture, RunName, RunOutcome, Task,
    TaskError, is_variable_name,
};
pub use run_file::{RunFileError, SweepReport, sweep};
pub use secret::Secret;

/// The version of this kernel.
#[must_use]
pub fn kernel_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

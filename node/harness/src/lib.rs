//! The agent kernel: engines that do an agent's work on this machine.
//!
//! An [`Engine`] takes a [`Task`] and a cancellation token and gives back one [`RunOutcome`], whatever happens. The
//! first engine is [`CommandEngine`]: any program that reads its task on stdin and answers on stdout.
//!
//! The crate knows no mesh: no nodes, no peers, no storage. It does not queue, retry or choose agents; who calls it
//! does. It does not isolate what it runs either: an agent runs as this user, with a cleaned environment, in a process
//! group of its own that does not outlive its run.
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

pub mod command;
pub mod engine;
pub mod limits;
pub mod run_file;

pub use command::{CommandEngine, CommandSpec, SpecError};
pub use engine::{
    Availability, Capabilities, Engine, Failure, FailureReason, Layer, RunFuture, RunName, RunOutcome,
    Secret, Task, TaskError, is_variable_name,
};
pub use run_file::{RunFileError, SweepReport, sweep};

//! The seam between who wants an agent's run and which agent does it: in process, or a program of somebody else.
//!
//! An [`AgentEngine`] is asked whether it supports a run, which names the reason if it does not, and then runs it.
//! Files change beside it: who called looks at the working directory afterwards. This is the seam for whole agents with
//! tools, connectors and an environment; [`engine`](crate::engine) is the smaller one for a program that reads a task.

mod acp;
mod child;
mod child_env;
mod claude_code;
mod codex;
mod driven;
mod error;
mod gateway;
mod isolation;
mod native;
mod pi;
mod private_dir;
mod prompt;
mod rules;
mod selection;
mod servers;
mod source;
mod spec;
mod surface;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::event::SharedSink;
use crate::log::Log;
use crate::outcome::Outcome;
use crate::stop::Stop;

pub use acp::{AcpAgentSpec, AcpArguments, AcpEngine, AcpVariables};
pub use claude_code::ClaudeCodeEngine;
pub use codex::CodexEngine;
pub use error::{EngineError, Refusal};
pub use gateway::Gateway;
pub use isolation::Isolation;
pub use native::NativeEngine;
pub use pi::{PiEngine, Thinking};
pub use selection::{DomainTools, EngineSelection, select_engine};
pub use source::{OpenTools, SharedToolSource, ToolSource};
pub use spec::{ExposedCredentials, Permissions, RunSpec, Workflow};

/// An engine as it is handed around.
pub type SharedEngine = Arc<dyn AgentEngine>;

/// Runs agents of one make.
pub trait AgentEngine: Send + Sync {
    /// Its name: `native`.
    fn name(&self) -> &str;

    /// Whether this run could be done here. Starts nothing.
    ///
    /// # Errors
    /// The reason why not.
    fn supports(&self, spec: &RunSpec) -> Result<(), Refusal>;

    /// Does the run. What [`supports`](Self::supports) refuses is refused here too. A stop that has fired before is an
    /// outcome without any setup or event.
    fn run<'a>(&'a self, spec: &'a RunSpec, context: EngineContext) -> EngineRun<'a>;
}

/// A run under way.
pub type EngineRun<'a> = BoxFuture<'a, Result<EngineResult, EngineError>>;

/// What a run reports to, and what may end it.
#[derive(Clone, Default)]
pub struct EngineContext {
    /// Prose about the run.
    pub log: Log,
    /// What happens, for programs.
    pub sink: Option<SharedSink>,
    /// Ends the run.
    pub stop: Stop,
}

impl std::fmt::Debug for EngineContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineContext")
            .field("log", &self.log)
            .field("sink", &self.sink.is_some())
            .field("stop", &self.stop)
            .finish()
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineResult {
    /// The answer.
    pub text: String,
    /// What the program that served its capabilities emitted; only its caller knows what it means.
    pub emissions: Option<Value>,
    /// How it ended, where the engine can tell.
    pub outcome: Option<Outcome>,
}

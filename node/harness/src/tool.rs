//! Tools: what a model may ask for, and what an application knows about each.
//!
//! A model sees a tool's name, description and schema. Everything else is metadata for the application: who may see the
//! tool, whether it can be undone or replayed, whether it ends the run. The kernel records these claims and acts only on
//! those that say where a tool belongs ([`Dispatch`]); the rest is the application's policy.

mod function;
mod metadata;
mod model;
mod selection;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use thiserror::Error;

use crate::message::{JsonObject, ToolSpec};
use crate::model::{BoxError, is_stop};
use crate::stop::{Stop, StopReason};

pub use function::{FunctionTool, terminal_tool, terminal_tool_with, tool_fn};
pub use metadata::{ClientVisibility, Dispatch, InvocationMode, Replay, Retention, ToolMetadata};
pub use model::{ModelTool, model_as_tool};
pub use selection::{
    ToolScope, replay_safe_tools, select_tools, to_tool_specs, tools_requiring_confirmation, undo_tool_for,
};

/// A tool as it is handed around.
pub type SharedTool = Arc<dyn Tool>;

/// Something a model may ask for.
pub trait Tool: Send + Sync {
    /// What the model is told.
    fn spec(&self) -> &ToolSpec;

    /// What the application knows. Nothing, unless a tool says so.
    fn meta(&self) -> &ToolMetadata {
        ToolMetadata::none()
    }

    /// Does it. Has to end soon after the context's stop fires; what does not is dropped.
    fn execute<'a>(&'a self, input: JsonObject, context: &'a ToolContext) -> Executing<'a>;
}

/// A tool at work.
pub type Executing<'a> = BoxFuture<'a, Result<ToolOutput, ToolError>>;

/// What goes with the execution of a tool.
#[derive(Debug, Clone, Default)]
pub struct ToolContext {
    /// Ends it.
    pub stop: Stop,
    /// The model's id of this call, which `tool.called` carries too.
    pub call_id: String,
    /// The run, if its caller named it.
    pub run_id: Option<String>,
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// What the model sees, cut to a limit.
    pub content: String,
    /// The same as data, for the application; never cut.
    pub structured: Option<Value>,
    /// Whether the content tells of a failure.
    pub is_error: bool,
}

impl ToolOutput {
    /// An answer in words.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// An answer as data; the model sees it as JSON.
    #[must_use]
    pub fn json(value: Value) -> Self {
        Self { content: value.to_string(), structured: Some(value), is_error: false }
    }

    /// An answer in words, and as data.
    #[must_use]
    pub fn structured(content: impl Into<String>, structured: Value) -> Self {
        Self { content: content.into(), structured: Some(structured), is_error: false }
    }
}

impl From<String> for ToolOutput {
    fn from(content: String) -> Self {
        Self::text(content)
    }
}

impl From<&str> for ToolOutput {
    fn from(content: &str) -> Self {
        Self::text(content)
    }
}

/// Why a tool has no answer. The model is told the message, and may try again.
#[derive(Debug, Error)]
pub enum ToolError {
    /// It was stopped.
    #[error("the tool was stopped")]
    Stopped(#[from] StopReason),
    /// It failed.
    #[error(transparent)]
    Failed(BoxError),
}

impl ToolError {
    /// A failure, in words for the model.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        Self::Failed(error.into())
    }

    /// Whether this only says that the tool was stopped, however deep.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        match self {
            Self::Stopped(_) => true,
            Self::Failed(error) => is_stop(&**error),
        }
    }
}

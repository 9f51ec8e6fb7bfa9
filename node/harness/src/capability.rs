//! What a run may do to its workspace through engines that have tools of their own: a small surface, scoped to one run.
//!
//! The handler of a capability is the security boundary: it checks whatever arrives. Which capabilities there are is the
//! application's; the kernel has one, `write_file`, and the guards that others should use too.

mod program;
mod server;
mod surface;
mod write_file;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::message::{JsonObject, ToolSpec};

pub use program::{AfterCall, CapabilityContract, CapabilityProgram, ContractError, serve_capabilities};
pub use server::CapabilityServer;
pub use write_file::write_file;

/// Where a run's capabilities reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityScope {
    /// The workspace.
    pub workspace_id: String,
    /// The working directory.
    pub workdir: PathBuf,
}

/// Makes the capabilities of one run.
pub type CapabilityTools = Arc<dyn Fn(&CapabilityScope) -> Vec<CapabilityTool> + Send + Sync>;

/// One capability.
#[derive(Clone)]
pub struct CapabilityTool {
    /// What an agent is told.
    pub spec: ToolSpec,
    /// Does it, or says why not.
    pub handler: CapabilityHandler,
}

/// Does what a capability is for. An error is told to the agent.
pub type CapabilityHandler =
    Arc<dyn Fn(JsonObject) -> BoxFuture<'static, Result<Value, CapabilityError>> + Send + Sync>;

/// Why a capability did nothing, in words for the agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CapabilityError(pub String);

impl fmt::Debug for CapabilityTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapabilityTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// # Errors
/// When `input` names another workspace than the run's, however it spells the field.
pub fn deny_cross_workspace(scope: &CapabilityScope, input: &JsonObject) -> Result<(), CapabilityError> {
    for field in ["workspace_id", "workspaceId"] {
        if input.get(field).is_some_and(|named| named.as_str() != Some(&scope.workspace_id)) {
            return Err(CapabilityError(format!("{field} is not the workspace of this run")));
        }
    }
    Ok(())
}

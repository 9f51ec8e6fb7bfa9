//! Which tools a run gets, and lossy views of them.
//!
//! A tool that is scoped to capabilities or modes is hidden unless a matching one is given: a caller that forgets its
//! scope sees less, never more.

use super::{InvocationMode, Replay, SharedTool};
use crate::message::ToolSpec;

/// For whom tools are selected.
#[derive(Debug, Clone, Default)]
pub struct ToolScope<'a> {
    /// The capability that is served.
    pub capability: Option<&'a str>,
    /// Who causes it.
    pub mode: Option<InvocationMode>,
    /// The only names that may be seen; None: all.
    pub allowed: Option<&'a [String]>,
}

/// The tools that may be seen in this scope, in order.
#[must_use]
pub fn select_tools(tools: &[SharedTool], scope: &ToolScope<'_>) -> Vec<SharedTool> {
    let is_seen = |tool: &&SharedTool| {
        let meta = tool.meta();
        let is_target = |capability: &str| meta.target_capabilities.iter().any(|target| target == capability);
        scope.allowed.is_none_or(|allowed| allowed.contains(&tool.spec().name))
            && (meta.target_capabilities.is_empty() || scope.capability.is_some_and(is_target))
            && (meta.invocation_modes.is_empty()
                || scope.mode.is_some_and(|mode| meta.invocation_modes.contains(&mode)))
    };
    tools.iter().filter(is_seen).cloned().collect()
}

/// What a model is told: names, descriptions and schemas.
#[must_use]
pub fn to_tool_specs(tools: &[SharedTool]) -> Vec<ToolSpec> {
    tools.iter().map(|tool| tool.spec().clone()).collect()
}

/// The tools that need a person's agreement.
#[must_use]
pub fn tools_requiring_confirmation(tools: &[SharedTool]) -> Vec<SharedTool> {
    let needs = |tool: &&SharedTool| tool.meta().requires_confirmation == Some(true);
    tools.iter().filter(needs).cloned().collect()
}

/// The tools that declare that they may be run again.
#[must_use]
pub fn replay_safe_tools(tools: &[SharedTool]) -> Vec<SharedTool> {
    let is_safe = |tool: &&SharedTool| tool.meta().replay == Some(Replay::Safe);
    tools.iter().filter(is_safe).cloned().collect()
}

/// The tool that undoes what the tool of this name did: only if it says that it is reversible and the other is there.
#[must_use]
pub fn undo_tool_for(tools: &[SharedTool], name: &str) -> Option<SharedTool> {
    let of_name = |name: &str| tools.iter().find(|tool| tool.spec().name == name);
    let meta = of_name(name)?.meta();
    let undo = meta.undo_tool_name.as_deref().filter(|_| meta.reversible == Some(true))?;
    of_name(undo).cloned()
}

//! Which engine a name means, and what an application brings to it.

use std::sync::Arc;

use super::{
    AcpAgentSpec, AcpEngine, ClaudeCodeEngine, CodexEngine, NativeEngine, PiEngine, SharedEngine,
    SharedToolSource,
};
use crate::agent_loop::SharedLoop;
use crate::capability::{CapabilityProgram, CapabilityTools};
use crate::context::ContextProvider;
use crate::host::HostEnv;
use crate::tool::SharedTool;

/// Makes an application's own tools for one run. It is given the names that the run allows, if it says.
pub type DomainTools = Arc<dyn Fn(Option<&[String]>) -> Vec<SharedTool> + Send + Sync>;

/// What an application brings to an engine. All of it may be left out.
#[derive(Clone, Default)]
pub struct EngineSelection {
    /// Its own tools.
    pub domain_tools: Option<DomainTools>,
    /// What its runs know beforehand.
    pub context_providers: Vec<Arc<dyn ContextProvider>>,
    /// The control flow, in place of the native loop.
    pub control: Option<SharedLoop>,
    /// What engines with tools of their own may do to a run's workspace.
    pub capability_tools: Option<CapabilityTools>,
    /// The same by a program of the application's own, which says what it emitted. Not beside `capability_tools`.
    pub capability_program: Option<CapabilityProgram>,
    /// Tools of the working directory; None: the kernel's own.
    pub primitives: Option<SharedToolSource>,
    /// Tools of the run's connectors; None: the kernel's own clients.
    pub connectors: Option<SharedToolSource>,
    /// The host's settings and keys.
    pub host: HostEnv,
}

impl EngineSelection {
    /// Whether the application brings capabilities, in whichever way.
    pub(crate) fn has_capabilities(&self) -> bool {
        self.capability_tools.is_some() || self.capability_program.is_some()
    }
}

/// The engine of this name. The native one for no name, and for one that is not known.
#[must_use]
pub fn select_engine(name: Option<&str>, selection: EngineSelection) -> SharedEngine {
    match name {
        Some("claude-code") => Arc::new(ClaudeCodeEngine::new(selection)),
        Some("codex") => Arc::new(CodexEngine::new(selection)),
        Some("eve") => Arc::new(AcpEngine::new(AcpAgentSpec::eve(), selection)),
        Some("opencode") => Arc::new(AcpEngine::new(AcpAgentSpec::opencode(), selection)),
        Some("gemini") => Arc::new(AcpEngine::new(AcpAgentSpec::gemini(), selection)),
        Some("pi") => Arc::new(PiEngine::new(selection)),
        _ => Arc::new(NativeEngine::new(selection)),
    }
}

impl std::fmt::Debug for EngineSelection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineSelection")
            .field("domain_tools", &self.domain_tools.is_some())
            .field("context_providers", &self.context_providers.len())
            .field("control", &self.control.as_ref().map(|control| control.name()))
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

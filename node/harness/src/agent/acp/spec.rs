//! What makes one ACP agent different from another, as data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::agent::{Refusal, RunSpec};
use crate::host::HostEnv;
use crate::secret::Secret;

/// Makes a program's arguments for a run. Every process can see them: no secret belongs there.
pub type AcpArguments = Arc<dyn Fn(&RunSpec) -> Vec<String> + Send + Sync>;

/// Makes variables of a program for a run, or says why the run is not for it.
pub type AcpVariables =
    Arc<dyn Fn(&RunSpec, &HostEnv) -> Result<BTreeMap<String, Secret>, Refusal> + Send + Sync>;

/// One kind of agent.
#[derive(Clone)]
pub struct AcpAgentSpec {
    /// The engine's name.
    pub name: String,
    /// The variable of the host that switches it on: `RUNNER_ENABLE_...`.
    pub enable_env: String,
    /// Its program, found in the host's `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: AcpArguments,
    /// Its variables, beside what it inherits and its keys.
    pub env: AcpVariables,
    /// Prefixes of the host's variables that it inherits, credentials excepted. Keep them narrow.
    pub inherit_env_prefixes: Vec<String>,
    /// Whether it is given the run's own keys of Anthropic, OpenAI and OpenRouter.
    pub takes_keys: bool,
    /// Whether it goes where `<PROVIDER>_BASE_URL` says.
    pub takes_gateway: bool,
    /// Whether it connects to servers that it is told about: those of the run's capabilities and connectors.
    pub takes_servers: bool,
    /// The variable of the host with the only key it can use, if it is such an agent.
    pub host_key: Option<String>,
    /// Whether it reads `AGENTS.md`. If not, it is told what is in there.
    pub reads_agents_md: bool,
}

impl AcpAgentSpec {
    /// An agent that takes the run's keys and servers and reads `AGENTS.md`, and nothing else.
    pub fn new(
        name: impl Into<String>,
        enable_env: impl Into<String>,
        command: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let args: Vec<String> = args.into_iter().map(Into::into).collect();
        Self {
            name: name.into(),
            enable_env: enable_env.into(),
            command: command.into(),
            args: Arc::new(move |_| args.clone()),
            env: Arc::new(|_, _| Ok(BTreeMap::new())),
            inherit_env_prefixes: Vec::new(),
            takes_keys: true,
            takes_gateway: false,
            takes_servers: true,
            host_key: None,
            reads_agents_md: true,
        }
    }
}

impl fmt::Debug for AcpAgentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcpAgentSpec")
            .field("name", &self.name)
            .field("command", &self.command)
            .field("inherit_env_prefixes", &self.inherit_env_prefixes)
            .finish_non_exhaustive()
    }
}

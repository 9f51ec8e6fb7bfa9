//! Engines for agents that speak the Agent Client Protocol on standard input and output.
//!
//! Which program, with which settings, is an [`AcpAgentSpec`]: there are three for known agents, and anybody may write
//! another. The protocol carries a prompt and MCP servers; whatever else a program can do is out of its reach, such as
//! its own terminal, its stored logins and the providers that need them.

mod known;
mod session;
mod spec;

use futures_util::future::BoxFuture;

use super::child::Child;
use super::child_env::ChildEnv;
use super::driven::{About, Drive, Driver, Finished, host_key};
use super::{EngineError, EngineSelection, Refusal, RunSpec, gateway};
use crate::environment::Harness;
use crate::limits::STOP_GRACE;
use crate::outcome::Outcome;
use session::{Conversation, converse};

pub use spec::{AcpAgentSpec, AcpArguments, AcpVariables};

/// Drives one kind of ACP agent.
#[derive(Debug)]
pub struct AcpEngine {
    spec: AcpAgentSpec,
    parts: EngineSelection,
}

impl AcpEngine {
    /// An engine for this agent.
    #[must_use]
    pub fn new(spec: AcpAgentSpec, parts: EngineSelection) -> Self {
        Self { spec, parts }
    }

    fn env(&self, run: &RunSpec) -> Result<ChildEnv, Refusal> {
        let prefixes: Vec<&str> = self.spec.inherit_env_prefixes.iter().map(String::as_str).collect();
        let mut env = ChildEnv::of_run(run, &self.parts.host, &prefixes);
        for provider in gateway::ROUTED {
            let name = provider.to_ascii_uppercase();
            if let Some(gateway) = &run.gateway {
                env.set(&format!("{name}_BASE_URL"), gateway.endpoint(provider));
                env.set_secret(&format!("{name}_API_KEY"), &gateway.run_token);
            } else if let Some(key) = run.provider.credentials.of(provider).filter(|_| self.spec.takes_keys) {
                env.set_secret(&format!("{name}_API_KEY"), key);
            }
        }
        if let Some((name, key)) = host_key(self, run) {
            env.set_secret(name, &key);
        }
        for (name, value) in (self.spec.env)(run, &self.parts.host)? {
            env.set_secret(&name, &value);
        }
        Ok(env)
    }

    async fn run_program(&self, drive: Drive<'_>) -> Result<Finished, EngineError> {
        let refused = |refusal| EngineError::Refused { engine: self.spec.name.clone(), refusal };
        let env = self.env(drive.spec).map_err(refused)?;
        let arguments = (self.spec.args)(drive.spec);
        let mut child = Child::start(&self.spec.command, arguments, &env, &drive.spec.workdir)?;
        let (stdin, lines) = child.take_pipes()?;
        let harness = if self.spec.reads_agents_md { Harness::Acp } else { Harness::AcpWithoutAgentsMd };
        let conversation = Conversation {
            cwd: drive.spec.workdir.clone(),
            servers: drive.servers.iter().map(session::server).collect(),
            prompt: drive.prompt(harness),
            name: self.spec.name.clone(),
        };
        let finished = Box::pin(converse(stdin, lines, conversation, drive.stop, drive.log)).await;
        // Some of these programs stay when nobody speaks to them any more, and some start themselves anew.
        let ended = child.end(STOP_GRACE).await;
        let is_well = finished.as_ref().is_ok_and(|finished| finished.outcome != Outcome::Failed);
        if !is_well && !ended.stderr.is_empty() {
            drive.log.line(&format!("{} wrote: {}", self.spec.name, ended.stderr));
        }
        finished.map_err(|message| EngineError::Agent { message })
    }
}

impl Driver for AcpEngine {
    fn about(&self) -> About<'_> {
        let AcpAgentSpec { name, enable_env, host_key, .. } = &self.spec;
        About { name, enable: enable_env, host_key: host_key.as_deref(), parts: &self.parts }
    }

    fn check(&self, run: &RunSpec) -> Result<(), Refusal> {
        let name = &self.spec.name;
        if run.gateway.is_some() && !self.spec.takes_gateway {
            return Err(Refusal::because(format!("{name} cannot send its model calls to a gateway")));
        }
        let has_servers = !run.connectors.is_empty() || self.parts.has_capabilities();
        if has_servers && !self.spec.takes_servers {
            return Err(Refusal::because(format!(
                "{name} takes no servers, so it takes neither connectors nor capabilities"
            )));
        }
        if self.spec.host_key.is_some() && !run.provider.env_fallback {
            return Err(Refusal::because(format!(
                "{name} has only the host's key, and the run does not allow env_fallback"
            )));
        }
        (self.spec.env)(run, &self.parts.host).map(|_| ())
    }

    fn drive<'a>(&'a self, drive: Drive<'a>) -> BoxFuture<'a, Result<Finished, EngineError>> {
        Box::pin(self.run_program(drive))
    }
}

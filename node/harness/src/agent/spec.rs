//! What a run is: everything an engine is told about it.
//!
//! A value like any other: nothing here reads the host or checks anything. Credentials are [`Secret`]s, so showing a
//! spec shows none.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Gateway, Isolation};
use crate::agent_loop::RequestedLimits;
use crate::connector::ConnectorConfig;
use crate::environment::RunEnvironment;
use crate::message::JsonObject;
use crate::provider::ProviderSelection;
use crate::secret::Secret;

/// One run.
#[derive(Debug, Clone, Default)]
pub struct RunSpec {
    /// Its id.
    pub run_id: String,
    /// What it may touch.
    pub workspace_id: String,
    /// Where its workflow is from, for people.
    pub workflow_path: String,
    /// What to do.
    pub workflow: Workflow,
    /// What to do it with.
    pub inputs: JsonObject,
    /// What is known beforehand.
    pub context: String,
    /// Where it works.
    pub workdir: PathBuf,
    /// What it may use.
    pub permissions: Permissions,
    /// Secrets for what it executes.
    pub secrets: BTreeMap<String, Secret>,
    /// Servers with more tools.
    pub connectors: Vec<ConnectorConfig>,
    /// Which model.
    pub provider: ProviderSelection,
    /// How far it may go.
    pub limits: RequestedLimits,
    /// Whether its material must not leave the host.
    pub private: bool,
    /// What its caller placed it in.
    pub isolation: Option<Isolation>,
    /// What every engine starts from.
    pub environment: Option<RunEnvironment>,
    /// Where its model calls go instead of to the providers.
    pub gateway: Option<Gateway>,
    /// Whether it may hold credentials in the clear although it is isolated in a virtual machine.
    pub exposed_credentials: ExposedCredentials,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Workflow {
    /// Its name.
    pub name: String,
    /// What the agent is told.
    pub prompt: String,
    /// The profile of runner it asks for: `ephemeral`.
    pub profile: Option<String>,
}

/// What a run may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// Tools by name; None: all.
    pub tools: Option<Vec<String>>,
    /// Hosts it may fetch from; None: all that are public.
    pub hosts: Option<Vec<String>>,
}

/// Whether a run in a virtual machine may hold credentials that no gateway can inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExposedCredentials {
    /// It is refused.
    #[default]
    Refused,
    /// Its caller's policy allows it.
    Allowed,
}

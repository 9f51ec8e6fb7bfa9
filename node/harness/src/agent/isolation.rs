//! What separates a run from its host.

use serde::{Deserialize, Serialize};

use crate::host::HostEnv;

/// What separates a run from its host, from the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Nothing.
    #[default]
    None,
    /// A container.
    Container,
    /// A virtual machine.
    Vm,
}

impl Isolation {
    /// By its name; what is not known is no isolation.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "container" => Self::Container,
            "vm" => Self::Vm,
            _ => Self::None,
        }
    }

    /// What the host's own entrypoint claims: `RUNNER_ISOLATION`.
    #[must_use]
    pub fn of_host(host: &HostEnv) -> Self {
        host.get("RUNNER_ISOLATION").map(|name| Self::from_name(&name)).unwrap_or_default()
    }

    /// The weaker of what the caller and the host claim: neither is believed alone.
    #[must_use]
    pub fn effective(claimed: Option<Self>, host: &HostEnv) -> Self {
        claimed.unwrap_or_default().min(Self::of_host(host))
    }
}

//! `[http]`: the job API for tenants, on a TCP port.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use crate::home::Home;

/// `[http]`. Nothing listens unless `listen` is set, and then only on the loopback interface: what comes from other
/// machines comes through something that speaks TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSection {
    /// Where it listens: an address of the loopback interface.
    pub listen: Option<SocketAddr>,
    /// The file with the tenants' credentials, absolute; one in the home when not set. Their keys are good on the Unix
    /// socket too.
    pub credentials: Option<PathBuf>,
    /// The file with the pepper of their digests, absolute; set where that is.
    pub pepper: Option<PathBuf>,
    /// The file with the token that the figures of `/metrics` need, absolute; without it nobody sees them.
    pub metrics_token: Option<PathBuf>,
    /// Requests of one tenant in a minute; 120 when not set.
    pub requests_per_minute: Option<u32>,
}

impl HttpSection {
    /// Where the tenants' credentials are or would be, and the pepper.
    #[must_use]
    pub fn key_files(&self, home: &Home) -> (PathBuf, PathBuf) {
        match (&self.credentials, &self.pepper) {
            (Some(credentials), Some(pepper)) => (credentials.clone(), pepper.clone()),
            _ => (home.keys().join("credentials.json"), home.keys().join("pepper")),
        }
    }
}

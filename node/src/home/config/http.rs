//! `[http]`: the job API for tenants, on a TCP port.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

/// `[http]`. Nothing listens unless `listen` is set, and then only on the loopback interface: what comes from other
/// machines comes through something that speaks TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSection {
    /// Where it listens: an address of the loopback interface.
    pub listen: Option<SocketAddr>,
    /// The file with the tenants' credentials, absolute. Their keys are good on the Unix socket too.
    pub credentials: Option<PathBuf>,
    /// The file with the pepper of their digests, absolute.
    pub pepper: Option<PathBuf>,
    /// The file with the token that the figures of `/metrics` need, absolute; without it nobody sees them.
    pub metrics_token: Option<PathBuf>,
    /// Requests of one tenant in a minute; 120 when not set.
    pub requests_per_minute: Option<u32>,
}

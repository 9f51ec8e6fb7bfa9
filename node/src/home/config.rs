//! `config.toml`: what people decide about a node. Everything has a default, and nothing is ignored.
//!
//! An unknown key is an error with its name, because a misspelt limit that is silently ignored is no limit. Isolation
//! is not configured here: `allow_classes` only says which of the classes that the sandbox proves may be used.

mod check;
mod http;

pub use check::{ConfigError, Problem};
pub use http::HttpSection;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mesh_node_core::site::JobPolicy;
use mesh_protocol::address::Name;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::JobLimits;
use mesh_protocol::policy::PermissionProfile;
use serde::Deserialize;

use crate::limits::CONFIG_BYTES_MAX;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `[node]`
    pub node: NodeSection,
    /// `[executor]`
    pub executor: ExecutorSection,
    /// `[http]`
    pub http: HttpSection,
    /// `[[agent]]`, each
    #[serde(rename = "agent")]
    pub agents: Vec<AgentSection>,
}

/// `[node]`: this node on the network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSection {
    /// What people call it; the host's name when not set.
    pub name: Option<Name>,
    /// Where it listens. Not set: [`NodeSection::DEFAULT_PORT`] on every address, or any port when that is taken.
    pub listen: Option<SocketAddr>,
    /// Where others can dial it, best first, when that is not where it listens.
    pub advertise: Vec<SocketAddr>,
}

impl NodeSection {
    /// The UDP port nodes try first, so that a restart keeps its address.
    pub const DEFAULT_PORT: u16 = 7_370;
}

/// `[executor]`: jobs on this node. A peer still needs the permission `job`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExecutorSection {
    /// Whether this node runs jobs, where its sandbox works.
    pub enabled: bool,
    /// Jobs at once; what the machine's size suggests when not set.
    pub slots: Option<u16>,
    /// Sandboxes of each language that wait for jobs; two when not set, none with 0.
    pub ready: Option<u16>,
    /// The gVisor runtime; looked up when not set.
    pub runsc: Option<PathBuf>,
    /// Isolation classes jobs may run in. `linux-shared-kernel` is offered only where gVisor does not work.
    pub allow_classes: Vec<IsolationClass>,
    /// Nodes, by name or id, that may run jobs this node cannot, in order of preference. Nobody else ever does.
    pub named: Vec<String>,
    /// Jobs of one tenant at once; two when not set.
    pub tenant_concurrency: Option<u16>,
    /// Jobs of one tenant that may wait; 64 when not set.
    pub tenant_queue: Option<u16>,
    /// MiB of memory that all running jobs may use together; 4096 when not set.
    pub memory_budget_mb: Option<u32>,
    /// MiB of memory that one job may use, whatever it asks for; 1024 when not set.
    pub job_memory_mb: Option<u32>,
    /// MiB kept for the jobs of one tenant; 4096 when not set.
    pub tenant_storage_mb: Option<u32>,
    /// MiB kept for all jobs; 16384 when not set.
    pub storage_mb: Option<u32>,
    /// Hours a job that has ended is kept; 168 when not set, and for ever when 0.
    pub retention_hours: Option<u32>,
    /// Root file systems that jobs may ask for: a name, and a directory or an OCI image.
    pub packs: BTreeMap<String, PathBuf>,
}

impl ExecutorSection {
    /// Whether jobs may run on the host's own kernel, where gVisor does not work.
    #[must_use]
    pub fn allows_shared_kernel(&self) -> bool {
        self.allow_classes.contains(&IsolationClass::LinuxSharedKernel)
    }

    /// What jobs may take here.
    #[must_use]
    pub fn policy(&self) -> JobPolicy {
        const MIB: u64 = 1024 * 1024;
        const HOUR_MS: u64 = 3_600_000;
        let default = JobPolicy::default();
        let bytes = |mib: Option<u32>, default| mib.map_or(default, |mib| u64::from(mib) * MIB);
        JobPolicy {
            tenant_concurrency: self.tenant_concurrency.map_or(default.tenant_concurrency, usize::from),
            tenant_queue_max: self.tenant_queue.map_or(default.tenant_queue_max, usize::from),
            queue_max: default.queue_max,
            memory_budget_mb: self.memory_budget_mb.unwrap_or(default.memory_budget_mb),
            job_mem_mb_max: self.job_memory_mb.map_or(default.job_mem_mb_max, |mib| {
                mib.clamp(JobLimits::MIN.mem_mb, JobLimits::MAX.mem_mb)
            }),
            tenant_bytes_max: bytes(self.tenant_storage_mb, default.tenant_bytes_max),
            bytes_max: bytes(self.storage_mb, default.bytes_max),
            retain_ms: match self.retention_hours {
                None => default.retain_ms,
                Some(0) => None,
                Some(hours) => Some(u64::from(hours) * HOUR_MS),
            },
        }
    }
}

impl Default for ExecutorSection {
    fn default() -> Self {
        let allow_classes = vec![IsolationClass::GvisorApplicationKernel];
        Self {
            enabled: true,
            slots: None,
            ready: None,
            runsc: None,
            allow_classes,
            named: Vec::new(),
            tenant_concurrency: None,
            tenant_queue: None,
            memory_budget_mb: None,
            job_memory_mb: None,
            tenant_storage_mb: None,
            storage_mb: None,
            retention_hours: None,
            packs: BTreeMap::new(),
        }
    }
}

/// `[[agent]]`: a program that does work.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSection {
    /// Its name, unique on this node.
    pub name: Name,
    /// The program and its arguments; no shell is involved.
    pub command: Vec<String>,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// Seconds one run may take.
    #[serde(default = "AgentSection::default_time_limit")]
    pub time_limit_seconds: u32,
    /// What its work may touch.
    #[serde(default)]
    pub permission: PermissionProfile,
    /// Who may see that it exists. Asking it still needs a grant.
    #[serde(default)]
    pub advertise: Visibility,
    /// Where it runs, absolute; the node's home when not set.
    pub working_directory: Option<PathBuf>,
    /// Names of environment variables passed through to it. Nothing else is.
    #[serde(default)]
    pub env: Vec<String>,
    /// Whether it takes work.
    #[serde(default = "AgentSection::default_enabled")]
    pub enabled: bool,
}

impl AgentSection {
    const fn default_time_limit() -> u32 {
        30 * 60
    }

    const fn default_enabled() -> bool {
        true
    }
}

/// Who may see that an agent exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Every member, in this node's directory record.
    #[default]
    Mesh,
    /// This machine only.
    Local,
}

impl Config {
    /// Reads and checks a file; all defaults when there is none.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file, and the key where there is one.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::Read { path: path.to_owned(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
        };
        let mut text = String::new();
        file.take(CONFIG_BYTES_MAX.saturating_add(1)).read_to_string(&mut text).map_err(failed)?;
        if u64::try_from(text.len()).is_ok_and(|bytes| bytes > CONFIG_BYTES_MAX) {
            return Err(ConfigError::TooLong { path: path.to_owned() });
        }
        Self::parse(&text, path)
    }

    /// Reads and checks a text; `path` is for errors.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`] or [`ConfigError::Invalid`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|source| {
            let source = Box::new(source);
            ConfigError::Syntax { path: path.to_owned(), source }
        })?;
        match check::first_problem(&config) {
            None => Ok(config),
            Some((key, problem)) => Err(ConfigError::Invalid { path: path.to_owned(), key, problem }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("config.toml"))
    }

    #[test]
    fn an_empty_file_is_all_defaults() {
        let config = parse("").unwrap();
        assert_eq!(config, Config::default());
        assert!(config.executor.enabled);
        assert_eq!(config.executor.allow_classes, [IsolationClass::GvisorApplicationKernel]);
    }

    #[test]
    fn every_key_is_read() {
        let config = parse(
            r#"
            [node]
            name = "Atlas"
            listen = "127.0.0.1:0"
            advertise = ["192.0.2.7:7370"]
            [executor]
            enabled = false
            slots = 4
            ready = 0
            runsc = "/opt/runsc"
            allow_classes = ["gvisor-application-kernel", "linux-shared-kernel"]
            [http]
            listen = "127.0.0.1:7300"
            credentials = "/srv/keys.json"
            pepper = "/srv/pepper"
            requests_per_minute = 60
            [[agent]]
            name = "reviewer"
            command = ["review", "--json"]
            description = "reads changes"
            time_limit_seconds = 60
            permission = "workspace_write"
            advertise = "local"
            working_directory = "/srv/code"
            env = ["API_KEY", "_X1"]
            enabled = false
            "#,
        )
        .unwrap();
        assert_eq!(config.node.name.unwrap().as_str(), "atlas");
        assert_eq!(config.node.advertise[0].port(), 7_370);
        assert_eq!((config.executor.slots, config.executor.allow_classes.len()), (Some(4), 2));
        assert_eq!(config.http.listen.unwrap().port(), 7_300);
        assert_eq!(config.executor.ready, Some(0));
        let agent = &config.agents[0];
        assert_eq!(
            (agent.permission, agent.advertise),
            (PermissionProfile::WorkspaceWrite, Visibility::Local)
        );
        assert_eq!((agent.time_limit_seconds, agent.enabled), (60, false));
        assert_eq!(agent.env, ["API_KEY", "_X1"]);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error = parse("[node]\nnmae = \"atlas\"\n").unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("`nmae`") && source.contains("line 2"), "{source}");
    }

    #[test]
    fn a_missing_file_is_all_defaults_and_a_huge_one_is_refused() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("config.toml");
        assert_eq!(Config::read(&path).unwrap(), Config::default());
        let huge = " ".repeat(usize::try_from(CONFIG_BYTES_MAX).unwrap() + 1);
        std::fs::write(&path, huge).unwrap();
        assert!(matches!(Config::read(&path), Err(ConfigError::TooLong { .. })));
    }
}

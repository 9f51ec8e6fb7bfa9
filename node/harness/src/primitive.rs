//! The tools every run has: `run_code`, `read_file`, `list_files` and `http_fetch`, for one working directory.
//!
//! They know nothing of what a run is for. What they touch is bounded: files beneath the working directory, hosts that
//! are public, and an environment of `PATH`, `HOME` and what the caller adds. Code that a model wrote runs on this host,
//! unless the caller hands it to another [`CodeRunner`].

pub mod address;
mod code;
mod download;
mod fetch;
mod files;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;

use crate::agent::{OpenTools, RunSpec, ToolSource};
use crate::host::HostEnv;
use crate::message::JsonObject;
use crate::model::BoxError;
use crate::secret::{Secret, secrets_to_env};
use crate::stop::Stop;
use crate::tool::{SharedTool, ToolError};

pub use code::{CodeError, CodeRequest, CodeResult, CodeRunner, LocalCode};
pub use download::DownloadError;
pub use fetch::{FetchError, FetchRequest, Fetched, Fetcher, Resolve, SystemResolver};
pub use files::FileError;

/// What the primitives of a run may touch.
#[derive(Clone)]
pub struct PrimitiveOptions {
    /// The working directory.
    pub workdir: PathBuf,
    /// Variables for code, beside `PATH` and `HOME`: a run's secrets.
    pub env: BTreeMap<String, Secret>,
    /// The tools by name; None: all.
    pub allowed: Option<Vec<String>>,
    /// Hosts to fetch from, with the port where it is not the scheme's own; None: all that are public.
    pub allow_hosts: Option<Vec<String>>,
    /// Settings of the host.
    pub host: HostEnv,
    /// Who executes code; None: this host.
    pub code: Option<Arc<dyn CodeRunner>>,
    /// Who finds addresses.
    pub resolver: Arc<dyn Resolve>,
}

impl PrimitiveOptions {
    /// Everything, in this directory.
    pub fn new(workdir: impl Into<PathBuf>) -> Self {
        Self {
            workdir: workdir.into(),
            env: BTreeMap::new(),
            allowed: None,
            allow_hosts: None,
            host: HostEnv::process(),
            code: None,
            resolver: Arc::new(SystemResolver),
        }
    }
}

impl fmt::Debug for PrimitiveOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrimitiveOptions")
            .field("workdir", &self.workdir)
            .field("env", &self.env)
            .field("allowed", &self.allowed)
            .field("allow_hosts", &self.allow_hosts)
            .finish_non_exhaustive()
    }
}

/// The primitives, as far as they are allowed.
#[must_use]
pub fn primitive_tools(options: &PrimitiveOptions) -> Vec<SharedTool> {
    let local = || LocalCode::new(options.workdir.clone(), options.env.clone(), options.host.clone());
    let runner = options.code.clone().unwrap_or_else(|| Arc::new(local()));
    let fetcher = Fetcher {
        allow_hosts: options.allow_hosts.clone(),
        host: options.host.clone(),
        resolver: options.resolver.clone(),
    };
    let tools: [SharedTool; 4] = [
        Arc::new(code::RunCode::new(runner)),
        Arc::new(files::ReadFile::new(options.workdir.clone())),
        Arc::new(files::ListFiles::new(options.workdir.clone())),
        Arc::new(fetch::HttpFetch::new(fetcher)),
    ];
    let is_allowed =
        |tool: &SharedTool| options.allowed.as_ref().is_none_or(|names| names.contains(&tool.spec().name));
    tools.into_iter().filter(is_allowed).collect()
}

/// The primitives as a source of a run's tools: its working directory, its secrets, its hosts.
#[derive(Clone)]
pub struct Primitives {
    /// Settings of the host.
    pub host: HostEnv,
    /// Who executes code; None: this host.
    pub code: Option<Arc<dyn CodeRunner>>,
}

impl ToolSource for Primitives {
    fn name(&self) -> &'static str {
        "the tools of the working directory"
    }

    fn open<'a>(&'a self, spec: &'a RunSpec, _: &'a Stop) -> BoxFuture<'a, Result<OpenTools, BoxError>> {
        let options = PrimitiveOptions {
            env: secrets_to_env(&spec.secrets),
            allowed: spec.permissions.tools.clone(),
            allow_hosts: spec.permissions.hosts.clone(),
            host: self.host.clone(),
            code: self.code.clone(),
            ..PrimitiveOptions::new(&spec.workdir)
        };
        Box::pin(async move { Ok(OpenTools::of(primitive_tools(&options))) })
    }
}

impl fmt::Debug for Primitives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Primitives").field("elsewhere", &self.code.is_some()).finish_non_exhaustive()
    }
}

/// The arguments of a call, or an error that says what is wrong with them.
fn arguments<T: DeserializeOwned>(input: JsonObject) -> Result<T, ToolError> {
    serde_json::from_value(input.into()).map_err(ToolError::failed)
}

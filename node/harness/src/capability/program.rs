//! Serving the capabilities of a run from a program of the application's own, on its standard input and output.
//!
//! ```text
//!   engine ── variables ──> harness ── starts ──> this program: tools, calls, emissions
//!      └──────── reads the emissions when the run is over ────────┘
//! ```
//!
//! For applications whose capabilities cannot live in the process that runs the engine. What the program inherits is the
//! harness's business: some hand their own keys on. [`CapabilityServer`](super::CapabilityServer) needs no program.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ServiceExt as _;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

use super::surface::Surface;
use super::{CapabilityScope, CapabilityTool};
use crate::host::HostEnv;
use crate::limits::SURFACE_REQUEST_BYTES;

const WORKSPACE: &str = "HARNESS_WORKSPACE_ID";
const WORKDIR: &str = "HARNESS_WORKDIR";
const EMISSIONS: &str = "HARNESS_EMISSIONS_FILE";
const CONTACT: &str = "HARNESS_CONTACT_FILE";

/// A program that serves capabilities. It is started by the harness, once or more often, and told its
/// [`CapabilityContract`] by variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityProgram {
    /// The program.
    pub command: String,
    /// Its arguments. Every process can see them: no secret belongs there.
    pub args: Vec<String>,
}

/// What such a program is told about its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityContract {
    /// Where its capabilities reach.
    pub scope: CapabilityScope,
    /// Where it leaves what it emits, as JSON; only the application knows what it means.
    pub emissions: PathBuf,
    /// What it makes when it is first asked for its tools. A run without it has failed.
    pub contact: PathBuf,
}

/// A variable of the contract is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{variable} is not set; an engine sets it for the program that serves the capabilities of its run")]
pub struct ContractError {
    /// Which.
    pub variable: &'static str,
}

impl CapabilityContract {
    /// What this process was told.
    ///
    /// # Errors
    /// The first variable that is missing.
    pub fn of_process(host: &HostEnv) -> Result<Self, ContractError> {
        let get = |variable| host.get(variable).ok_or(ContractError { variable });
        Ok(Self {
            scope: CapabilityScope { workspace_id: get(WORKSPACE)?, workdir: get(WORKDIR)?.into() },
            emissions: get(EMISSIONS)?.into(),
            contact: get(CONTACT)?.into(),
        })
    }

    /// As variables.
    pub(crate) fn variables(&self) -> [(&'static str, String); 4] {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        [
            (WORKSPACE, self.scope.workspace_id.clone()),
            (WORKDIR, text(&self.scope.workdir)),
            (EMISSIONS, text(&self.emissions)),
            (CONTACT, text(&self.contact)),
        ]
    }
}

/// What there is to emit so far. Called after every call, however it ended, one at a time; None leaves the file as it is.
pub type AfterCall = Arc<dyn Fn() -> Option<Value> + Send + Sync>;

/// Serves capabilities to whoever started this program, until they hang up. `input` and `output` are
/// [`stdin`](tokio::io::stdin) and [`stdout`](tokio::io::stdout); nothing else may be written there.
///
/// ```no_run
/// use mesh_harness::capability::{CapabilityContract, serve_capabilities, write_file};
/// use mesh_harness::host::HostEnv;
///
/// # async fn program() -> anyhow::Result<()> {
/// let contract = CapabilityContract::of_process(&HostEnv::process())?;
/// let tools = vec![write_file(&contract.scope)];
/// serve_capabilities(&contract, tools, None, tokio::io::stdin(), tokio::io::stdout()).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// What went wrong with the conversation. A file that cannot be written is told to `tracing` and ends nothing: the
/// engine notices that it is missing.
pub async fn serve_capabilities(
    contract: &CapabilityContract,
    tools: Vec<CapabilityTool>,
    after_call: Option<AfterCall>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> io::Result<()> {
    let contact = contract.contact.clone();
    let mut surface = Surface::new(tools, move || {
        told(&contact, OpenOptions::new().create(true).append(true).open(&contact).map(drop));
    });
    if let Some(after_call) = after_call {
        let (emissions, turn) = (contract.emissions.clone(), Mutex::new(()));
        surface = surface.with_after_call(move || {
            // Calls end side by side: without turns an older value could replace a newer one.
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(value) = after_call() {
                told(&emissions, replace(&emissions, &value));
            }
        });
    }
    let transport = AsyncRwTransport::new(input, output).with_max_line_length(SURFACE_REQUEST_BYTES);
    let serving = surface.serve(transport).await.map_err(io::Error::other)?;
    serving.waiting().await.map(drop).map_err(io::Error::other)
}

/// Replaces a file as a whole: who reads it finds the old or the new one.
fn replace(file: &Path, value: &Value) -> io::Result<()> {
    let next = file.with_extension("next");
    fs::write(&next, value.to_string())?;
    fs::rename(&next, file)
}

fn told(file: &Path, written: io::Result<()>) {
    if let Err(error) = written {
        tracing::error!(file = %file.display(), %error, "a file of the run cannot be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_read_back_and_a_variable_that_is_missing_is_named() {
        let contract = CapabilityContract {
            scope: CapabilityScope { workspace_id: "w".into(), workdir: "/work".into() },
            emissions: "/run/emissions.json".into(),
            contact: "/run/contact".into(),
        };
        let host = HostEnv::fixed(contract.variables());
        assert_eq!(CapabilityContract::of_process(&host), Ok(contract.clone()));
        for (missing, _) in contract.variables() {
            let others = contract.variables().into_iter().filter(|(name, _)| *name != missing);
            let error = CapabilityContract::of_process(&HostEnv::fixed(others)).unwrap_err();
            assert_eq!(error.variable, missing);
            assert!(error.to_string().contains(missing));
        }
    }
}

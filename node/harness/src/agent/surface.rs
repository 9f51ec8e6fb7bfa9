//! The capabilities of one run as an engine that drives a program has them: served here, or by a program of the
//! application's own. Either way there is proof of whether somebody asked for them.

use std::path::Path;

use serde_json::Value;

use super::private_dir::PrivateDir;
use super::servers::{self, Server};
use super::{EngineError, EngineSelection, Refusal, RunSpec};
use crate::capability::{
    CapabilityContract, CapabilityProgram, CapabilityScope, CapabilityServer, CapabilityTool,
};
use crate::limits::EMISSIONS_BYTES;
use crate::log::Log;
use crate::secret::Secret;

/// What a run's capabilities are, before they are served.
pub(super) enum Plan<'a> {
    None,
    Here(Vec<CapabilityTool>),
    Program(&'a CapabilityProgram, CapabilityScope),
}

/// The file of the run's private directory for what its capabilities emit.
const EMISSIONS_FILE: &str = "emissions.json";

/// The capabilities of one run, served. Dropping it closes them.
pub(super) enum Surface {
    Here(CapabilityServer),
    Program { program: CapabilityProgram, contract: CapabilityContract, files: PrivateDir },
}

impl<'a> Plan<'a> {
    pub(super) fn of(parts: &'a EngineSelection, spec: &RunSpec) -> Self {
        let scope =
            CapabilityScope { workspace_id: spec.workspace_id.clone(), workdir: spec.workdir.clone() };
        match (&parts.capability_tools, &parts.capability_program) {
            (Some(tools), _) => Self::Here(tools(&scope)),
            (None, Some(program)) => Self::Program(program, scope),
            (None, None) => Self::None,
        }
    }

    /// The names of the capabilities, as far as they are known here.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Here(tools) => tools.iter().map(|tool| tool.spec.name.clone()).collect(),
            Self::None | Self::Program(..) => Vec::new(),
        }
    }

    /// Serves them, if there are any.
    pub(super) async fn serve(self, workdir: &Path) -> Result<Option<Surface>, EngineError> {
        let failed = |source: std::io::Error| EngineError::Setup {
            what: "the capability surface".into(),
            source: source.into(),
        };
        match self {
            Self::None => Ok(None),
            Self::Here(tools) => {
                Ok(Some(Surface::Here(CapabilityServer::start(tools).await.map_err(failed)?)))
            }
            Self::Program(program, scope) => {
                let files = PrivateDir::outside(workdir)?;
                let contract = CapabilityContract {
                    scope,
                    emissions: files.path().join(EMISSIONS_FILE),
                    contact: files.path().join("contact"),
                };
                Ok(Some(Surface::Program { program: program.clone(), contract, files }))
            }
        }
    }
}

/// # Errors
/// When an application brings capabilities in both ways: there is one surface.
pub(super) fn check(parts: &EngineSelection) -> Result<(), Refusal> {
    match (&parts.capability_tools, &parts.capability_program) {
        (Some(_), Some(_)) => Err(Refusal::because(
            "capabilities are brought as capability_tools or as a capability_program, not as both",
        )),
        _ => Ok(()),
    }
}

impl Surface {
    /// As a server that the program is told about.
    pub(super) fn server(&self) -> Server {
        match self {
            Self::Here(server) => servers::surface(server),
            Self::Program { program, contract, .. } => servers::surface_program(program, contract),
        }
    }

    /// What must not be shown of it.
    pub(super) fn token(&self) -> Option<Secret> {
        match self {
            Self::Here(server) => Some(server.token().clone()),
            Self::Program { .. } => None,
        }
    }

    /// Whether somebody has asked for the list of capabilities.
    pub(super) fn was_contacted(&self) -> bool {
        match self {
            Self::Here(server) => server.was_contacted(),
            Self::Program { contract, .. } => contract.contact.exists(),
        }
    }

    /// What its program has emitted. Nothing that is not JSON is handed on.
    pub(super) fn emissions(&self, log: &Log) -> Option<Value> {
        let Self::Program { files, .. } = self else { return None };
        let (found, said) = match read(files) {
            Ok(Some((value, bytes))) => (Some(value), format!("present ({bytes} bytes)")),
            Ok(None) => (None, "absent".to_owned()),
            Err(why) => (None, format!("unreadable ({why})")),
        };
        log.line(&format!("emissions: {said}"));
        found
    }
}

/// The emissions in the run's directory and their size; None if there are none.
fn read(files: &PrivateDir) -> Result<Option<(Value, usize)>, String> {
    let content = files.read(EMISSIONS_FILE, EMISSIONS_BYTES).map_err(|error| error.kind().to_string())?;
    let Some(content) = content else { return Ok(None) };
    let value = serde_json::from_slice(&content).map_err(|_| "it is no JSON".to_owned())?;
    Ok(Some((value, content.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emissions_are_there_or_absent_or_unreadable() {
        let workdir = tempfile::tempdir().unwrap();
        let files = PrivateDir::outside(workdir.path()).unwrap();
        let file = files.path().join(EMISSIONS_FILE);
        assert_eq!(read(&files), Ok(None));
        for (content, expected) in [("{}", serde_json::json!({})), ("[1]", serde_json::json!([1]))] {
            std::fs::write(&file, content).unwrap();
            assert_eq!(read(&files), Ok(Some((expected, content.len()))), "empty is not absent");
        }
        for content in ["", "{\"a\":", "\u{0}", &"1".repeat(EMISSIONS_BYTES + 1)] {
            std::fs::write(&file, content).unwrap();
            assert!(read(&files).is_err());
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(read(&files).is_err(), "a directory is no file");
    }

    #[test]
    fn what_is_put_in_the_place_of_the_emissions_is_neither_followed_nor_waited_for() {
        let workdir = tempfile::tempdir().unwrap();
        let files = PrivateDir::outside(workdir.path()).unwrap();
        let file = files.path().join(EMISSIONS_FILE);
        let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        assert!(read(&files).is_err(), "nobody is at the other end of the pipe");
        std::fs::remove_file(&file).unwrap();
        std::fs::write(workdir.path().join("elsewhere"), "{}").unwrap();
        std::os::unix::fs::symlink(workdir.path().join("elsewhere"), &file).unwrap();
        assert!(read(&files).is_err());
    }
}

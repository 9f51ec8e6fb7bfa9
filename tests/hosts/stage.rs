//! Where the programs run: a network namespace of their own, a home of their own, and a look at what they leave behind.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_harness::agent::{
    AcpAgentSpec, AcpEngine, ClaudeCodeEngine, CodexEngine, EngineSelection, Gateway, Isolation, PiEngine,
    RunSpec, SharedEngine,
};
use mesh_harness::capability::{CapabilityProgram, CapabilityTool, CapabilityTools};
use mesh_harness::host::HostEnv;
use serde_json::json;

use crate::model::Model;

/// Set by `./tests/run --hosts`: the folder that the programs were installed to.
const HOSTS: &str = "MESH_HOSTS";

/// Set where the other half of a test runs.
const NAMESPACE: &str = "MESH_TEST_NAMESPACE";

/// Runs the ignored test `name` in a network namespace that has nothing but loopback, if `program` is installed.
pub(crate) fn in_a_namespace(name: &str, program: &str) {
    let Some(installed) = installed(program) else {
        eprintln!("SKIPPED: {program} is not installed; ./tests/run --hosts does that");
        return;
    };
    let prepare = "ip link set lo up";
    let works = Command::new("unshare").args(["-rn", "sh", "-c", prepare]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no network namespace can be made here (unshare -rn, ip)");
        return;
    }
    let mut asking = Command::new(&installed);
    asking.arg("--version").env("PATH", path_with(installed.parent().unwrap()));
    let version = asking.output().unwrap();
    let version = [version.stdout, version.stderr].concat();
    eprintln!("{program}: {}", String::from_utf8_lossy(&version).trim());
    let script = format!("{prepare} && exec \"$0\" --exact {name} --ignored --nocapture");
    let mut inside = Command::new("unshare");
    inside.args(["-rn", "sh", "-c", &script]).arg(std::env::current_exe().unwrap()).env(NAMESPACE, "1");
    let output = inside.output().unwrap();
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprintln!("{told}");
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// Whether this is the other half of a test.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(NAMESPACE).is_some()
}

/// The folders with the programs. eve brings a Node.js of its own, which must not be the others'.
fn folder(program: &str) -> Option<PathBuf> {
    let hosts = PathBuf::from(std::env::var_os(HOSTS)?);
    Some(if program == "eve" { hosts.join("eve") } else { hosts })
}

fn installed(program: &str) -> Option<PathBuf> {
    Some(folder(program)?.join("node_modules/.bin").join(program)).filter(|file| file.exists())
}

/// This process's path, with a folder before it.
fn path_with(folder: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([folder.to_owned()].into_iter().chain(std::env::split_paths(&path))).unwrap()
}

/// The programs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Agent {
    ClaudeCode,
    Codex,
    OpenCode,
    Gemini,
    Pi,
    Eve,
}

impl Agent {
    /// Whether it connects to servers it is told about.
    pub(crate) fn takes_servers(self) -> bool {
        !matches!(self, Self::Pi | Self::Eve)
    }

    /// Whether its model calls go through a gateway.
    pub(crate) fn takes_gateway(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::Codex | Self::Eve)
    }
}

/// Where a run's capabilities are.
pub(crate) enum Capabilities {
    None,
    Here(Vec<CapabilityTool>),
    Program(CapabilityProgram),
}

/// A home and a working directory for one run.
pub(crate) struct Place {
    home: tempfile::TempDir,
    pub(crate) workdir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), workdir: tempfile::tempdir().unwrap() }
    }

    /// The host as an engine sees it: it may run programs in a container, and its providers are the model.
    fn host(&self, agent: Agent, model: &Model) -> HostEnv {
        let program = if agent == Agent::Eve { "eve" } else { "" };
        let path = path_with(&folder(program).unwrap().join("node_modules/.bin"));
        let provider = json!({"npm": "@ai-sdk/openai-compatible", "models": {"scripted": {}},
            "options": {"baseURL": format!("{}/v1", model.url()), "apiKey": "host-key"}});
        let opencode = json!({"autoupdate": false, "share": "disabled", "provider": {"scripted": provider}});
        let enable = match agent {
            Agent::ClaudeCode => "RUNNER_ENABLE_CLAUDE_CODE",
            Agent::Codex => "RUNNER_ENABLE_CODEX",
            Agent::OpenCode => "RUNNER_ENABLE_OPENCODE",
            Agent::Gemini => "RUNNER_ENABLE_GEMINI",
            Agent::Pi => "RUNNER_ENABLE_PI",
            Agent::Eve => "RUNNER_ENABLE_EVE",
        };
        let variables = [
            ("PATH", path.to_str().unwrap().to_owned()),
            ("HOME", self.home.path().to_str().unwrap().to_owned()),
            (enable, "1".into()),
            ("RUNNER_ISOLATION", "container".into()),
            ("ANTHROPIC_BASE_URL", model.url()),
            ("ANTHROPIC_API_KEY", "host-key".into()),
            ("OPENAI_BASE_URL", format!("{}/v1", model.url())),
            ("OPENAI_API_KEY", "host-key".into()),
            ("GOOGLE_GEMINI_BASE_URL", model.url()),
            ("GEMINI_API_KEY", "host-key".into()),
            ("OPENCODE_CONFIG_CONTENT", opencode.to_string()),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1".into()),
            ("HOST_CANARY_TOKEN", "canary".into()),
        ];
        HostEnv::fixed(variables)
    }

    /// The engine that drives this program.
    pub(crate) fn engine(&self, agent: Agent, model: &Model, capabilities: Capabilities) -> SharedEngine {
        let mut parts = EngineSelection { host: self.host(agent, model), ..EngineSelection::default() };
        match capabilities {
            Capabilities::None => {}
            Capabilities::Here(tools) => {
                let tools: CapabilityTools = Arc::new(move |_| tools.clone());
                parts.capability_tools = Some(tools);
            }
            Capabilities::Program(program) => parts.capability_program = Some(program),
        }
        match agent {
            Agent::Pi => self.write(".pi/agent/models.json", &pi_models(model)),
            Agent::Eve => self.make_an_application_of_eve(),
            _ => {}
        }
        match agent {
            Agent::ClaudeCode => Arc::new(ClaudeCodeEngine::new(parts)),
            Agent::Codex => Arc::new(CodexEngine::new(parts)),
            Agent::OpenCode => Arc::new(AcpEngine::new(AcpAgentSpec::opencode(), parts)),
            Agent::Gemini => Arc::new(AcpEngine::new(AcpAgentSpec::gemini(), parts)),
            Agent::Pi => Arc::new(PiEngine::new(parts)),
            Agent::Eve => Arc::new(AcpEngine::new(AcpAgentSpec::eve(), parts)),
        }
    }

    /// Writes a file below the home.
    fn write(&self, path: &str, content: &str) {
        let file = self.home.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
    }

    /// What eve runs: an application in the working directory, with Anthropic's model.
    fn make_an_application_of_eve(&self) {
        let workdir = self.workdir.path();
        let agent = r#"import { defineAgent } from "eve";
import { anthropic } from "eve/models/anthropic";
export default defineAgent({ model: anthropic("claude-sonnet-4-6"), modelContextWindowTokens: 200_000 });
"#;
        std::fs::create_dir(workdir.join("agent")).unwrap();
        std::fs::write(workdir.join("agent/agent.ts"), agent).unwrap();
        std::fs::write(workdir.join("agent/instructions.md"), "You are an agent.\n").unwrap();
        std::fs::write(
            workdir.join("package.json"),
            r#"{"private": true, "type": "module", "dependencies": {"eve": "*"}}"#,
        )
        .unwrap();
        let modules = folder("eve").unwrap().join("node_modules");
        std::os::unix::fs::symlink(modules, workdir.join("node_modules")).unwrap();
    }

    pub(crate) fn spec(&self, agent: Agent) -> RunSpec {
        let mut spec = RunSpec {
            run_id: "run".into(),
            workspace_id: "workspace".into(),
            workdir: self.workdir.path().to_owned(),
            isolation: Some(Isolation::Container),
            ..RunSpec::default()
        };
        spec.workflow.prompt = "Note what you are told to note.".into();
        spec.workflow.profile = Some("ephemeral".into());
        spec.provider.model = Some(
            match agent {
                Agent::ClaudeCode => "claude-sonnet-4-6",
                Agent::Codex => "gpt-5-codex",
                Agent::OpenCode | Agent::Pi => "scripted/scripted",
                Agent::Gemini => "gemini-2.5-pro",
                Agent::Eve => "its application says",
            }
            .into(),
        );
        spec
    }

    /// The same, whose model calls go through a gateway.
    pub(crate) fn spec_through_a_gateway(&self, agent: Agent, model: &Model) -> RunSpec {
        let mut spec = self.spec(agent);
        spec.provider.credentials.anthropic = Some("own-canary".into());
        spec.provider.credentials.openai = Some("own-canary".into());
        let gateway =
            Gateway { base_url: model.url(), run_token: "run-token".into(), routes: Default::default() };
        RunSpec { gateway: Some(gateway), ..spec }
    }

    /// The processes whose home this is.
    fn processes(&self) -> Vec<String> {
        let mark = format!("HOME={}", self.home.path().display());
        let is_ours = |process: &Path| {
            let environment = std::fs::read(process.join("environ")).unwrap_or_default();
            let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
            let is_dead = stat.rsplit(") ").next().unwrap_or_default().starts_with('Z');
            !is_dead && environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let ours = all.filter(|process| is_ours(process));
        ours.map(|process| {
            let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
            format!("{}: {}", process.display(), String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .collect()
    }

    /// Whether there are processes of this run now.
    pub(crate) fn is_alive(&self) -> bool {
        !self.processes().is_empty()
    }

    /// Waits a little, and fails if a process of this run is left.
    pub(crate) async fn is_left_empty(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "processes are left: {left:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The model as Pi's own configuration has it.
fn pi_models(model: &Model) -> String {
    let provider = json!({"baseUrl": format!("{}/v1", model.url()), "api": "openai-completions",
        "apiKey": "host-key", "models": [{"id": "scripted"}]});
    json!({"providers": {"scripted": provider}}).to_string()
}

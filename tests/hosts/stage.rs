//! Where the programs run: a network namespace of their own, a home of their own, and a look at what they leave behind.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_harness::agent::{
    AcpAgentSpec, AcpEngine, ClaudeCodeEngine, CodexEngine, EngineSelection, Isolation, RunSpec, SharedEngine,
};
use mesh_harness::capability::{CapabilityTool, CapabilityTools};
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
    let version = Command::new(installed).arg("--version").output().unwrap();
    eprintln!("{program}: {}", String::from_utf8_lossy(&version.stdout).trim());
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

fn installed(program: &str) -> Option<PathBuf> {
    let file = PathBuf::from(std::env::var_os(HOSTS)?).join("node_modules/.bin").join(program);
    file.exists().then_some(file)
}

/// The programs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Agent {
    ClaudeCode,
    Codex,
    OpenCode,
    Gemini,
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
        let tools = PathBuf::from(std::env::var_os(HOSTS).unwrap()).join("node_modules/.bin");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path: OsString =
            std::env::join_paths([tools].into_iter().chain(std::env::split_paths(&path))).unwrap();
        let provider = json!({"npm": "@ai-sdk/openai-compatible", "models": {"scripted": {}},
            "options": {"baseURL": format!("{}/v1", model.url()), "apiKey": "host-key"}});
        let opencode = json!({"autoupdate": false, "share": "disabled", "provider": {"scripted": provider}});
        let enable = match agent {
            Agent::ClaudeCode => "RUNNER_ENABLE_CLAUDE_CODE",
            Agent::Codex => "RUNNER_ENABLE_CODEX",
            Agent::OpenCode => "RUNNER_ENABLE_OPENCODE",
            Agent::Gemini => "RUNNER_ENABLE_GEMINI",
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
    pub(crate) fn engine(&self, agent: Agent, model: &Model, tools: Vec<CapabilityTool>) -> SharedEngine {
        let capability_tools: CapabilityTools = Arc::new(move |_| tools.clone());
        let parts = EngineSelection {
            host: self.host(agent, model),
            capability_tools: Some(capability_tools),
            ..EngineSelection::default()
        };
        match agent {
            Agent::ClaudeCode => Arc::new(ClaudeCodeEngine::new(parts)),
            Agent::Codex => Arc::new(CodexEngine::new(parts)),
            Agent::OpenCode => Arc::new(AcpEngine::new(AcpAgentSpec::opencode(), parts)),
            Agent::Gemini => Arc::new(AcpEngine::new(AcpAgentSpec::gemini(), parts)),
        }
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
                Agent::OpenCode => "scripted/scripted",
                Agent::Gemini => "gemini-2.5-pro",
            }
            .into(),
        );
        spec
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
        let deadline = Instant::now() + Duration::from_secs(3);
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

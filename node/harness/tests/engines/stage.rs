//! A place for one run of a script: a folder for its programs, a home, a working directory.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mesh_harness::agent::{
    EngineContext, EngineError, EngineResult, EngineSelection, Isolation, RunSpec, SharedEngine,
};
use mesh_harness::capability::{CapabilityHandler, CapabilityTool, CapabilityTools};
use mesh_harness::event::{RecordedEvents, record_run_events};
use mesh_harness::host::HostEnv;
use mesh_harness::log::Log;
use mesh_harness::message::ToolSpec;
use mesh_harness::stop::Stop;
use serde_json::json;

/// Everything of one run.
pub(crate) struct Stage {
    root: tempfile::TempDir,
    pub(crate) stop: Stop,
    lines: Arc<Mutex<Vec<String>>>,
    pub(crate) events: RecordedEvents,
    sink: mesh_harness::event::SharedSink,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["bin", "home", "work", "told"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        let (sink, events) = record_run_events();
        Self { root, stop: Stop::new(), lines: Arc::default(), events, sink }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Installs a script as a program. It finds `$TOLD`, a folder to leave things in for the test.
    pub(crate) fn program(&self, name: &str, script: &str) {
        let file = self.path("bin").join(name);
        let told = self.path("told");
        std::fs::write(&file, format!("#!/bin/sh\nTOLD='{}'\n{script}\n", told.display())).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What a program left in `$TOLD`.
    pub(crate) fn told(&self, name: &str) -> String {
        std::fs::read_to_string(self.path("told").join(name)).unwrap_or_default()
    }

    /// Waits until it is there.
    pub(crate) async fn tells(&self, name: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let told = self.told(name);
            if told.ends_with('\n') {
                return told;
            }
            assert!(Instant::now() < deadline, "{name} is not told; {:?}", self.lines());
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    /// Waits until a line with these words is in the log: what a program said before them has been taken in.
    pub(crate) async fn logs(&self, words: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.lines().iter().any(|line| line.contains(words)) {
            assert!(Instant::now() < deadline, "{words} is not logged: {:?}", self.lines());
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    /// A host that may run every engine in a container, with canaries where no program should see one.
    pub(crate) fn host(&self, more: &[(&str, &str)]) -> HostEnv {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let engines = ["CLAUDE_CODE", "CODEX", "EVE", "OPENCODE", "GEMINI", "PI", "OWN"];
        let enabled = engines.iter().map(|engine| (format!("RUNNER_ENABLE_{engine}"), "1".to_owned()));
        let home = self.path("home");
        let fixed = [
            ("PATH", path.as_str()),
            ("HOME", home.to_str().unwrap()),
            ("RUNNER_ISOLATION", "container"),
            ("GITHUB_TOKEN", "host-canary"),
            ("AWS_SECRET_ACCESS_KEY", "host-canary"),
        ];
        let fixed = fixed.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        HostEnv::fixed(enabled.chain(fixed))
    }

    pub(crate) fn parts(&self, more: &[(&str, &str)]) -> EngineSelection {
        EngineSelection { host: self.host(more), ..EngineSelection::default() }
    }

    /// The same with one capability, `note`.
    pub(crate) fn parts_with_note(&self, more: &[(&str, &str)]) -> EngineSelection {
        let tools: CapabilityTools = Arc::new(|_| vec![note()]);
        EngineSelection { capability_tools: Some(tools), ..self.parts(more) }
    }

    pub(crate) fn spec(&self) -> RunSpec {
        let mut spec = RunSpec {
            run_id: "run-1".into(),
            workspace_id: "workspace-1".into(),
            workdir: self.path("work"),
            isolation: Some(Isolation::Container),
            ..RunSpec::default()
        };
        spec.workflow.prompt = "Do the thing.".into();
        spec.workflow.profile = Some("ephemeral".into());
        spec.inputs.insert("number".into(), json!(417));
        spec
    }

    pub(crate) fn context(&self) -> EngineContext {
        let lines = self.lines.clone();
        let log = Log::new(move |line| lines.lock().unwrap().push(line.to_owned()));
        EngineContext { log, sink: Some(self.sink.clone()), stop: self.stop.clone() }
    }

    pub(crate) async fn run(
        &self,
        engine: &SharedEngine,
        spec: &RunSpec,
    ) -> Result<EngineResult, EngineError> {
        let running = engine.run(spec, self.context());
        tokio::time::timeout(Duration::from_secs(40), running).await.expect("a run comes to an end")
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits until the processes whose numbers a program told are gone.
    pub(crate) async fn is_gone(&self, name: &str) {
        let pids = self.told(name);
        assert!(!pids.is_empty(), "no process was told");
        let deadline = Instant::now() + Duration::from_secs(20);
        while pids.lines().any(is_alive) {
            assert!(Instant::now() < deadline, "{pids} live on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or_default().starts_with('Z'))
}

/// A capability that says yes.
pub(crate) fn note() -> CapabilityTool {
    let handler: CapabilityHandler =
        Arc::new(|input| Box::pin(async move { Ok(json!({"ok": true, "noted": input})) }));
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    CapabilityTool { spec: ToolSpec::new("note", "Records a note.", schema), handler }
}

/// Folders of runs that are left among the temporary files. The marker has to be one run's alone: others go on meanwhile.
pub(crate) fn private_folders_of(marker: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten().map(|entry| entry.path());
    let holds = |folder: &Path| {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        // Another run may have put a pipe there.
        let mut files = files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()));
        files.any(|file| std::fs::read_to_string(file.path()).is_ok_and(|text| text.contains(marker)))
    };
    let ours = |folder: &PathBuf| {
        folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("mesh-run-"))
    };
    all.filter(ours).filter(|folder| holds(folder)).collect()
}

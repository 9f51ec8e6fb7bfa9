//! A run of the program in a place of its own, and what it left there.

use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A folder in which everything of a run is: its files, its temporary files, and by its name its processes.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// The program, not yet started, in an environment with nothing else in it.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh-under-test"));
        command.args(arguments).current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        command.env("TMPDIR", self.folder.path()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    /// What a command says as a document.
    pub(crate) fn document(&self, arguments: &[&str]) -> Value {
        let output = self.program(&[&["--json"], arguments].concat()).output().unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["schema_version"], 1);
        assert_eq!(document["ok"], true, "{document:#}");
        document["data"].clone()
    }

    /// A run of the demo.
    pub(crate) fn report(&self, arguments: &[&str]) -> Value {
        self.document(&[&["demo"], arguments].concat())
    }

    /// Processes that have to do with this place: their ids and command lines.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        let name = self.folder.path().to_str().unwrap();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        // One that has ended meanwhile, or is another user's, has nothing to read.
        let text = |id: i32, what: &str| {
            let bytes = std::fs::read(format!("/proc/{id}/{what}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .map(|id| (id, text(id, "cmdline"), text(id, "environ")))
            .filter(|(_, line, environment)| line.contains(name) || environment.contains(name))
            .map(|(id, line, _)| (id, line))
            .collect()
    }

    /// Nothing is left but these files.
    pub(crate) fn holds_only(&self, files: &[&str]) {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let found: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(found, files);
        assert_eq!(self.processes(), []);
    }
}

/// What a failed test leaves running goes with its place.
impl Drop for Place {
    fn drop(&mut self) {
        for pid in self.processes().into_iter().filter_map(|(id, _)| Pid::from_raw(id)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The step of a report with this name.
pub(crate) fn step<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["steps"].as_array().unwrap().iter().find(|step| step["name"] == name).unwrap()
}

/// Reads until a line with `text`; the stream's end without it is a failure.
pub(crate) fn wait_for_line(stream: &mut impl Read, text: &str) {
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.any(|line| line.unwrap().contains(text)), "it never said `{text}`");
}

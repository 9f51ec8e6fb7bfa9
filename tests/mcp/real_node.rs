//! A node as users run it, for the adapter to speak to: its own process, an echoing agent, jobs in gVisor.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mesh-under-test");
/// How long the sandbox may take to be looked at; the first time it builds a root file system.
const SANDBOX_WITHIN: Duration = Duration::from_secs(60);

/// A running node. Dropping it stops it.
pub(crate) struct RealNode {
    home: PathBuf,
}

impl Drop for RealNode {
    fn drop(&mut self) {
        // A node that is gone already is what is wanted.
        let _ = self.command().arg("down").output();
    }
}

impl RealNode {
    /// Founds a mesh of one node in this folder and starts it. `None`, said aloud, where there is no sandbox.
    pub(crate) fn start(folder: &Path) -> Option<Self> {
        let node = Self { home: folder.join("home") };
        std::fs::create_dir_all(&node.home).unwrap();
        let config = "[node]\nname = \"atlas\"\nlisten = \"127.0.0.1:0\"\n\n\
                      [[agent]]\nname = \"echo\"\ncommand = [\"/bin/cat\"]\n";
        std::fs::write(node.home.join("config.toml"), config).unwrap();
        std::fs::set_permissions(&node.home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        node.run(&["init"]);
        node.run(&["up"]);
        let deadline = Instant::now() + SANDBOX_WITHIN;
        loop {
            let executor = node.status()["data"]["executor"].clone();
            let still_looking =
                executor["unavailable"].as_str().is_some_and(|why| why.contains("being looked at"));
            if !still_looking {
                return match executor["unavailable"].as_str() {
                    None => Some(node),
                    Some(why) if why.contains("not installed") => mesh_tests::network::skipped(why).unwrap(),
                    Some(why) => panic!("{why}"),
                };
            }
            assert!(Instant::now() < deadline, "the sandbox is looked at in time: {executor}");
        }
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command.env("MESH_HOME", &self.home).env_remove("MESH_TOKEN");
        command
    }

    fn run(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.run(&["status", "--json"])).unwrap()
    }
}

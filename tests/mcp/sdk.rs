//! A judge that is not ours: the official Python SDK, in all the ways it can open a conversation.
//!
//! Needs python3 with venv, and a package index to install from once. Where that is missing a test says
//! `SKIPPED: why` on standard error and passes, unless `MESH_REQUIRE_EXTERNAL=1`.

use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mcp/sdk_client.py");
const PACKAGE: &str = "mcp==2.3.0";

/// The ways: by handshake, by probing, by metadata alone.
pub(crate) const MODES: [&str; 3] = ["legacy", "auto", "2026-07-28"];

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(said) } else { Err(format!("{command:?}: {complaint}")) }
}

/// A Python with the SDK; made once and kept beside the build. Tests run in processes of their own, so a file lock
/// lets one of them install while the others wait.
fn install() -> Result<PathBuf, String> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-venv");
    let lock = std::fs::File::create(home.with_extension("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let python = home.join("bin/python");
    let usable = || run(Command::new(&python).args(["-c", "import mcp.client.client"]));
    if usable().is_err() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]))?;
        usable()?;
    }
    Ok(python)
}

/// The Python to use, or nothing when it cannot be had.
#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
pub(crate) fn python() -> Option<PathBuf> {
    match install() {
        Ok(python) => Some(python),
        Err(why) => {
            assert_ne!(std::env::var("MESH_REQUIRE_EXTERNAL").as_deref(), Ok("1"), "{why}");
            eprintln!("SKIPPED: {why}");
            None
        }
    }
}

/// Has the SDK judge the server that `command` starts on this home: with a node and that agent, or without one.
pub(crate) fn judge(python: &Path, mode: &str, home: &Path, agent: Option<&str>, command: &[&str]) {
    let mut client = Command::new(python);
    client.arg(SCRIPT).args(["--mode", mode]);
    if let Some(agent) = agent {
        client.args(["--agent", agent]);
    }
    client.arg("--").args(command).env("MESH_HOME", home).env_remove("MESH_TOKEN");
    if let Err(complaint) = run(&mut client) {
        panic!("{mode}: {complaint}");
    }
}

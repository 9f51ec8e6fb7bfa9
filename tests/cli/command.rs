//! One run of the program, and the picture of it that snapshots compare.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A place to run the program in: a folder that is gone afterwards, with a home that is not there yet.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// Where a file of this name is or would be.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the home is or would be.
    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The program, not yet started.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh-under-test"));
        command.args(arguments).current_dir(self.folder.path()).env_clear();
        command.env("MESH_HOME", self.home()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null());
        command
    }

    /// A run, as a picture.
    pub(crate) fn picture(&self, arguments: &[&str]) -> String {
        self.pictured(&self.program(arguments).output().unwrap())
    }

    /// A run with something to read.
    pub(crate) fn picture_reading(&self, arguments: &[&str], input: &str) -> String {
        let mut command = self.program(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        self.pictured(&child.wait_with_output().unwrap())
    }

    /// Exit code and both streams, with the folder's name taken out.
    pub(crate) fn pictured(&self, output: &Output) -> String {
        let mut picture = format!("exit code {}\n", output.status.code().unwrap());
        for (name, stream) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !stream.is_empty() {
                let text = String::from_utf8(stream.clone()).unwrap();
                let _ = write!(picture, "----- {name} -----\n{}", self.without_folder(&text));
            }
        }
        picture
    }

    fn without_folder(&self, text: &str) -> String {
        let folder: &Path = self.folder.path();
        text.replace(&folder.display().to_string(), "[FOLDER]")
    }
}

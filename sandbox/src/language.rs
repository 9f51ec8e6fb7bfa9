//! The languages a job can be written in, and how each is started inside the sandbox.
//!
//! Every interpreter runs a few lines of its own (`boot/`) before the job's: they say that it is up, wait until there
//! is a job, and give up the descriptors for both before the job's first line runs. So an interpreter can be started
//! long before it is known what it will run, and still opens the job's own file as its main program.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What every job sees as its environment, whatever its host's is.
pub const ENVIRONMENT: &[(&str, &str)] =
    &[("HOME", "/work"), ("LANG", "C.UTF-8"), ("PATH", "/usr/local/bin:/usr/bin:/bin"), ("TMPDIR", "/tmp")];

/// A language with an interpreter in the root file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// CPython 3, isolated mode.
    Python,
    /// Node.js; the code is a CommonJS module.
    Node,
    /// GNU Bash with the usual text tools.
    Bash,
}

impl Language {
    /// Every language, in the order shown to people.
    pub const ALL: [Self; 3] = [Self::Python, Self::Node, Self::Bash];

    /// The stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Bash => "bash",
        }
    }

    /// The program's name on a host.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::Node => "node",
            Self::Bash => "bash",
        }
    }

    /// Where the code is, for the job to see. It is put there when there is a job.
    pub(crate) fn code_path(self) -> &'static str {
        match self {
            Self::Python => "/job/main.py",
            Self::Node => "/job/main.js",
            Self::Bash => "/job/main.sh",
        }
    }

    /// File name and text of the lines that wait for a job, under `/boot` of the root file system.
    pub(crate) fn boot_file(self) -> (&'static str, &'static str) {
        match self {
            Self::Python => ("wait.py", include_str!("../boot/wait.py")),
            Self::Node => ("wait.js", include_str!("../boot/wait.js")),
            Self::Bash => ("wait.sh", include_str!("../boot/wait.sh")),
        }
    }

    /// The command line of the interpreter, at the path `interpreter` in the root file system.
    pub(crate) fn command(self, interpreter: &str) -> Vec<String> {
        let arguments: &[&str] = match self {
            Self::Python => &["-I", "/boot/wait.py"],
            Self::Node => &["--require", "/boot/wait.js", self.code_path()],
            Self::Bash => &[self.code_path()],
        };
        std::iter::once(interpreter).chain(arguments.iter().copied()).map(str::to_owned).collect()
    }

    /// The environment the interpreter starts with, as `NAME=value`.
    pub(crate) fn environment(self) -> Vec<String> {
        let mut list: Vec<String> =
            ENVIRONMENT.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if self == Self::Bash {
            // Bash reads this file before the script; the file takes the variable away again.
            list.push("BASH_ENV=/boot/wait.sh".to_owned());
        }
        list
    }

    /// A job that prints the interpreter's version.
    pub(crate) fn version_code(self) -> &'static str {
        match self {
            Self::Python => "import platform; print(platform.python_version())",
            Self::Node => "console.log(process.versions.node)",
            Self::Bash => "echo \"$BASH_VERSION\"",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

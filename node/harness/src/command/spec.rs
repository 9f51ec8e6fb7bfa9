//! What an operator configures about a program. No secret belongs here: arguments are visible to every process.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::engine::is_variable_name;
use crate::limits::{DEFAULT_TIME, SPEC_ITEMS};

/// A program and how to run it.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) working_directory: PathBuf,
    pub(super) passed_variables: Vec<String>,
    pub(super) time_limit: Duration,
    pub(super) run_directory: Option<PathBuf>,
}

impl CommandSpec {
    /// A program, by path or by its name in `PATH`, and the absolute directory to run it in. A relative path with a
    /// slash is looked up from that directory.
    pub fn new(program: impl Into<PathBuf>, working_directory: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            working_directory: working_directory.into(),
            passed_variables: Vec::new(),
            time_limit: DEFAULT_TIME,
            run_directory: None,
        }
    }

    /// The program's arguments, without its name. No shell reads them.
    #[must_use]
    pub fn with_arguments(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Names of variables of this process that the program gets besides [`ALWAYS_PASSED`](super::ALWAYS_PASSED).
    #[must_use]
    pub fn with_passed_variables(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.passed_variables = names.into_iter().map(Into::into).collect();
        self
    }

    /// How long a run may take; [`DEFAULT_TIME`] when nothing is said. A task can only ask for less.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// An existing directory for [run files](crate::run_file), to be swept at start. Needs Linux. Without one, a run
    /// goes on when this process is killed.
    #[must_use]
    pub fn with_run_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.run_directory = Some(directory.into());
        self
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        if self.program.as_os_str().is_empty() {
            return Err(SpecError::NoProgram);
        }
        if !self.working_directory.is_absolute() {
            return Err(SpecError::RelativeDirectory { directory: self.working_directory.clone() });
        }
        let has_zero = |text: &OsStr| text.as_bytes().contains(&0);
        let mut texts = self.arguments.iter().map(OsString::as_os_str);
        if has_zero(self.program.as_os_str())
            || has_zero(self.working_directory.as_os_str())
            || texts.any(has_zero)
        {
            return Err(SpecError::ZeroByte);
        }
        if self.arguments.len() > SPEC_ITEMS || self.passed_variables.len() > SPEC_ITEMS {
            return Err(SpecError::TooMany);
        }
        if let Some(name) = self.passed_variables.iter().find(|name| !is_variable_name(name)) {
            return Err(SpecError::VariableName { name: name.clone() });
        }
        if self.time_limit.is_zero() {
            return Err(SpecError::NoTime);
        }
        Ok(())
    }
}

/// Why no program can be run like that.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpecError {
    /// The program is missing.
    #[error("no program given")]
    NoProgram,
    /// The working directory would depend on where this process was started.
    #[error("working directory {} is not absolute", directory.display())]
    RelativeDirectory {
        /// As configured.
        directory: PathBuf,
    },
    /// The program, its directory or an argument has a zero byte.
    #[error("a zero byte cannot be passed to a program")]
    ZeroByte,
    /// More arguments or variables than [`SPEC_ITEMS`].
    #[error("more than {SPEC_ITEMS} arguments or variables")]
    TooMany,
    /// No variable has such a name.
    #[error("{name:?} is not the name of an environment variable")]
    VariableName {
        /// As configured.
        name: String,
    },
    /// The time limit is zero.
    #[error("the time limit is zero")]
    NoTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_never_start_is_refused() {
        let good = || CommandSpec::new("cat", "/");
        let cases = [
            (CommandSpec::new("", "/"), SpecError::NoProgram),
            (CommandSpec::new("cat", "here"), SpecError::RelativeDirectory { directory: "here".into() }),
            (good().with_arguments(["a\0b"]), SpecError::ZeroByte),
            (CommandSpec::new("c\0at", "/"), SpecError::ZeroByte),
            (good().with_arguments(vec!["a"; SPEC_ITEMS + 1]), SpecError::TooMany),
            (good().with_passed_variables(["A=B"]), SpecError::VariableName { name: "A=B".into() }),
            (good().with_time_limit(Duration::ZERO), SpecError::NoTime),
        ];
        for (spec, refusal) in cases {
            assert_eq!(spec.check(), Err(refusal), "{spec:?}");
        }
        assert_eq!(good().check(), Ok(()));
    }
}

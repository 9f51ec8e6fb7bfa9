//! What an engine is asked to do. Bounded and checked when it is made, so an engine need not check again.
//!
//! A task's text may be private and its variables secret: `Debug` shows neither.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::limits::{RUN_NAME_BYTES, RUN_VARIABLES, TASK_BYTES, VARIABLE_NAME_BYTES, VARIABLE_VALUE_BYTES};
use crate::secret::Secret;

/// One piece of work for an agent.
pub struct Task {
    run: RunName,
    text: String,
    variables: Vec<Variable>,
    time_limit: Option<Duration>,
}

impl Task {
    /// A task: its text reaches the agent as it is.
    ///
    /// # Errors
    /// [`TaskError::TextTooLong`] over [`TASK_BYTES`].
    pub fn new(run: RunName, text: impl Into<String>) -> Result<Self, TaskError> {
        let text = text.into();
        if text.len() > TASK_BYTES {
            return Err(TaskError::TextTooLong { bytes: text.len() });
        }
        Ok(Self { run, text, variables: Vec::new(), time_limit: None })
    }

    /// Adds an environment variable for this run only, such as a session's token. The last of one name counts, also
    /// against what the program would get anyway.
    ///
    /// # Errors
    /// A [`TaskError`] when the name is not one, the value cannot be passed, or there are too many.
    pub fn with_variable(mut self, name: impl Into<String>, value: Secret) -> Result<Self, TaskError> {
        let name = name.into();
        if self.variables.len() >= RUN_VARIABLES {
            return Err(TaskError::TooManyVariables);
        }
        if !is_variable_name(&name) {
            return Err(TaskError::VariableName);
        }
        if value.expose().len() > VARIABLE_VALUE_BYTES || value.expose().contains('\0') {
            return Err(TaskError::VariableValue { name });
        }
        self.variables.push(Variable { name, value });
        Ok(self)
    }

    /// Ends the run after this long, or sooner when the engine's own limit is shorter.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// The run this task belongs to.
    #[must_use]
    pub fn run(&self) -> &RunName {
        &self.run
    }

    /// What the agent is told.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Extra environment variables of this run.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// How long this run may take, if it says.
    #[must_use]
    pub fn time_limit(&self) -> Option<Duration> {
        self.time_limit
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("run", &self.run)
            .field("text", &format_args!("{} bytes", self.text.len()))
            .field("variables", &self.variables)
            .field("time_limit", &self.time_limit)
            .finish()
    }
}

/// One extra environment variable.
#[derive(Debug)]
pub struct Variable {
    /// Its name: letters, digits and underscores.
    pub name: String,
    /// Its value.
    pub value: Secret,
}

/// The caller's name of one run: unique among the runs under way, and fit to be a file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunName(String);

impl RunName {
    /// Letters, digits, `-` and `_`, at least one and at most [`RUN_NAME_BYTES`].
    ///
    /// # Errors
    /// [`TaskError::RunName`] for anything else.
    pub fn new(name: impl Into<String>) -> Result<Self, TaskError> {
        let name = name.into();
        let fits = (1..=RUN_NAME_BYTES).contains(&name.len());
        if fits && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            Ok(Self(name))
        } else {
            Err(TaskError::RunName)
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why something is not a task.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TaskError {
    /// The name of the run could not be a file name.
    #[error("the name of a run is 1 to {RUN_NAME_BYTES} letters, digits, - and _")]
    RunName,
    /// The text is over [`TASK_BYTES`].
    #[error("the task has {bytes} bytes, at most {TASK_BYTES} are possible")]
    TextTooLong {
        /// Its size, bytes.
        bytes: usize,
    },
    /// More than [`RUN_VARIABLES`].
    #[error("more than {RUN_VARIABLES} environment variables")]
    TooManyVariables,
    /// No environment variable has such a name.
    #[error("the name of an environment variable is letters, digits and _, at most {VARIABLE_NAME_BYTES}")]
    VariableName,
    /// The value is too long, or has a zero byte. The error does not repeat it.
    #[error("the value of {name} cannot be passed to a program")]
    VariableValue {
        /// Which variable.
        name: String,
    },
}

/// Whether this is a portable name of an environment variable (POSIX.1-2017, section 8.1, with lower case), at most
/// 128 bytes long.
#[must_use]
pub fn is_variable_name(name: &str) -> bool {
    name.len() <= VARIABLE_NAME_BYTES
        && !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task::new(RunName::new("run").unwrap(), "my private text").unwrap()
    }

    #[test]
    fn debug_shows_neither_text_nor_values() {
        let shown = format!("{:?}", task().with_variable("TOKEN", Secret::new("tok-12345")).unwrap());
        assert!(shown.contains("TOKEN") && shown.contains("[redacted]"), "{shown}");
        assert!(!shown.contains("tok-12345") && !shown.contains("private"), "{shown}");
    }

    #[test]
    fn a_run_name_cannot_leave_its_directory() {
        for name in ["", ".", "..", "a/b", "a.b", "ä", &"x".repeat(RUN_NAME_BYTES + 1)] {
            assert_eq!(RunName::new(name), Err(TaskError::RunName), "{name:?}");
        }
        assert!(RunName::new("x".repeat(RUN_NAME_BYTES)).is_ok());
    }

    #[test]
    fn a_variable_that_no_program_could_get_is_refused() {
        for name in ["", "1A", "A=B", "A B", "A\0"] {
            assert_eq!(task().with_variable(name, Secret::new("v")).unwrap_err(), TaskError::VariableName);
        }
        let refused = task().with_variable("A", Secret::new("hush\0hush")).unwrap_err();
        assert!(!refused.to_string().contains("hush"), "{refused}");
    }

    #[test]
    fn a_task_and_its_variables_are_bounded() {
        let long = "x".repeat(TASK_BYTES + 1);
        let refused = Task::new(RunName::new("run").unwrap(), long).unwrap_err();
        assert_eq!(refused, TaskError::TextTooLong { bytes: TASK_BYTES + 1 });

        let full = (0..RUN_VARIABLES)
            .fold(task(), |task, i| task.with_variable(format!("V{i}"), Secret::new("")).unwrap());
        assert_eq!(full.with_variable("ONE", Secret::new("")).unwrap_err(), TaskError::TooManyVariables);
    }
}

//! What is run: a job. What is told about it is in [`crate::report`].
//!
//! A job is hostile text. It is bounded and checked here before anything is started.

use std::path::{Component, Path};

use crate::language::Language;
use crate::limits::{
    FILE_PATH_BYTES_MAX, INPUT_BYTES_MAX, INPUT_FILES_MAX, OUTPUT_FILES_MAX, RequestedLimits, TEXT_BYTES_MAX,
};

/// One short program to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// What it is written in.
    pub language: Language,
    /// Its source, at most [`TEXT_BYTES_MAX`] bytes.
    pub code: String,
    /// What it reads on standard input, at most [`TEXT_BYTES_MAX`] bytes.
    pub stdin: Vec<u8>,
    /// What it asks for; see [`EffectiveLimits`](crate::EffectiveLimits) for what it gets.
    pub limits: RequestedLimits,
    /// Files it finds under `input/` of its working directory, read-only.
    pub inputs: Vec<InputFile>,
    /// Files it is to leave under `output/` of its working directory, by their paths below it. A job that succeeds
    /// without one of them did not succeed.
    pub outputs: Vec<String>,
    /// The runtime pack it runs in; `None` for this machine's own programs.
    pub runtime: Option<String>,
}

/// A file given to a job.
#[derive(Clone, Debug)]
pub struct InputFile {
    /// Relative path below `input/`, with `/` between names and without `.` or `..`.
    pub path: String,
    /// Its bytes.
    pub contents: Vec<u8>,
}

/// Why a job is refused before anything happens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidJob {
    /// The code is empty or blank.
    #[error("the code is empty")]
    EmptyCode,
    /// The code is too long.
    #[error("the code has {bytes} bytes, {TEXT_BYTES_MAX} at most")]
    CodeTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The standard input is too long.
    #[error("the standard input has {bytes} bytes, {TEXT_BYTES_MAX} at most")]
    StdinTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// There are too many input files.
    #[error("{count} input files, {INPUT_FILES_MAX} at most")]
    TooManyInputs {
        /// How many.
        count: usize,
    },
    /// The input files together are too long.
    #[error("the input files have {bytes} bytes, {INPUT_BYTES_MAX} at most")]
    InputsTooLarge {
        /// Their length.
        bytes: usize,
    },
    /// A path leaves `input/`, or is no plain path.
    #[error("not a plain relative path: {path:?}")]
    InputPath {
        /// The path as given.
        path: String,
    },
    /// Two files have one path, or one file's path is another's directory.
    #[error("two input files collide at {path:?}")]
    InputCollision {
        /// The path as given.
        path: String,
    },
    /// There are too many output files.
    #[error("{count} output files, {OUTPUT_FILES_MAX} at most")]
    TooManyOutputs {
        /// How many.
        count: usize,
    },
    /// A path leaves `output/`, or is no plain path.
    #[error("not a plain relative path: {path:?}")]
    OutputPath {
        /// The path as given.
        path: String,
    },
    /// Two outputs have one path, or one's path is another's directory.
    #[error("two output files collide at {path:?}")]
    OutputCollision {
        /// The path as given.
        path: String,
    },
}

impl Job {
    /// A job with defaults for everything but its code.
    #[must_use]
    pub fn new(language: Language, code: impl Into<String>) -> Self {
        Self {
            language,
            code: code.into(),
            stdin: Vec::new(),
            limits: RequestedLimits::default(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            runtime: None,
        }
    }

    /// Checks every bound.
    pub fn validate(&self) -> Result<(), InvalidJob> {
        if self.code.trim().is_empty() {
            return Err(InvalidJob::EmptyCode);
        }
        if self.code.len() > TEXT_BYTES_MAX {
            return Err(InvalidJob::CodeTooLarge { bytes: self.code.len() });
        }
        if self.stdin.len() > TEXT_BYTES_MAX {
            return Err(InvalidJob::StdinTooLarge { bytes: self.stdin.len() });
        }
        if self.inputs.len() > INPUT_FILES_MAX {
            return Err(InvalidJob::TooManyInputs { count: self.inputs.len() });
        }
        let bytes = self.inputs.iter().fold(0_usize, |sum, file| sum.saturating_add(file.contents.len()));
        if bytes > INPUT_BYTES_MAX {
            return Err(InvalidJob::InputsTooLarge { bytes });
        }
        if self.outputs.len() > OUTPUT_FILES_MAX {
            return Err(InvalidJob::TooManyOutputs { count: self.outputs.len() });
        }
        let inputs: Vec<&str> = self.inputs.iter().map(|file| file.path.as_str()).collect();
        match flaw(&inputs) {
            Some(Flaw::Path(path)) => return Err(InvalidJob::InputPath { path }),
            Some(Flaw::Collision(path)) => return Err(InvalidJob::InputCollision { path }),
            None => {}
        }
        let outputs: Vec<&str> = self.outputs.iter().map(String::as_str).collect();
        match flaw(&outputs) {
            Some(Flaw::Path(path)) => Err(InvalidJob::OutputPath { path }),
            Some(Flaw::Collision(path)) => Err(InvalidJob::OutputCollision { path }),
            None => Ok(()),
        }
    }
}

/// What is wrong with a list of paths.
enum Flaw {
    Path(String),
    Collision(String),
}

/// The first path that is not plain, or is another's path or directory.
fn flaw(paths: &[&str]) -> Option<Flaw> {
    paths.iter().enumerate().find_map(|(index, &path)| {
        if !is_plain_relative(path) {
            return Some(Flaw::Path(path.to_owned()));
        }
        let mine = Path::new(path);
        let collides = |&&other: &&&str| mine.starts_with(other) || Path::new(other).starts_with(mine);
        paths.iter().take(index).any(|other| collides(&other)).then(|| Flaw::Collision(path.to_owned()))
    })
}

fn is_plain_relative(path: &str) -> bool {
    let normal = Path::new(path).components().all(|component| matches!(component, Component::Normal(_)));
    let spelled_plainly = !path.split('/').any(|name| name.is_empty() || name == "." || name == "..");
    normal && spelled_plainly && path.len() <= FILE_PATH_BYTES_MAX && !path.contains(['\0', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_inputs(paths: &[&str]) -> Result<(), InvalidJob> {
        let inputs =
            paths.iter().map(|&path| InputFile { path: path.to_owned(), contents: vec![] }).collect();
        Job { inputs, ..Job::new(Language::Bash, "true") }.validate()
    }

    #[test]
    fn code_and_stdin_of_exactly_the_limit_pass_and_one_byte_more_does_not() {
        let mut job = Job::new(Language::Bash, "#".repeat(TEXT_BYTES_MAX));
        job.stdin = vec![1; TEXT_BYTES_MAX];
        assert_eq!(job.validate(), Ok(()));
        job.stdin.push(1);
        assert!(matches!(job.validate(), Err(InvalidJob::StdinTooLarge { .. })));
        job.code.push('#');
        assert!(matches!(job.validate(), Err(InvalidJob::CodeTooLarge { .. })));
        assert_eq!(Job::new(Language::Bash, " \n\t").validate(), Err(InvalidJob::EmptyCode));
    }

    #[test]
    fn paths_that_leave_input_or_are_oddly_spelled_are_refused() {
        for path in ["", ".", "..", "/a", "a/", "a//b", "./a", "a/../b", "a\0b", "a\\b", &"x".repeat(257)] {
            assert!(matches!(with_inputs(&[path]), Err(InvalidJob::InputPath { .. })), "{path:?}");
        }
        assert_eq!(with_inputs(&["a", "b/c", "b/d.txt", ".hidden"]), Ok(()));
    }

    #[test]
    fn outputs_are_held_to_the_same_rules_as_inputs() {
        let with_outputs = |paths: &[&str]| {
            let outputs = paths.iter().map(|&path| path.to_owned()).collect();
            Job { outputs, ..Job::new(Language::Bash, "true") }.validate()
        };
        assert_eq!(with_outputs(&["a", "b/c"]), Ok(()));
        for path in ["", "..", "/a", "a/../b", "a\0b"] {
            assert!(matches!(with_outputs(&[path]), Err(InvalidJob::OutputPath { .. })), "{path:?}");
        }
        assert!(matches!(with_outputs(&["a", "a/b"]), Err(InvalidJob::OutputCollision { .. })));
        let many: Vec<String> = (0..=OUTPUT_FILES_MAX).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(matches!(with_outputs(&many), Err(InvalidJob::TooManyOutputs { .. })));
    }

    #[test]
    fn files_that_collide_are_refused() {
        for paths in [["a", "a"], ["a", "a/b"], ["a/b", "a"]] {
            assert!(matches!(with_inputs(&paths), Err(InvalidJob::InputCollision { .. })), "{paths:?}");
        }
        assert_eq!(with_inputs(&["a", "ab"]), Ok(()));
    }
}

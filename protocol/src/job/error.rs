//! Why a job is not accepted: one variant a rule, one code a variant.

use thiserror::Error;

use super::limits::{
    CODE_BYTES_MAX, FILE_BYTES_MAX, FILES_BYTES_MAX, FILES_MAX, PATH_BYTES_MAX, RUNTIME_NAME_BYTES_MAX,
    STDIN_BYTES_MAX,
};

/// Why a job is not accepted. Nothing was stored.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each member is what its sentence says, cut to a few words where it is hostile"
)]
pub enum JobError {
    /// A class that no sandbox has.
    #[error(
        "`{class}` is no isolation class that can be asked for: linux-shared-kernel and gvisor-application-kernel are"
    )]
    UnknownIsolation { class: String },
    /// A class that is known and that nothing here is.
    #[error("no sandbox is as strong as {class}")]
    IsolationUnsatisfied { class: String },
    /// Not one of the three.
    #[error("`{language}` is not a language jobs run in: python, node and bash are")]
    UnsupportedLanguage { language: String },
    /// Nothing to run.
    #[error("the code is empty")]
    EmptyCode,
    /// Over [`CODE_BYTES_MAX`].
    #[error("the code has {bytes} bytes, {CODE_BYTES_MAX} are allowed")]
    CodeTooLarge { bytes: usize },
    /// Over [`STDIN_BYTES_MAX`].
    #[error("the standard input has {bytes} bytes, {STDIN_BYTES_MAX} are allowed")]
    StdinTooLarge { bytes: usize },
    /// Over [`FILES_MAX`].
    #[error("{count} input files, {FILES_MAX} are allowed")]
    TooManyInputFiles { count: usize },
    /// Not below `input/`, or not plain.
    #[error("`{path}` is not a plain path below input/ of at most {PATH_BYTES_MAX} bytes")]
    InvalidInputPath { path: String },
    /// Given twice, or a file where another has a folder.
    #[error("two input files share `{path}`")]
    DuplicateInputPath { path: String },
    /// Not standard base64.
    #[error("the content of `{path}` is not standard base64")]
    InvalidInputBase64 { path: String },
    /// Over [`FILE_BYTES_MAX`].
    #[error("`{path}` has {bytes} bytes, {FILE_BYTES_MAX} are allowed")]
    InputFileTooLarge { path: String, bytes: usize },
    /// Over [`FILES_BYTES_MAX`].
    #[error("the input files have {bytes} bytes, {FILES_BYTES_MAX} are allowed")]
    InputFilesTooLarge { bytes: usize },
    /// Over [`FILES_MAX`].
    #[error("{count} output files, {FILES_MAX} are allowed")]
    TooManyOutputFiles { count: usize },
    /// Not below `output/`, or not plain.
    #[error("`{path}` is not a plain path below output/ of at most {PATH_BYTES_MAX} bytes")]
    InvalidOutputPath { path: String },
    /// Asked for twice, or a file where another has a folder.
    #[error("two output files share `{path}`")]
    DuplicateOutputPath { path: String },
    /// Not a name.
    #[error(
        "`{name}` is no name of a runtime pack: 1 to {RUNTIME_NAME_BYTES_MAX} of a-z, 0-9, `.`, `_` and `-`"
    )]
    InvalidRuntime { name: String },
    /// A network was asked for.
    #[error("jobs have no network, and none can be asked for")]
    NetworkOptIn,
}

impl JobError {
    /// The code for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownIsolation { .. } => "invalid_minimum_isolation",
            Self::IsolationUnsatisfied { .. } => "minimum_isolation_unsatisfied",
            Self::UnsupportedLanguage { .. } => "unsupported_language",
            Self::EmptyCode => "empty_code",
            Self::CodeTooLarge { .. } => "code_too_large",
            Self::StdinTooLarge { .. } => "stdin_too_large",
            Self::TooManyInputFiles { .. } => "too_many_input_files",
            Self::InvalidInputPath { .. } => "invalid_input_path",
            Self::DuplicateInputPath { .. } => "duplicate_input_path",
            Self::InvalidInputBase64 { .. } => "invalid_input_base64",
            Self::InputFileTooLarge { .. } => "input_file_too_large",
            Self::InputFilesTooLarge { .. } => "input_files_too_large",
            Self::TooManyOutputFiles { .. } => "too_many_output_files",
            Self::InvalidOutputPath { .. } => "invalid_output_path",
            Self::DuplicateOutputPath { .. } => "duplicate_output_path",
            Self::InvalidRuntime { .. } => "invalid_runtime",
            Self::NetworkOptIn => "network_opt_in_unsupported",
        }
    }

    /// Whether something is too large or too many, which HTTP has a status of its own for.
    #[must_use]
    pub const fn is_about_size(&self) -> bool {
        matches!(
            self,
            Self::CodeTooLarge { .. }
                | Self::StdinTooLarge { .. }
                | Self::TooManyInputFiles { .. }
                | Self::InputFileTooLarge { .. }
                | Self::InputFilesTooLarge { .. }
                | Self::TooManyOutputFiles { .. }
        )
    }
}

/// Hostile text, cut for a sentence.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

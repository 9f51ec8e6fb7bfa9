//! A job as somebody writes it in JSON: everything but the program has a default, and each mistake has its own code.
//!
//! [`JobSpec`] reads the same JSON, but whatever is wrong with it is one error there. Here the language, the isolation
//! class and the contents of files are text until they are looked at.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::error::{JobError, cut};
use super::files::{Contents, InputFile};
use super::limits::{FILES_MAX, JobLimits};
use super::spec::{JobSpec, Requirements};
use crate::isolation::{IsolationClass, STRONGER};

/// Bytes of a document: those of the largest job with every character at its worst.
pub const JOB_DOCUMENT_BYTES_MAX: usize = 24 * 1024 * 1024;

/// A job as it was written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobDocument {
    language: String,
    code: String,
    #[serde(default)]
    stdin: Option<String>,
    #[serde(default)]
    limits: JobLimits,
    #[serde(default)]
    requirements: RequirementsDocument,
    #[serde(default)]
    files: Vec<FileDocument>,
    #[serde(default)]
    outputs: Vec<String>,
    #[serde(default)]
    runtime: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequirementsDocument {
    #[serde(default)]
    minimum_isolation: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileDocument {
    path: String,
    content_base64: String,
}

impl JobDocument {
    /// The job, checked.
    ///
    /// # Errors
    /// The first [`JobError`]: isolation, then language, then as [`JobSpec::check`].
    pub fn into_spec(self) -> Result<JobSpec, JobError> {
        let minimum_isolation = match self.requirements.minimum_isolation {
            Some(class) => isolation(&class)?,
            None => IsolationClass::default(),
        };
        let language = self.language.parse()?;
        let spec = JobSpec {
            stdin: self.stdin.unwrap_or_default(),
            limits: self.limits,
            requirements: Requirements { minimum_isolation },
            outputs: self.outputs,
            runtime: self.runtime,
            ..JobSpec::new(language, self.code)
        };
        spec.check_texts()?;
        let spec = JobSpec { files: decoded(self.files)?, ..spec };
        spec.check().map(|()| spec)
    }
}

fn isolation(class: &str) -> Result<IsolationClass, JobError> {
    if STRONGER.contains(&class) {
        return Err(JobError::IsolationUnsatisfied { class: class.to_owned() });
    }
    class.parse().map_err(|_| JobError::UnknownIsolation { class: cut(class) })
}

/// Decodes the files, no more of them than a job may have.
fn decoded(files: Vec<FileDocument>) -> Result<Vec<InputFile>, JobError> {
    if files.len() > FILES_MAX {
        return Err(JobError::TooManyInputFiles { count: files.len() });
    }
    let decode = |FileDocument { path, content_base64 }: FileDocument| match STANDARD.decode(content_base64) {
        Ok(content) => Ok(InputFile { path, content: Contents(content) }),
        Err(_) => Err(JobError::InvalidInputBase64 { path: cut(&path) }),
    };
    files.into_iter().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<JobSpec, JobError> {
        serde_json::from_str::<JobDocument>(text).unwrap().into_spec()
    }

    fn with(members: &str) -> Result<JobSpec, JobError> {
        read(&format!(r#"{{"language":"python","code":"print(1)",{members}}}"#))
    }

    #[test]
    fn an_unknown_language_has_a_code_of_its_own() {
        let error = read(r#"{"language":"ruby","code":"puts 1"}"#).unwrap_err();
        assert_eq!(error.code(), "unsupported_language");
    }

    #[test]
    fn each_wrong_member_has_a_code_of_its_own() {
        let many = |text: &str| vec![text; FILES_MAX + 1].join(",");
        let cases = [
            (r#""limits":{"allow_network":true}"#.to_owned(), "network_opt_in_unsupported"),
            (r#""requirements":{"minimum_isolation":"none"}"#.to_owned(), "invalid_minimum_isolation"),
            (
                r#""requirements":{"minimum_isolation":"hardware-vm"}"#.to_owned(),
                "minimum_isolation_unsatisfied",
            ),
            (r#""files":[{"path":"input/../x","content_base64":""}]"#.to_owned(), "invalid_input_path"),
            (r#""files":[{"path":"/etc/x","content_base64":""}]"#.to_owned(), "invalid_input_path"),
            (r#""files":[{"path":"input/x","content_base64":"%"}]"#.to_owned(), "invalid_input_base64"),
            (
                r#""files":[{"path":"input/x","content_base64":""},{"path":"input/x","content_base64":""}]"#
                    .to_owned(),
                "duplicate_input_path",
            ),
            (
                format!(r#""files":[{}]"#, many(r#"{"path":"input/x","content_base64":""}"#)),
                "too_many_input_files",
            ),
            (r#""outputs":["output/../x"]"#.to_owned(), "invalid_output_path"),
            (r#""outputs":["output/x","output/x/y"]"#.to_owned(), "duplicate_output_path"),
            (format!(r#""outputs":[{}]"#, many(r#""output/x""#)), "too_many_output_files"),
            (r#""runtime":"../x""#.to_owned(), "invalid_runtime"),
        ];
        for (members, code) in cases {
            assert_eq!(with(&members).unwrap_err().code(), code, "{members}");
        }
        assert_eq!(
            with(r#""limits":{"allow_network":false}"#),
            Ok(JobSpec::new(crate::job::Language::Python, "print(1)"))
        );
    }

    #[test]
    fn the_largest_job_at_its_worst_is_accepted_and_fits_in_a_document() {
        let worst = "\\u0001".repeat(crate::job::CODE_BYTES_MAX);
        let file = STANDARD.encode(vec![0xff; crate::job::FILE_BYTES_MAX]);
        let files = [1, 2].map(|n| format!(r#"{{"path":"input/{n}","content_base64":"{file}"}}"#)).join(",");
        let text = format!(r#"{{"language":"bash","code":"{worst}","stdin":"{worst}","files":[{files}]}}"#);
        assert!(text.len() <= JOB_DOCUMENT_BYTES_MAX);
        let spec = read(&text).unwrap();
        assert_eq!(
            (spec.code.len(), spec.stdin.len()),
            (crate::job::CODE_BYTES_MAX, crate::job::STDIN_BYTES_MAX)
        );
        assert!(spec.fingerprint().is_ok());
    }
}

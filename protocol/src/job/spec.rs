//! What to run: the request of a job with every default filled in, its one check and its one fingerprint.
//!
//! The fingerprint is the SHA-256 of the spec in canonical JSON ([`crate::evidence::canonical`]), so neither the order
//! of members nor a default that was left out changes it. How long somebody waits for the job is no part of it.

use serde::{Deserialize, Serialize};

use super::Language;
use super::error::{JobError, cut};
use super::files::{InputFile, collision, is_below};
use super::limits::{
    CODE_BYTES_MAX, FILE_BYTES_MAX, FILES_BYTES_MAX, FILES_MAX, JobLimits, RUNTIME_NAME_BYTES_MAX,
    STDIN_BYTES_MAX,
};
use crate::evidence::canonical::{Bounds, CanonicalError, Value};
use crate::evidence::digest::Digest;
use crate::evidence::receipt::FileDigest;
use crate::isolation::IsolationClass;

/// How large a spec within its bounds can be in JSON: texts at six bytes a byte, files in base64, and the paths.
const CANONICAL: Bounds = Bounds { bytes: 24 * 1024 * 1024, depth: 8, nodes: 1024 };

const _: () =
    assert!(6 * (CODE_BYTES_MAX + STDIN_BYTES_MAX) + FILES_BYTES_MAX.div_ceil(3) * 4 < CANONICAL.bytes);

/// What to run. Contains no address, credential or policy: those are the operator's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// The language of `code`.
    pub language: Language,
    /// The program's text.
    pub code: String,
    /// What it reads on standard input; empty when absent.
    #[serde(default)]
    pub stdin: String,
    /// What it may use.
    #[serde(default)]
    pub limits: JobLimits,
    /// What it insists on.
    #[serde(default)]
    pub requirements: Requirements,
    /// Files it finds, read-only.
    #[serde(default)]
    pub files: Vec<InputFile>,
    /// Files it is to leave, by their paths: `output/...`.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// The runtime pack to run it in; the machine's own when absent.
    #[serde(default)]
    pub runtime: Option<String>,
}

/// What a job insists on. What cannot be met is refused before anything is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Requirements {
    /// The weakest isolation it may run under.
    pub minimum_isolation: IsolationClass,
}

impl JobSpec {
    /// A program with a default for everything else.
    #[must_use]
    pub fn new(language: Language, code: impl Into<String>) -> Self {
        Self {
            language,
            code: code.into(),
            stdin: String::new(),
            limits: JobLimits::default(),
            requirements: Requirements::default(),
            files: Vec::new(),
            outputs: Vec::new(),
            runtime: None,
        }
    }

    /// Checks what does not depend on where it runs.
    ///
    /// # Errors
    /// The first [`JobError`] that applies, in the order of the fields.
    pub fn check(&self) -> Result<(), JobError> {
        self.check_texts()?;
        self.check_files()?;
        self.check_outputs()?;
        if let Some(name) = self.runtime.as_ref().filter(|name| !is_runtime_name(name)) {
            return Err(JobError::InvalidRuntime { name: cut(name) });
        }
        if self.limits.allow_network { Err(JobError::NetworkOptIn) } else { Ok(()) }
    }

    pub(super) fn check_texts(&self) -> Result<(), JobError> {
        if self.code.trim().is_empty() {
            return Err(JobError::EmptyCode);
        }
        if self.code.len() > CODE_BYTES_MAX {
            return Err(JobError::CodeTooLarge { bytes: self.code.len() });
        }
        if self.stdin.len() > STDIN_BYTES_MAX {
            return Err(JobError::StdinTooLarge { bytes: self.stdin.len() });
        }
        Ok(())
    }

    fn check_files(&self) -> Result<(), JobError> {
        if self.files.len() > FILES_MAX {
            return Err(JobError::TooManyInputFiles { count: self.files.len() });
        }
        if let Some(file) = self.files.iter().find(|file| !is_below("input", &file.path)) {
            return Err(JobError::InvalidInputPath { path: cut(&file.path) });
        }
        let paths: Vec<&str> = self.files.iter().map(|file| file.path.as_str()).collect();
        if let Some(path) = collision(&paths) {
            return Err(JobError::DuplicateInputPath { path: cut(path) });
        }
        if let Some(file) = self.files.iter().find(|file| file.content.0.len() > FILE_BYTES_MAX) {
            return Err(JobError::InputFileTooLarge { path: cut(&file.path), bytes: file.content.0.len() });
        }
        let bytes = self.files.iter().fold(0_usize, |sum, file| sum.saturating_add(file.content.0.len()));
        if bytes > FILES_BYTES_MAX { Err(JobError::InputFilesTooLarge { bytes }) } else { Ok(()) }
    }

    fn check_outputs(&self) -> Result<(), JobError> {
        if self.outputs.len() > FILES_MAX {
            return Err(JobError::TooManyOutputFiles { count: self.outputs.len() });
        }
        if let Some(path) = self.outputs.iter().find(|path| !is_below("output", path)) {
            return Err(JobError::InvalidOutputPath { path: cut(path) });
        }
        let paths: Vec<&str> = self.outputs.iter().map(String::as_str).collect();
        match collision(&paths) {
            Some(path) => Err(JobError::DuplicateOutputPath { path: cut(path) }),
            None => Ok(()),
        }
    }

    /// What two requests for the same job have in common.
    ///
    /// # Errors
    /// Only for a spec that does not pass [`JobSpec::check`]: it is then larger than a spec may be.
    pub fn fingerprint(&self) -> Result<Digest, CanonicalError> {
        Ok(Value::of(self, &CANONICAL)?.digest())
    }

    /// The files by their digests, in the order they were given.
    #[must_use]
    pub fn file_digests(&self) -> Vec<FileDigest> {
        let digest = |file: &InputFile| FileDigest {
            path: file.path.clone(),
            size: file.content.0.len() as u64,
            sha256: Digest::of(&file.content.0),
        };
        self.files.iter().map(digest).collect()
    }

    /// Bytes of everything the caller wrote: what a queue or a quota counts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let files = self.files.iter().map(|file| file.path.len().saturating_add(file.content.0.len()));
        let outputs = self.outputs.iter().map(String::len);
        let texts = self.code.len().saturating_add(self.stdin.len());
        files.chain(outputs).fold(texts, usize::saturating_add)
    }
}

fn is_runtime_name(name: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty()
        && name.len() <= RUNTIME_NAME_BYTES_MAX
        && name.bytes().all(plain)
        && !name.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Contents, OutputFile};

    fn spec() -> JobSpec {
        JobSpec::new(Language::Python, "print(1)")
    }

    fn file(path: &str, bytes: usize) -> InputFile {
        InputFile { path: path.to_owned(), content: Contents(vec![7; bytes]) }
    }

    #[test]
    fn an_omitted_default_is_the_default() {
        let explicit = r#"{"code":"print(1)","limits":{"mem_mb":256,"allow_network":false},"stdin":"","outputs":[],
            "requirements":{"minimum_isolation":"gvisor-application-kernel"},"language":"python","runtime":null}"#;
        let explicit: JobSpec = serde_json::from_str(explicit).unwrap();
        assert_eq!(explicit, spec());
        assert_eq!(explicit.fingerprint().unwrap(), spec().fingerprint().unwrap());
    }

    /// Frozen: a client may compute it too, and keys of running nodes depend on it.
    #[test]
    fn the_fingerprint_of_a_job_never_changes() {
        let everything = JobSpec {
            stdin: "\u{1}grün\u{1F600}\u{2028}".to_owned(),
            limits: JobLimits { wall_seconds: 0, mem_mb: u32::MAX, ..JobLimits::default() },
            requirements: Requirements { minimum_isolation: IsolationClass::LinuxSharedKernel },
            files: vec![InputFile {
                path: "input/é.bin".to_owned(), content: Contents((0..=255).collect())
            }],
            outputs: vec!["output/b".to_owned(), "output/a".to_owned()],
            runtime: Some("science-1.2".to_owned()),
            ..JobSpec::new(Language::Node, "console.log(\"\\n\")")
        };
        assert_eq!(everything.check(), Ok(()));
        let hex = |spec: &JobSpec| spec.fingerprint().unwrap().to_string();
        assert_eq!(hex(&spec()), "b753fe1f428e8e0c813513bfc6e392a35c4e7e51543e305fc7ab77552148ae4a");
        assert_eq!(hex(&everything), "06cce9523e8833fae2c3cc83451830512815478fe7e281623e645fec88b15e54");
        let reordered = JobSpec { outputs: vec!["output/a".into(), "output/b".into()], ..everything.clone() };
        assert_ne!(hex(&reordered), hex(&everything), "the order of a list is part of what was asked for");
    }

    #[test]
    fn blank_code_and_one_byte_too_many_are_refused() {
        assert_eq!(JobSpec { code: " \n".into(), ..spec() }.check(), Err(JobError::EmptyCode));
        let most = JobSpec { code: "x".repeat(CODE_BYTES_MAX), stdin: "x".repeat(STDIN_BYTES_MAX), ..spec() };
        assert_eq!(most.check(), Ok(()));
        let over = JobSpec { code: "x".repeat(CODE_BYTES_MAX + 1), ..spec() };
        assert_eq!(over.check().unwrap_err().code(), "code_too_large");
        let over = JobSpec { stdin: "x".repeat(STDIN_BYTES_MAX + 1), ..spec() };
        assert_eq!(over.check().unwrap_err().code(), "stdin_too_large");
    }

    #[test]
    fn files_too_large_alone_or_together_are_refused() {
        let with = |files| JobSpec { files, ..spec() }.check();
        assert_eq!(with(vec![file("input/a", FILE_BYTES_MAX), file("input/b", FILE_BYTES_MAX)]), Ok(()));
        let error = with(vec![file("input/a", FILE_BYTES_MAX + 1)]).unwrap_err();
        assert_eq!((error.code(), error.is_about_size()), ("input_file_too_large", true));
        let three = ["input/a", "input/b", "input/c"].map(|path| file(path, FILE_BYTES_MAX - 1));
        assert_eq!(with(three.into()).unwrap_err().code(), "input_files_too_large");
    }

    #[test]
    fn a_request_for_the_network_is_refused_rather_than_ignored() {
        let text = r#"{"language":"bash","code":"true","limits":{"allow_network":true}}"#;
        let asked: JobSpec = serde_json::from_str(text).unwrap();
        assert_eq!(asked.check(), Err(JobError::NetworkOptIn));
    }

    #[test]
    fn a_file_is_base64_in_json_and_bytes_on_a_wire() {
        let left = OutputFile { path: "output/x".to_owned(), content: Contents(vec![0, 255]) };
        let json = serde_json::to_string(&left).unwrap();
        assert_eq!(json, r#"{"path":"output/x","content_base64":"AP8="}"#);
        assert_eq!(serde_json::from_str::<OutputFile>(&json).unwrap(), left);
        assert_eq!(crate::codec::encode(&left), [b"\x08output/x\x02".as_slice(), &[0, 255]].concat());
    }
}

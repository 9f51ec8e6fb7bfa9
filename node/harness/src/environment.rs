//! What every engine starts from: instructions, skills and input files of a run.
//!
//! The caller puts the files into the working directory before the setup and takes them out before it looks at what
//! changed; each engine puts the rest into its own prompt or configuration.

mod compile;
mod materialize;

pub use compile::{CompiledEnvironment, Harness, compile_environment};
pub use materialize::{EnvironmentError, MaterializedEnvironment, RestoreReport, materialize_environment};

/// What every engine starts from. All of it may be left out; without any of it a run is as if there were none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunEnvironment {
    /// What the agent is told.
    pub instructions: Instructions,
    /// Nested `AGENTS.md` files.
    pub agent_files: Vec<EnvironmentFile>,
    /// Skills.
    pub skills: Vec<Skill>,
    /// Input files.
    pub sources: Vec<EnvironmentFile>,
}

impl RunEnvironment {
    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What the agent is told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instructions {
    /// For its system prompt.
    pub system: Option<String>,
    /// For the `AGENTS.md` at the top of its working directory.
    pub agents_md: Option<String>,
}

/// A file, by its path below the working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentFile {
    /// Where.
    pub path: String,
    /// What is in it.
    pub content: Vec<u8>,
}

impl EnvironmentFile {
    /// A file of text.
    pub fn text(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self { path: path.into(), content: content.into().into_bytes() }
    }
}

/// A directory in the form of Agent Skills: it holds a `SKILL.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its name, which is its directory's.
    pub name: String,
    /// Its files, by path below that directory.
    pub files: Vec<EnvironmentFile>,
}

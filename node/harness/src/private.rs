//! Runs whose material must not leave the host: what their channels carry, and how their errors look.
//!
//! An event is rebuilt from an allow-list, so a field that is added later is withheld until somebody decides. Kept is
//! structure: types, numbers, the names of registered tools, outcomes, budgets. Withheld is every text that a person, a
//! model, a tool or a provider wrote.

mod redaction;

use thiserror::Error;

pub(crate) use redaction::Redaction;

/// A private run failed. Neither this nor its cause says anything about the material.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the private run failed in its {phase} phase")]
pub struct PrivateRunError {
    /// Where.
    pub phase: PrivatePhase,
}

/// Where a private run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivatePhase {
    /// Before its loop.
    Setup,
    /// In its loop.
    Loop,
}

impl std::fmt::Display for PrivatePhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Setup => "setup",
            Self::Loop => "loop",
        })
    }
}

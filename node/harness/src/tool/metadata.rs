//! What an application may know about a tool. Absent means: no restriction, no claim.

use serde::{Deserialize, Serialize};

/// Metadata of a tool. None of it reaches a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolMetadata {
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The capabilities it belongs to; empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_capabilities: Vec<String>,
    /// Who may cause it; empty: anybody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub invocation_modes: Vec<InvocationMode>,
    /// Whether a person has to agree first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_confirmation: Option<bool>,
    /// Whether what it does can be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reversible: Option<bool>,
    /// The tool that undoes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo_tool_name: Option<String>,
    /// For how long it can be undone, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo_window_seconds: Option<u64>,
    /// How long its result is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_retention: Option<Retention>,
    /// Whether a client is shown its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_result_visibility: Option<ClientVisibility>,
    /// Whether it may be run again after an interruption. Absent is [`Replay::Unsafe`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Where it belongs in a run. Absent: it is run and the model goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
}

static NONE: ToolMetadata = ToolMetadata {
    display_name: None,
    target_capabilities: Vec::new(),
    invocation_modes: Vec::new(),
    requires_confirmation: None,
    reversible: None,
    undo_tool_name: None,
    undo_window_seconds: None,
    result_retention: None,
    client_result_visibility: None,
    replay: None,
    dispatch: None,
};

impl ToolMetadata {
    /// No metadata.
    #[must_use]
    pub fn none() -> &'static Self {
        &NONE
    }
}

/// Who causes a tool to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvocationMode {
    /// A person.
    UserInitiated,
    /// The system by itself.
    SystemInitiated,
}

/// How long a result is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retention {
    /// Not beyond the run.
    Ephemeral,
    /// As usual.
    Standard,
    /// For good.
    Persistent,
}

/// Whether a client is shown a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientVisibility {
    /// All of it.
    Full,
    /// Not at all.
    Suppressed,
}

/// Whether a tool may be run again after an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// A second run changes nothing more.
    Safe,
    /// It might.
    Unsafe,
}

/// Where a tool belongs in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// It gives the final answer: the run ends when it succeeds.
    Terminal,
    /// The caller executes it. The native loop refuses it.
    External,
}

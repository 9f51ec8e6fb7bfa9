//! Every environment variable this program reads, with what it does: the one list that the code and its help share.
//!
//! A flag wins over a variable. No variable is needed. Not listed: `ROOKHOLD_MCP_*`, older names of the adapter's three
//! that it still takes.

/// The directory a node lives in.
pub(crate) const MESH_HOME: &str = "MESH_HOME";
/// The credential of an agent's run.
pub(crate) const MESH_TOKEN: &str = "MESH_TOKEN";

/// A variable and its meaning, for people.
#[derive(Debug)]
pub(crate) struct Variable {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) meaning: &'static str,
}

/// All of them.
pub(crate) const TABLE: [Variable; 10] = [
    Variable { name: MESH_HOME, meaning: "the node's directory, as `--home`" },
    Variable { name: MESH_TOKEN, meaning: "an agent's own token, in place of the operator's" },
    Variable { name: "MESH_MCP_MINIMUM_ISOLATION", meaning: "the weakest isolation of an agent host's jobs" },
    Variable { name: "MESH_MCP_ALLOWED_LANGUAGES", meaning: "the languages an agent host's jobs may be in" },
    Variable { name: "MESH_MCP_EXECUTOR", meaning: "the node an agent host's jobs go to" },
    Variable { name: "XDG_DATA_HOME", meaning: "where that directory is when neither says" },
    Variable { name: "XDG_RUNTIME_DIR", meaning: "where the socket is when that path is too long" },
    Variable { name: "NO_COLOR", meaning: "no colours, as `--color never`" },
    Variable { name: "CLICOLOR_FORCE", meaning: "colours into pipes too" },
    Variable { name: "RUST_LOG", meaning: "which logs are written, in place of `-v`" },
];

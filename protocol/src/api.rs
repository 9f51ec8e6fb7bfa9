//! The local API's requests and answers: what the command line, the MCP adapter and other programs exchange with a
//! node, and exactly what `--json` prints.
//!
//! Plain data, JSON only, additive within [`SCHEMA_VERSION`]. Times are wall-clock milliseconds since 1970 for display;
//! durations end in `_ms`. Absent means unknown or not applicable, never zero.

pub mod ask;
pub mod error;
pub mod job;
pub mod mesh;
pub mod node;

use serde::{Deserialize, Serialize};

/// The version of every document below. Fields are only added within one.
pub const SCHEMA_VERSION: u32 = 1;

/// The envelope of every `--json` document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document<T> {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Whether `data` is there; `error` otherwise.
    pub ok: bool,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<T>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<error::ApiError>,
}

impl<T> From<Result<T, error::ApiError>> for Document<T> {
    fn from(result: Result<T, error::ApiError>) -> Self {
        let (ok, data, error) = match result {
            Ok(data) => (true, Some(data), None),
            Err(error) => (false, None, Some(error)),
        };
        Self { schema_version: SCHEMA_VERSION, ok, data, error }
    }
}

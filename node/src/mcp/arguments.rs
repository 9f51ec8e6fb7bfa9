//! What a model may say to each tool, and how it is told what it got wrong.
//!
//! Arguments are hostile: unknown members are refused by name, numbers are held to their ranges. None of them is an
//! endpoint, a credential, a tenant, a node or an isolation class: those are the operator's, so a member that tries
//! to set one is unknown here like any other.

use std::ops::RangeInclusive;

use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::job::{JobLimits, Language};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::limits::{CALL_WAIT_SECONDS_MAX, RUN_WAIT_SECONDS_DEFAULT, WAIT_SECONDS_DEFAULT};

/// Bytes of a request id: what an idempotency key may have.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Of tools that take nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Of `agents_resolve`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resolve {
    /// The agent's address: `@name`, or `@name.node:host` for the one on a certain node.
    pub(crate) label: String,
}

/// Of `messages_send`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Send {
    /// The agent's address: `@name` or `@name.node:host`.
    pub(crate) to: String,
    /// What to say.
    pub(crate) body: String,
    /// Your own id for this message. Calling again with the same id never sends a second message.
    #[schemars(length(min = 1, max = 128))]
    pub(crate) request_id: Option<String>,
}

/// Of `ask`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    /// The agent's address: `@name` or `@name.node:host`.
    pub(crate) to: String,
    /// The task, complete in itself: the other agent sees nothing of your conversation.
    pub(crate) body: String,
    /// Seconds to wait for the answer here. The work goes on when they are over.
    #[serde(default = "wait_seconds")]
    #[schemars(range(min = 0, max = 300))]
    pub(crate) wait_seconds: u64,
    /// Seconds until the answer is of no use and the work is stopped; a day when absent.
    #[schemars(range(min = 1))]
    pub(crate) deadline_seconds: Option<u64>,
    /// Your own id for this ask. Calling again with the same id never asks twice.
    #[schemars(length(min = 1, max = 128))]
    pub(crate) request_id: Option<String>,
}

/// Of `invocations_get`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flight {
    /// The flight's id, from `ask`.
    pub(crate) flight_id: String,
}

/// Of `invocations_wait`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlightWait {
    /// The flight's id, from `ask`.
    pub(crate) flight_id: String,
    /// Seconds to wait at most.
    #[serde(default = "wait_seconds")]
    #[schemars(range(min = 1, max = 300))]
    pub(crate) timeout_seconds: u64,
}

/// Of `run_code`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunCode {
    /// The language of `code`.
    #[schemars(extend("enum" = ["python", "node", "bash"]))]
    #[schemars(with = "String")]
    pub(crate) language: Language,
    /// The whole program, 1 MiB at most.
    pub(crate) code: String,
    /// What the program reads on standard input, 1 MiB at most.
    #[serde(default)]
    pub(crate) stdin: String,
    /// What the program may use. The executor clamps what is out of its range.
    #[serde(default)]
    pub(crate) limits: Limits,
    /// Seconds to wait for the result here. The job goes on when they are over.
    #[serde(default = "run_wait_seconds")]
    #[schemars(range(min = 0, max = 300))]
    pub(crate) wait_seconds: u64,
}

/// Limits of a job, each with a default.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    /// Seconds of wall time; 15 when absent, 300 at most.
    wall_seconds: Option<u32>,
    /// Seconds of CPU time; 15 when absent, 300 at most.
    cpu_seconds: Option<u32>,
    /// Mebibytes of memory; 256 when absent, 1024 at most.
    mem_mb: Option<u32>,
    /// Processes and threads; 64 when absent, 256 at most.
    max_pids: Option<u32>,
    /// Mebibytes of the largest file; 16 when absent, 256 at most.
    max_file_mb: Option<u32>,
}

/// Of `job_result`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobWait {
    /// The job's id, from `run_code`.
    pub(crate) job_id: String,
    /// Seconds to wait for its end.
    #[serde(default = "wait_seconds")]
    #[schemars(range(min = 0, max = 300))]
    pub(crate) wait_seconds: u64,
}

/// Of `cancel_job`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Job {
    /// The job's id, from `run_code`.
    pub(crate) job_id: String,
}

const fn wait_seconds() -> u64 {
    WAIT_SECONDS_DEFAULT
}

const fn run_wait_seconds() -> u64 {
    RUN_WAIT_SECONDS_DEFAULT
}

impl Limits {
    pub(crate) fn filled_in(self) -> JobLimits {
        let default = JobLimits::default();
        JobLimits {
            wall_seconds: self.wall_seconds.unwrap_or(default.wall_seconds),
            cpu_seconds: self.cpu_seconds.unwrap_or(default.cpu_seconds),
            mem_mb: self.mem_mb.unwrap_or(default.mem_mb),
            max_pids: self.max_pids.unwrap_or(default.max_pids),
            max_file_mb: self.max_file_mb.unwrap_or(default.max_file_mb),
            allow_network: false,
        }
    }
}

/// The arguments of one call, read as what its tool takes.
pub(crate) fn read<T: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, ApiError> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let path = error.path().to_string();
        let reason = error.into_inner();
        // At the top, serde's own sentence names the member.
        if path == "." { wrong(reason.to_string()) } else { wrong(format!("`{path}`: {reason}")) }
    })
}

/// Seconds a call may wait, held to the range its schema promises.
pub(crate) fn seconds(name: &str, value: u64, least: u64) -> Result<u64, ApiError> {
    within(name, value, least..=CALL_WAIT_SECONDS_MAX)
}

fn within(name: &str, value: u64, range: RangeInclusive<u64>) -> Result<u64, ApiError> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(wrong(format!("`{name}`: {value} is not in {} to {}", range.start(), range.end())))
}

/// The caller's request id, or a new one: so that even a call without one can be repeated safely.
pub(crate) fn request_id(given: Option<String>) -> Result<String, ApiError> {
    let Some(given) = given else { return Ok(uuid::Uuid::now_v7().to_string()) };
    let visible = given.bytes().all(|byte| byte.is_ascii_graphic());
    if given.is_empty() || given.len() > REQUEST_ID_BYTES_MAX || !visible {
        return Err(wrong(format!(
            "`request_id`: must be 1 to {REQUEST_ID_BYTES_MAX} visible ASCII characters"
        )));
    }
    Ok(given)
}

/// A deadline that leaves time for something to happen.
pub(crate) fn deadline(given: Option<u64>) -> Result<Option<u64>, ApiError> {
    if given == Some(0) {
        return Err(wrong("`deadline_seconds`: must be at least 1".to_owned()));
    }
    Ok(given)
}

/// An id of any kind.
pub(crate) fn id<T: std::str::FromStr<Err: std::fmt::Display>>(
    name: &str,
    text: &str,
) -> Result<T, ApiError> {
    text.trim().parse().map_err(|error| wrong(format!("`{name}`: {error}")))
}

pub(crate) fn wrong(message: String) -> ApiError {
    ApiError::new(ErrorKind::Invalid, "argument_invalid", message)
}

//! One tool call: what it works with, and its way from arguments to a report.
//!
//! A call ends early when the host takes it back or goes away. What the node accepted is not undone by that, except
//! that a job whose result nobody will read is stopped.

mod broker;
mod executor;

use mesh_protocol::api::error::{ApiError, ErrorKind};
use rmcp::model::JsonObject;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::arguments;
use super::daemon::Daemon;
use super::policy::Policy;
use super::submission::Submissions;
use super::tool::Tool;
use crate::client::{Client, ClientError};

/// What every call of this process works with.
pub(crate) struct Adapter {
    pub(crate) daemon: Daemon,
    pub(crate) policy: Policy,
    pub(crate) submissions: Submissions,
}

/// What a call came to: a report, or why there is none.
pub(crate) type Answer = Result<Value, ApiError>;

/// One call under way.
pub(crate) struct Call<'a> {
    adapter: &'a Adapter,
    client: Client,
    /// Cancelled when nobody waits for the answer any more.
    stop: CancellationToken,
}

/// Does what the model asks for.
pub(crate) async fn answer(
    adapter: &Adapter,
    tool: Tool,
    given: Option<JsonObject>,
    stop: CancellationToken,
) -> Answer {
    let call = Call { adapter, client: adapter.daemon.client()?, stop };
    match tool {
        Tool::Whoami => call.whoami(arguments::read(given)?).await,
        Tool::AgentsResolve => call.resolve(arguments::read(given)?).await,
        Tool::MessagesSend => call.send(arguments::read(given)?).await,
        Tool::Ask => call.ask(arguments::read(given)?).await,
        Tool::InvocationsGet => call.invocation(arguments::read(given)?).await,
        Tool::InvocationsWait => call.invocation_wait(arguments::read(given)?).await,
        Tool::RunCode => call.run_code(arguments::read(given)?).await,
        Tool::JobResult => call.job_result(arguments::read(given)?).await,
        Tool::CancelJob => call.cancel_job(arguments::read(given)?).await,
    }
}

impl Call<'_> {
    /// The node's answer, unless the call is stopped first.
    async fn unless_stopped<T>(
        &self,
        request: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ApiError> {
        tokio::select! {
            biased;
            answered = request => answered.map_err(ClientError::into_api_error),
            () = self.stop.cancelled() => Err(stopped()),
        }
    }
}

fn stopped() -> ApiError {
    ApiError::new(ErrorKind::Unavailable, "call_stopped", "the call was stopped before the node answered")
}

fn report(document: impl Serialize) -> Answer {
    serde_json::to_value(document).map_err(|_| {
        ApiError::new(ErrorKind::Internal, "report_not_json", "the report cannot be written as JSON")
    })
}

//! Agents, messages and asks.

use mesh_protocol::address::AgentAddress;
use mesh_protocol::api::ask::{AskCommand, FlightView, ResolveRequest, SendRequest};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::id::FlightId;

use super::{Answer, Call, report};
use crate::mcp::arguments::{self, Ask, Flight, FlightWait, Nothing, Resolve, Send};
use crate::mcp::report::flight::{AskReport, InvocationReport};
use crate::mcp::report::{AgentReport, ResolveKind, ResolveReport, SendReport, WhoamiReport};

impl Call<'_> {
    pub(super) async fn whoami(&self, Nothing {}: Nothing) -> Answer {
        report(WhoamiReport::from(self.unless_stopped(self.client.whoami()).await?))
    }

    pub(super) async fn resolve(&self, Resolve { label }: Resolve) -> Answer {
        if let Err(error) = label.parse::<AgentAddress>() {
            let hint = "an address is `@name`, or `@name.node:host` for the one on a certain node".to_owned();
            return report(unresolved(ResolveKind::Unparseable, error.to_string(), vec![hint]));
        }
        let request = ResolveRequest { to: label };
        match self.unless_stopped(self.client.resolve(&request)).await {
            Ok(view) => report(ResolveReport {
                kind: ResolveKind::Resolved,
                candidate: Some(AgentReport::from(view)),
                candidates: Vec::new(),
                reason: None,
                hints: Vec::new(),
            }),
            Err(error) => {
                let kind = match error.kind {
                    ErrorKind::Ambiguous => ResolveKind::Ambiguous,
                    _ if is_missing(&error) => ResolveKind::Unknown,
                    _ => return Err(error),
                };
                let candidates = error.candidates.into_iter().map(|candidate| AgentReport {
                    address: candidate.address.to_string(),
                    full: candidate.full.to_string(),
                    reachability: candidate.reachability,
                    reason: None,
                    harness: None,
                    description: None,
                });
                let candidates = candidates.collect();
                report(ResolveReport { candidates, ..unresolved(kind, error.message, error.hints) })
            }
        }
    }

    pub(super) async fn send(&self, Send { to, body, request_id }: Send) -> Answer {
        let request_id = arguments::request_id(request_id)?;
        let request = SendRequest { to, body, request_id: Some(request_id.clone()) };
        let sent = self.unless_stopped(self.client.send(&request, 0)).await;
        report(SendReport::from(sent.map_err(|error| repeatable(error, &request_id))?))
    }

    pub(super) async fn ask(&self, ask: Ask) -> Answer {
        let wait = arguments::seconds("wait_seconds", ask.wait_seconds, 0)?;
        let deadline_seconds = arguments::deadline(ask.deadline_seconds)?;
        let request_id = arguments::request_id(ask.request_id)?;
        let command =
            AskCommand { to: ask.to, task: ask.body, request_id: Some(request_id.clone()), deadline_seconds };
        let accepted = self.unless_stopped(self.client.ask(&command)).await;
        let receipt = accepted.map_err(|error| repeatable(error, &request_id))?;
        let Some(flight) = receipt.flight_id else { return report(AskReport::new(receipt, None, None)) };
        // The ask is durable from here on: whatever happens to the wait, the caller gets its id.
        match self.flight(&flight.to_string(), wait).await {
            Ok(view) => report(AskReport::new(receipt, Some(view), None)),
            Err(error) => {
                report(AskReport::new(receipt, None, Some(format!("the wait was cut short: {error}"))))
            }
        }
    }

    pub(super) async fn invocation(&self, Flight { flight_id }: Flight) -> Answer {
        let flight: FlightId = arguments::id("flight_id", &flight_id)?;
        found(self.flight(&flight.to_string(), 0).await, false)
    }

    pub(super) async fn invocation_wait(&self, wait: FlightWait) -> Answer {
        let seconds = arguments::seconds("timeout_seconds", wait.timeout_seconds, 1)?;
        let flight: FlightId = arguments::id("flight_id", &wait.flight_id)?;
        found(self.flight(&flight.to_string(), seconds).await, true)
    }

    async fn flight(&self, flight: &str, wait_seconds: u64) -> Result<FlightView, ApiError> {
        self.unless_stopped(self.client.flight(flight, wait_seconds)).await
    }
}

fn unresolved(kind: ResolveKind, reason: String, hints: Vec<String>) -> ResolveReport {
    ResolveReport { kind, candidate: None, candidates: Vec::new(), reason: Some(reason), hints }
}

fn found(view: Result<FlightView, ApiError>, waited: bool) -> Answer {
    match view {
        Ok(view) => report(InvocationReport::found(view, waited)),
        Err(error) if is_missing(&error) => report(InvocationReport::missing(error.message)),
        Err(error) => Err(error),
    }
}

/// Whether it is the thing asked for that is not there, and not the node.
fn is_missing(error: &ApiError) -> bool {
    error.kind == ErrorKind::NotFound && !matches!(error.code.as_str(), "no_home" | "no_such_route")
}

/// After a lost answer the same call with the same id is safe; say which id that is.
fn repeatable(error: ApiError, request_id: &str) -> ApiError {
    let lost =
        matches!(error.code.as_str(), "no_answer_in_time" | "connection_lost" | "answer_not_understood");
    if !lost && error.kind != ErrorKind::Internal {
        return error;
    }
    error.hint(format!(
        "it may have been accepted: repeat the call with `request_id` \"{request_id}\" and it happens once"
    ))
}

//! The handler of each operation: takes the request apart, calls the service, puts the answer together.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, on};
use axum::{Extension, Json};
use bytes::Bytes;
use mesh_protocol::api::ask::{
    AgentView, AskCommand, CancelReply, FlightView, MessageView, Receipt, ResolveRequest, SendBatch,
    SendRequest, SentBatch, Whoami,
};
use mesh_protocol::api::job::{
    EventPage, JobCapabilities, JobFilter, JobPage, JobView, OutputView, RunRequest,
};
use mesh_protocol::api::mesh::{
    ExpelReply, ExpelRequest, GrantReply, GrantRequest, InviteRequest, PingReply, RouteView,
};
use mesh_protocol::api::node::{Check, PeerOutbox, Status};
use mesh_protocol::evidence::{artifact, dsse};
use mesh_protocol::id::JobId;

use super::extract::{Document, Limit, Parameters, Segment, Wait};
use super::failure::{self, Failure};
use super::operation::Operation;
use super::{Api, Service};
use crate::service::{EVENT_ROWS_MAX, EventCursor, FlightFilter, MessageFilter, Principal};

type Shared<S> = State<Arc<Api<S>>>;
type Caller = Extension<Principal>;
type Answer<T> = Result<Json<T>, Failure>;

const NO_WAIT: Duration = Duration::ZERO;

/// The handler of an operation, for its method.
pub(crate) fn handler<S: Service>(operation: Operation) -> MethodRouter<Arc<Api<S>>> {
    let verb = operation.verb().filter();
    match operation {
        Operation::Status => on(verb, status::<S>),
        Operation::Doctor => on(verb, doctor::<S>),
        Operation::Whoami => on(verb, whoami::<S>),
        Operation::Agents => on(verb, agents::<S>),
        Operation::Resolve => on(verb, resolve::<S>),
        Operation::Send => on(verb, send::<S>),
        Operation::SendBatch => on(verb, send_batch::<S>),
        Operation::Messages => on(verb, messages::<S>),
        Operation::Ask => on(verb, ask::<S>),
        Operation::Flights => on(verb, flights::<S>),
        Operation::Flight => on(verb, flight::<S>),
        Operation::CancelFlight => on(verb, cancel_flight::<S>),
        Operation::Run => on(verb, run::<S>),
        Operation::Jobs => on(verb, jobs::<S>),
        Operation::Job => on(verb, job::<S>),
        Operation::JobResult => on(verb, job_result::<S>),
        Operation::JobEvents => on(verb, job_events::<S>),
        Operation::JobOutputs => on(verb, job_outputs::<S>),
        Operation::JobCapabilities => on(verb, job_capabilities::<S>),
        Operation::CancelJob => on(verb, cancel_job::<S>),
        Operation::Evidence => on(verb, evidence::<S>),
        Operation::Attestation => on(verb, attestation::<S>),
        Operation::ResultArtifact => on(verb, result_artifact::<S>),
        Operation::Outboxes => on(verb, outboxes::<S>),
        Operation::DiscardOutbox => on(verb, discard_outbox::<S>),
        Operation::Invite => on(verb, invite::<S>),
        Operation::Grant => on(verb, grant::<S>),
        Operation::Revoke => on(verb, revoke::<S>),
        Operation::Block => on(verb, block::<S>),
        Operation::Unblock => on(verb, unblock::<S>),
        Operation::Route => on(verb, route::<S>),
        Operation::Ping => on(verb, ping::<S>),
        Operation::Shutdown => on(verb, shutdown::<S>),
    }
}

async fn status<S: Service>(State(api): Shared<S>, Extension(who): Caller) -> Answer<Status> {
    api.answer(NO_WAIT, api.service.status(&who)).await.map(Json)
}

async fn doctor<S: Service>(State(api): Shared<S>, Extension(who): Caller) -> Answer<Vec<Check>> {
    api.answer(NO_WAIT, api.service.doctor(&who)).await.map(Json)
}

async fn whoami<S: Service>(State(api): Shared<S>, Extension(who): Caller) -> Answer<Whoami> {
    api.answer(NO_WAIT, api.service.whoami(&who)).await.map(Json)
}

async fn agents<S: Service>(State(api): Shared<S>, Extension(who): Caller) -> Answer<Vec<AgentView>> {
    api.answer(NO_WAIT, api.service.agents(&who)).await.map(Json)
}

async fn resolve<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Document(request): Document<ResolveRequest>,
) -> Answer<AgentView> {
    api.answer(NO_WAIT, api.service.resolve(&who, request)).await.map(Json)
}

async fn send<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Wait(wait): Wait,
    Document(request): Document<SendRequest>,
) -> Answer<Receipt> {
    api.answer(wait, api.service.send(&who, request, wait)).await.map(Json)
}

async fn send_batch<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Wait(wait): Wait,
    Document(SendBatch { messages }): Document<SendBatch>,
) -> Answer<SentBatch> {
    api.answer(wait, api.service.send_batch(&who, messages, wait)).await.map(Json)
}

async fn messages<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Parameters(filter): Parameters<MessageFilter>,
    Limit(limit): Limit,
) -> Answer<Vec<MessageView>> {
    api.answer(NO_WAIT, api.service.messages(&who, filter, limit)).await.map(Json)
}

async fn ask<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Document(command): Document<AskCommand>,
) -> Result<Response, Failure> {
    let receipt = api.answer(NO_WAIT, api.service.ask(&who, command)).await?;
    Ok(match receipt.flight_id {
        Some(flight) => created(format!("/v1/flights/{flight}"), receipt),
        None => Json(receipt).into_response(),
    })
}

async fn flights<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Parameters(filter): Parameters<FlightFilter>,
    Limit(limit): Limit,
) -> Answer<Vec<FlightView>> {
    api.answer(NO_WAIT, api.service.flights(&who, filter, limit)).await.map(Json)
}

async fn flight<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(flight): Segment<String>,
    Wait(wait): Wait,
) -> Answer<FlightView> {
    api.answer(wait, api.service.flight(&who, &flight, wait)).await.map(Json)
}

async fn cancel_flight<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(flight): Segment<String>,
) -> Answer<CancelReply> {
    api.answer(NO_WAIT, api.service.cancel_flight(&who, &flight)).await.map(Json)
}

async fn run<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Document(request): Document<RunRequest>,
) -> Result<Response, Failure> {
    let receipt = api.answer(NO_WAIT, api.service.run(&who, request)).await?;
    Ok(created(format!("/v1/jobs/{}", receipt.job_id), receipt))
}

async fn jobs<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Parameters(filter): Parameters<JobFilter>,
    Limit(limit): Limit,
) -> Answer<JobPage> {
    api.answer(NO_WAIT, api.service.jobs(&who, filter, limit)).await.map(Json)
}

async fn job_events<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(job): Segment<JobId>,
    Parameters(behind): Parameters<EventCursor>,
    Wait(wait): Wait,
) -> Answer<EventPage> {
    if behind.limit.is_some_and(|limit| !(1..=EVENT_ROWS_MAX).contains(&limit)) {
        return Err(failure::parameter(format!("limit: 1 to {EVENT_ROWS_MAX} are allowed")));
    }
    api.answer(wait, api.service.job_events(&who, job, behind, wait)).await.map(Json)
}

async fn job_outputs<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(job): Segment<JobId>,
) -> Answer<Vec<OutputView>> {
    api.answer(NO_WAIT, api.service.job_outputs(&who, job)).await.map(Json)
}

async fn job_capabilities<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
) -> Answer<JobCapabilities> {
    api.answer(NO_WAIT, api.service.job_capabilities(&who)).await.map(Json)
}

async fn job<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(job): Segment<JobId>,
) -> Answer<JobView> {
    api.answer(NO_WAIT, api.service.job(&who, job)).await.map(Json)
}

/// 200 when the job has ended, 202 when it has not.
async fn job_result<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(job): Segment<JobId>,
    Wait(wait): Wait,
) -> Result<(StatusCode, Json<JobView>), Failure> {
    let view = api.answer(wait, api.service.job_result(&who, job, wait)).await?;
    let status = if view.terminal { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(view)))
}

async fn cancel_job<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(job): Segment<JobId>,
) -> Answer<CancelReply> {
    api.answer(NO_WAIT, api.service.cancel_job(&who, job)).await.map(Json)
}

async fn evidence<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(job): Segment<JobId>,
) -> Result<Response, Failure> {
    let bytes = api.answer(NO_WAIT, api.service.evidence(&who, job)).await?;
    Ok(exact("application/octet-stream", bytes))
}

async fn attestation<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(job): Segment<JobId>,
) -> Result<Response, Failure> {
    let bytes = api.answer(NO_WAIT, api.service.attestation(&who, job)).await?;
    Ok(exact(dsse::MEDIA_TYPE, bytes))
}

async fn result_artifact<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(job): Segment<JobId>,
) -> Result<Response, Failure> {
    let bytes = api.answer(NO_WAIT, api.service.result_artifact(&who, job)).await?;
    Ok(exact(artifact::MEDIA_TYPE, bytes))
}

fn exact(media_type: &'static str, bytes: Bytes) -> Response {
    ([(header::CONTENT_TYPE, media_type)], bytes).into_response()
}

async fn outboxes<S: Service>(State(api): Shared<S>, Extension(who): Caller) -> Answer<Vec<PeerOutbox>> {
    api.answer(NO_WAIT, api.service.outboxes(&who)).await.map(Json)
}

async fn discard_outbox<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(peer): Segment<String>,
) -> Answer<PeerOutbox> {
    api.answer(NO_WAIT, api.service.discard_outbox(&who, &peer)).await.map(Json)
}

async fn invite<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Document(request): Document<InviteRequest>,
) -> Result<Response, Failure> {
    let reply = api.answer(NO_WAIT, api.service.invite(&who, request)).await?;
    Ok((StatusCode::CREATED, Json(reply)).into_response())
}

async fn grant<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Document(request): Document<GrantRequest>,
) -> Answer<GrantReply> {
    api.answer(NO_WAIT, api.service.grant(&who, request)).await.map(Json)
}

async fn revoke<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Document(request): Document<ExpelRequest>,
) -> Answer<ExpelReply> {
    api.answer(NO_WAIT, api.service.revoke(&who, request)).await.map(Json)
}

async fn block<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Document(request): Document<ExpelRequest>,
) -> Answer<ExpelReply> {
    api.answer(NO_WAIT, api.service.block(&who, request)).await.map(Json)
}

async fn unblock<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(peer): Segment<String>,
) -> Answer<ExpelReply> {
    api.answer(NO_WAIT, api.service.unblock(&who, &peer)).await.map(Json)
}

async fn route<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(peer): Segment<String>,
) -> Answer<RouteView> {
    api.answer(NO_WAIT, api.service.route(&who, &peer)).await.map(Json)
}

async fn ping<S: Service>(
    State(api): Shared<S>,
    Extension(who): Caller,
    Segment(peer): Segment<String>,
) -> Answer<PingReply> {
    api.answer(NO_WAIT, api.service.ping(&who, &peer)).await.map(Json)
}

/// 202: the node begins to stop, and answers before it has.
async fn shutdown<S: Service>(State(api): Shared<S>, Extension(who): Caller) -> Result<StatusCode, Failure> {
    api.answer(NO_WAIT, api.service.shutdown(&who)).await.map(|()| StatusCode::ACCEPTED)
}

fn created<T: serde::Serialize>(location: String, receipt: T) -> Response {
    (StatusCode::CREATED, [(header::LOCATION, location)], Json(receipt)).into_response()
}

//! Jobs: submitted, listed, looked at, waited for, stopped, proven.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use mesh_protocol::api::job::{JobFilter, JobReceipt, JobView, RunRequest};
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::{artifact, dsse};
use mesh_protocol::id::JobId;
use mesh_protocol::job::{JobError, JobStatus};

use super::Api;
use super::body::{self, Job, Query};
use super::documents::{Accepted, Artifact, Cancelled, Detail, Outcome, Page, Replay, Summary};
use super::failure::Refusal;
use super::keys::Tenancy;
use super::limits::{CANCELLED_WITHIN, WAIT_SECONDS_DEFAULT};
use super::request::{Caller, Shared};
use super::room::Place;
use crate::api::limits::WAIT_SECONDS_MAX;
use crate::service::{
    EVENT_ROWS_DEFAULT, EVENT_ROWS_MAX, EventCursor, LIST_ROWS_DEFAULT, LIST_ROWS_MAX, Service,
};

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-content-sha256");

/// Takes a job in. What was begun is finished also when the client hangs up: it may not know, but its key does.
pub(super) async fn submit<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
    request: Request,
) -> Result<Response, Refusal> {
    let place = api.bodies.take(&tenancy.tenant)?;
    let (document, headers) = body::job(request, &api).await?;
    let idempotency_key = body::idempotency_key(&headers)?;
    let spec = match document.into_spec() {
        Ok(spec) => spec,
        Err(invalid) => return Err(refusal(&api, &tenancy, idempotency_key.as_deref(), invalid).await),
    };
    let request = RunRequest { idempotency_key, ..RunRequest::new(spec) };
    let accepting = tokio::spawn(async move {
        let accepted = api.answer(api.service.run(&tenancy.who, request)).await;
        drop(place);
        accepted
    });
    accepting.await.map_err(|_| Refusal::internal())?.map(|receipt| accepted(&receipt))
}

/// What is said of a job that is none: first what its key says, then that the node stops, then what is wrong with it.
async fn refusal<S: Service>(
    api: &Api<S>,
    tenancy: &Tenancy,
    key: Option<&str>,
    invalid: JobError,
) -> Refusal {
    match api.answer(api.service.job_key_reused(&tenancy.who, key)).await {
        Err(refusal) => refusal,
        Ok(Some(reused)) => reused.into(),
        Ok(None) if api.stopping.is_cancelled() => Refusal::shutting_down(),
        Ok(None) => invalid.into(),
    }
}

fn accepted(receipt: &JobReceipt) -> Response {
    let JobReceipt { job_id, status, replayed, .. } = receipt;
    let here = format!("/v1/jobs/{job_id}");
    let document = Accepted {
        job_id: *job_id,
        status: *status,
        stream_url: format!("{here}/stream"),
        stream_ticket_url: format!("{here}/stream-ticket"),
        replay_url: format!("{here}/replay"),
        result_url: format!("{here}/result"),
    };
    let headers = [(header::LOCATION, here), (REPLAYED, replayed.to_string())];
    (StatusCode::CREATED, headers, Json(document)).into_response()
}

/// The tenant's jobs.
pub(super) async fn list<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
    query: Query,
) -> Result<Json<Page>, Refusal> {
    let limit = query.number("limit", "invalid_limit", (1, LIST_ROWS_MAX))?.unwrap_or(LIST_ROWS_DEFAULT);
    let status = query.text("status").map(status).transpose()?;
    let language = query.text("language").map(str::parse).transpose()?;
    let cursor = query.text("cursor").map(str::to_owned);
    let filter = JobFilter { status, language, cursor };
    let page = api.answer(api.service.jobs(&tenancy.who, filter, limit)).await?;
    let jobs = page.jobs.iter().map(Summary::of).collect();
    Ok(Json(Page { jobs, next_cursor: page.next_cursor }))
}

fn status(text: &str) -> Result<JobStatus, Refusal> {
    let parsed = serde_json::from_value(serde_json::Value::from(text));
    parsed.map_err(|_| Refusal::invalid("invalid_status", "there is no such status"))
}

/// One job, with its receipt.
pub(super) async fn show<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
    Job(id): Job,
) -> Result<Json<Detail>, Refusal> {
    let view = api.answer(api.service.job(&tenancy.who, id)).await?;
    let envelope =
        if view.terminal { api.answer(api.service.attestation(&tenancy.who, id)).await.ok() } else { None };
    Ok(Json(Detail::of(view, envelope.as_deref(), tenancy.tenant)))
}

/// Stops a job. What that comes to is shown if it comes soon: what waits here ends at once, as soon as that is attested.
pub(super) async fn cancel<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
    Job(id): Job,
) -> Result<Json<Cancelled>, Refusal> {
    let reply = api.answer(api.service.cancel_job(&tenancy.who, id)).await?;
    let view = api.answer(api.service.job_result(&tenancy.who, id, CANCELLED_WITHIN)).await?;
    Ok(Json(Cancelled {
        job: Summary::of(&view),
        cancellation_requested: !reply.already_terminal,
        already_terminal: reply.already_terminal,
    }))
}

/// 200 when the job has ended, 202 when it has not. Room for waiting is only needed by who really waits.
pub(super) async fn result<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
    Job(id): Job,
    query: Query,
) -> Result<Response, Refusal> {
    let wait = query.number("wait_seconds", "invalid_wait_seconds", (0, WAIT_SECONDS_MAX))?;
    let wait = Duration::from_secs(wait.unwrap_or(WAIT_SECONDS_DEFAULT));
    let mut view = api.answer(api.service.job(&tenancy.who, id)).await?;
    if !view.terminal && !wait.is_zero() {
        view = waited(&api, &tenancy, id, wait).await?;
    }
    let place = api.answers.take(&tenancy.tenant)?;
    let artifacts = if view.terminal {
        let files = api.answer(api.service.job_outputs(&tenancy.who, id)).await?;
        files.into_iter().map(Artifact::of).collect()
    } else {
        Vec::new()
    };
    let status = if view.terminal { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(holding(place, (status, Json(Outcome::of(view, artifacts))).into_response()))
}

async fn waited<S: Service>(
    api: &Api<S>,
    tenancy: &Tenancy,
    id: JobId,
    wait: Duration,
) -> Result<JobView, Refusal> {
    let _place = api.waits.take(&tenancy.tenant)?;
    tokio::select! {
        biased;
        () = api.stopping.cancelled() => Err(Refusal::shutting_down()),
        view = api.service.job_result(&tenancy.who, id, wait) => Ok(view?),
    }
}

/// A job's events behind a place.
pub(super) async fn replay<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
    Job(id): Job,
    query: Query,
) -> Result<Response, Refusal> {
    let after = query.number("after", "invalid_cursor", (0, u64::MAX))?.unwrap_or(0);
    let limit = query.number("limit", "invalid_limit", (1, EVENT_ROWS_MAX))?.unwrap_or(EVENT_ROWS_DEFAULT);
    let place = api.answers.take(&tenancy.tenant)?;
    let cursor = EventCursor { after, limit: Some(limit) };
    let page = api.answer(api.service.job_events(&tenancy.who, id, cursor, Duration::ZERO)).await?;
    let replay = Replay { events: page.events, next_cursor: page.next_cursor };
    Ok(holding(place, Json(replay).into_response()))
}

/// The signed envelope.
pub(super) async fn attestation<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
    Job(id): Job,
) -> Result<Response, Refusal> {
    let place = api.answers.take(&tenancy.tenant)?;
    let bytes = api.answer(api.service.attestation(&tenancy.who, id)).await?;
    Ok(holding(place, exact(dsse::MEDIA_TYPE, bytes)))
}

/// The result it is about.
pub(super) async fn result_artifact<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
    Job(id): Job,
) -> Result<Response, Refusal> {
    let place = api.answers.take(&tenancy.tenant)?;
    let bytes = api.answer(api.service.result_artifact(&tenancy.who, id)).await?;
    Ok(holding(place, exact(artifact::MEDIA_TYPE, bytes)))
}

fn exact(media_type: &'static str, bytes: Bytes) -> Response {
    let digest = HeaderValue::from_str(&Digest::of(&bytes).to_string()).ok();
    let mut response = ([(header::CONTENT_TYPE, media_type)], bytes).into_response();
    digest.map(|digest| response.headers_mut().insert(CONTENT_SHA256, digest));
    response
}

/// An answer that keeps its place until its last byte is with the client.
fn holding(place: Place, mut response: Response) -> Response {
    // The body below does not say how long it is.
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _held = &place;
            frame
        }))
    })
}

//! A job's events over a WebSocket: those there are, then each as it comes, and a close after the last.
//!
//! The client may say `ping`, which is answered `pong`, and nothing else. A client that does not read is let go.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseCode, CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use axum::{Extension, Json};
use mesh_protocol::api::error::ApiError;
use mesh_protocol::api::job::EventPage;
use mesh_protocol::id::JobId;

use super::Api;
use super::body::{Job, Query};
use super::documents::StreamTicket;
use super::failure::Refusal;
use super::limits::{CLOSE_WITHIN, HEARD_BYTES_MAX, TICKET_SECONDS};
use super::request::{Caller, Shared};
use crate::service::{EVENT_ROWS_DEFAULT, EventCursor, Principal, Service};

/// How long one look for new events waits for some.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What is said of an end that could not be signed when it came.
const UNSIGNED: &str = "the job has ended; that is not signed yet";

/// A ticket for one stream.
pub(super) async fn ticket<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
    Job(id): Job,
) -> Result<Json<StreamTicket>, Refusal> {
    api.answer(api.service.job(&tenancy.who, id)).await?;
    let ticket = api.tickets.issue(tenancy, id, Instant::now())?;
    let ends = SystemTime::now() + Duration::from_secs(TICKET_SECONDS);
    let ends = ends.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    Ok(Json(StreamTicket {
        ticket: ticket.expose().to_owned(),
        stream_url: format!("/v1/jobs/{id}/stream"),
        expires_at_ms: u64::try_from(ends).unwrap_or(u64::MAX),
    }))
}

/// Opens a stream. What is wrong is said before the protocol is changed.
pub(super) async fn open<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
    Job(id): Job,
    query: Query,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    let after = query.number("after", "invalid_cursor", (0, u64::MAX))?.unwrap_or(0);
    api.answer(api.service.job(&tenancy.who, id)).await?;
    let refused = |_| Refusal::invalid("websocket_required", "this route speaks WebSocket (RFC 6455) only");
    let upgrade = upgrade.map_err(refused)?.max_message_size(HEARD_BYTES_MAX).max_frame_size(HEARD_BYTES_MAX);
    let place = api.streams.take(&tenancy.tenant)?;
    Ok(upgrade.on_upgrade(move |mut socket| async move {
        if let Some((code, reason)) = follow(&mut socket, &api, (&tenancy.who, id), after).await {
            close(&mut socket, api.limits.send_within, (code, reason)).await;
        }
        drop(place);
    }))
}

enum Next {
    Heard(Option<Result<Message, axum::Error>>),
    Events(Result<EventPage, ApiError>),
}

/// Why a stream is closed, as its client is told.
type Why = (CloseCode, &'static str);

/// Until there is nothing more to say. `None` when the client is gone already.
async fn follow<S: Service>(
    socket: &mut WebSocket,
    api: &Arc<Api<S>>,
    (who, job): (&Principal, JobId),
    mut after: u64,
) -> Option<Why> {
    let within = api.limits.send_within;
    loop {
        let cursor = EventCursor { after, limit: Some(EVENT_ROWS_DEFAULT) };
        let next = tokio::select! {
            () = api.stopping.cancelled() => return Some((close_code::AWAY, "the node is stopping")),
            heard = socket.recv() => Next::Heard(heard),
            page = api.service.job_events(who, job, cursor, LOOK_AGAIN) => Next::Events(page),
        };
        match next {
            Next::Heard(Some(Ok(Message::Text(text)))) if text.as_str() == "ping" => {
                send(socket, within, Message::text("pong")).await?;
            }
            // Those of the protocol itself are answered where they are read.
            Next::Heard(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
            Next::Heard(None | Some(Ok(Message::Close(_)))) => return None,
            Next::Heard(_) => return Some((close_code::POLICY, "only `ping` may be said here")),
            Next::Events(Ok(page)) => {
                for event in &page.events {
                    let Ok(text) = serde_json::to_string(event) else {
                        return Some((close_code::ERROR, "an event cannot be shown"));
                    };
                    send(socket, within, Message::text(text)).await?;
                }
                after = page.next_cursor;
                if page.ended {
                    let signed = if page.unsigned { UNSIGNED } else { "the job has ended" };
                    return Some((close_code::NORMAL, signed));
                }
            }
            Next::Events(Err(_)) => return Some((close_code::ERROR, "the events cannot be read now")),
        }
    }
}

/// `None` when it did not go out in time.
async fn send(socket: &mut WebSocket, within: Duration, message: Message) -> Option<()> {
    tokio::time::timeout(within, socket.send(message)).await.ok()?.ok()
}

/// Says why, and waits a moment for the client to have read it: a connection closed over what was not read is reset.
async fn close(socket: &mut WebSocket, within: Duration, (code, reason): Why) {
    let frame = CloseFrame { code, reason: reason.into() };
    if send(socket, within, Message::Close(Some(frame))).await.is_some() {
        let answered = async { while let Some(Ok(_)) = socket.recv().await {} };
        let in_time = tokio::time::timeout(CLOSE_WITHIN, answered).await.is_ok();
        tracing::trace!(in_time, "closed a stream");
    }
}

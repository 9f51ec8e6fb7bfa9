//! Figures for monitoring, as Prometheus text 0.0.4 or OpenMetrics 1.0: of the whole API for who has the metrics token,
//! of one tenant for its keys. Neither names a tenant or a job.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::Api;
use super::failure::Refusal;
use super::keys::{KeysError, read_private};
use super::limits::{CREDENTIALS_MAX, METRICS_TOKEN_CHARS_MIN, PEPPER_FILE_BYTES_MAX};
use super::request::{Caller, Shared};
use super::room::Room;
use super::route::Route;
use crate::api::tokens::{Fingerprint, fingerprint};
use crate::service::{Principal, Service};

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The token that whoever collects figures has.
#[derive(Clone)]
pub struct MetricsToken(Fingerprint);

impl std::fmt::Debug for MetricsToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MetricsToken(..)")
    }
}

impl MetricsToken {
    /// Reads it from its file.
    ///
    /// # Errors
    /// [`KeysError`], which names the file.
    pub fn read(path: &Path) -> Result<Self, KeysError> {
        let bytes = read_private(path, PEPPER_FILE_BYTES_MAX)?;
        let text = std::str::from_utf8(bytes.trim_ascii()).unwrap_or_default();
        if text.len() < METRICS_TOKEN_CHARS_MIN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let reason = format!("it does not hold {METRICS_TOKEN_CHARS_MIN} or more visible characters");
            return Err(KeysError::Malformed { path: path.to_owned(), reason });
        }
        Ok(Self(fingerprint(text)))
    }

    fn is(&self, token: &str) -> bool {
        fingerprint(token).ct_eq(&self.0).into()
    }
}

/// Requests by route and status.
type Counts = BTreeMap<(Route, u16), u64>;

/// What is counted.
#[derive(Default)]
pub(super) struct Metrics(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    all: Counts,
    tenants: HashMap<String, Counts>,
}

impl Metrics {
    /// One more answer.
    pub(super) fn count(&self, route: Route, status: StatusCode, tenant: Option<&str>) {
        let key = (route, status.as_u16());
        let mut counted = self.counted();
        add(&mut counted.all, key);
        let Some(tenant) = tenant else { return };
        if let Some(counts) = counted.tenants.get_mut(tenant) {
            add(counts, key);
        } else if counted.tenants.len() < CREDENTIALS_MAX {
            add(counted.tenants.entry(tenant.to_owned()).or_default(), key);
        }
    }

    fn all(&self) -> Counts {
        self.counted().all.clone()
    }

    fn of(&self, tenant: &str) -> Counts {
        self.counted().tenants.get(tenant).cloned().unwrap_or_default()
    }

    /// The tables are whole between any two statements, so a panic elsewhere has not broken them.
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(counts: &mut Counts, key: (Route, u16)) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(1);
}

/// A page of figures in one of the two formats.
struct Text {
    open: bool,
    text: String,
}

impl Text {
    /// In the format that the caller accepts.
    fn accepted(headers: &HeaderMap) -> Self {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Self { open: accept.contains("application/openmetrics-text"), text: String::new() }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let total = if kind == "counter" && !self.open { "_total" } else { "" };
        let end = if self.open { "." } else { "" };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(self.text, "# HELP {name}{total} {help}{end}\n# TYPE {name}{total} {kind}");
    }

    fn requests(&mut self, counts: &Counts) {
        self.family("mesh_http_requests", "counter", "Answers by route and status");
        for ((route, status), count) in counts {
            let (method, path) = (route.verb().method(), route.path());
            let labels = format!("method=\"{method}\",route=\"{path}\",status=\"{status}\"");
            let _ = writeln!(self.text, "mesh_http_requests_total{{{labels}}} {count}");
        }
    }

    fn rooms<'a>(&mut self, rooms: impl Iterator<Item = (&'a Arc<Room>, usize)>) {
        self.family("mesh_http_places_taken", "gauge", "Places taken in each room");
        for (room, taken) in rooms {
            let name = room.code().trim_end_matches("_capacity");
            let _ = writeln!(self.text, "mesh_http_places_taken{{room=\"{name}\"}} {taken}");
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        let _ = writeln!(self.text, "{name} {value}");
    }

    fn into_response(mut self) -> Response {
        if self.open {
            self.text.push_str("# EOF\n");
        }
        let kind = if self.open { OPEN_METRICS } else { PROMETHEUS };
        ([(header::CONTENT_TYPE, kind)], self.text).into_response()
    }
}

/// Of the whole API and the node.
pub(super) async fn all<S: Service>(State(api): Shared<S>, headers: HeaderMap) -> Result<Response, Refusal> {
    let Some(token) = &api.metrics_token else {
        return Err(Refusal::missing("metrics_disabled", "no metrics token is configured"));
    };
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    if !given.is_some_and(|(_, given)| token.is(given.trim())) {
        let message = "the metrics token is missing or wrong";
        return Err(Refusal::unauthorized("invalid_metrics_token", message, Some("invalid_token")));
    }
    let status = api.answer(api.service.status(&Principal::Anonymous)).await?;
    let mut text = Text::accepted(&headers);
    text.requests(&api.metrics.all());
    text.rooms(api.rooms().into_iter().map(|room| (room, room.taken_by_all())));
    text.gauge("mesh_jobs_open", "Jobs asked for here that have not ended", status.jobs_open as u64);
    text.gauge("mesh_executor_slots", "Jobs this node runs at once", status.executor.slots.into());
    text.gauge("mesh_executor_running", "Jobs this node runs now", status.executor.running.into());
    text.gauge("mesh_uptime_seconds", "Seconds since the node started", status.uptime_ms / 1000);
    Ok(text.into_response())
}

/// Of the caller's tenant.
pub(super) async fn own<S: Service>(
    State(api): Shared<S>,
    Extension(tenancy): Caller,
    headers: HeaderMap,
) -> Response {
    let mut text = Text::accepted(&headers);
    text.requests(&api.metrics.of(&tenancy.tenant));
    text.rooms(api.rooms().into_iter().map(|room| (room, room.taken_by(&tenancy.tenant))));
    text.into_response()
}

impl<S> Api<S> {
    fn rooms(&self) -> [&Arc<Room>; 4] {
        [&self.bodies, &self.waits, &self.answers, &self.streams]
    }
}

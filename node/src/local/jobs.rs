//! Jobs, as their origin takes them in and shows them.
//!
//! What is not the caller's own is not there for it, on every way in alike.

use bytes::Bytes;
use mesh_node_core::broker::list;
use mesh_node_core::event::{Command, Reply};
use mesh_node_core::evidence::{Attested, Evidence};
use mesh_node_core::jobs::job::Job;
use mesh_node_core::jobs::submission::{Submission, reused_key};
use mesh_node_core::jobs::{events as rows, outputs as files, usage};
use mesh_node_core::store::{get, scan_before, scan_last};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::{
    AttestationCapability, EventPage, JobBounds, JobCapabilities, JobFilter, JobPage, JobReceipt, JobView,
    OutputView, RunRequest,
};
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::dsse::key_id_of;
use mesh_protocol::id::JobId;
use mesh_protocol::job::{
    CODE_BYTES_MAX, FILE_BYTES_MAX, FILES_BYTES_MAX, FILES_MAX, JobLimits, JobStatus, Language,
    OUTPUT_BYTES_MAX, STDIN_BYTES_MAX,
};

use super::{Local, mismatch, storage};
use crate::api::limits::WAIT_SECONDS_MAX;
use crate::clock::Clock;
use crate::limits::STORAGE_RESERVE_BYTES;
use crate::service::{EVENT_ROWS_DEFAULT, EVENT_ROWS_MAX, EventCursor, JobLoad, LIST_ROWS_MAX, Principal};
use crate::storage::Snapshot;

/// Rows read at once while a list looks for those the caller may see.
const LIST_STEP: usize = 100;

/// Bytes of a job that are hashed in less time than it takes to hand them to another thread.
const HASHED_AT_ONCE_BYTES: usize = 64 * 1024;

/// Rows one page may look at. Then it ends early, with a cursor.
const LIST_LOOKS_MAX: usize = 10_000;

/// Has a job accepted.
pub(super) async fn run(local: &Local, who: &Principal, request: RunRequest) -> Result<JobReceipt, ApiError> {
    let key = request.idempotency_key.clone();
    let submission = match submission(request).await {
        Ok(submission) => submission,
        Err(invalid) => return Err(key_reused(local, who, key.as_deref())?.unwrap_or(invalid)),
    };
    // What was taken in before is said again, whatever room there is.
    if let Err(full) = reserve(local)
        && key_reused(local, who, key.as_deref())?.is_none()
    {
        return Err(full);
    }
    let bytes = submission.bytes();
    let command = Command::Run(local.caller(who), Box::new(submission));
    match local.command(command, bytes).await? {
        Reply::Job(receipt) => Ok(receipt),
        _ => Err(mismatch()),
    }
}

/// What is said of a job that is none, if the caller used its idempotency key before.
pub(super) fn key_reused(
    local: &Local,
    who: &Principal,
    key: Option<&str>,
) -> Result<Option<ApiError>, ApiError> {
    let tenant = local.caller(who).tenant();
    reused_key(&local.snapshot()?, &tenant, key).map_err(|error| storage(&error))
}

/// Checks a job and hashes every byte of it, a large one where nobody waits for that.
async fn submission(request: RunRequest) -> Result<Submission, ApiError> {
    if request.spec.bytes() <= HASHED_AT_ONCE_BYTES {
        return Submission::of(request);
    }
    let submission = tokio::task::spawn_blocking(move || Submission::of(request)).await;
    submission.map_err(|_| mismatch())?
}

/// Leaves room on the disk for what is running to end.
fn reserve(local: &Local) -> Result<(), ApiError> {
    // A disk that does not say is found out by writing.
    let Ok(disk) = rustix::fs::statvfs(&local.home) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= STORAGE_RESERVE_BYTES {
        return Ok(());
    }
    let message = format!("the disk has {free} bytes left, and {STORAGE_RESERVE_BYTES} are kept free");
    Err(ApiError::new(ErrorKind::Unavailable, "storage_reserve", message).hint("free some"))
}

/// The newest jobs the caller may see that match, behind the cursor; without their outputs.
pub(super) fn list(
    local: &Local,
    who: &Principal,
    filter: &JobFilter,
    limit: usize,
) -> Result<JobPage, ApiError> {
    let (snapshot, view, now) = (local.snapshot()?, local.view(), local.clock.now());
    let mut behind = filter.cursor.as_deref().map(cursor).transpose()?;
    let mut page = JobPage::default();
    let mut looked = 0;
    loop {
        let rows = step(&snapshot, behind)?;
        let last = rows.len() < LIST_STEP;
        looked += rows.len();
        for (id, job) in rows {
            if page.jobs.len() == limit {
                page.next_cursor = page.jobs.last().map(cursor_of);
                return Ok(page);
            }
            behind = Some(id);
            let matches = filter.status.is_none_or(|status| status == job.status)
                && filter.language.is_none_or(|language| language == job.asked.language);
            if matches && Local::shows(who, &job.requester) {
                let job = list::job(&snapshot, &view, now, id, job).map_err(|error| storage(&error))?;
                page.jobs.push(JobView { result: None, late: None, ..job });
            }
        }
        if last {
            return Ok(page);
        }
        if looked >= LIST_LOOKS_MAX {
            page.next_cursor = behind.map(|id| format!("{}:{id}", id.wall_ms()));
            return Ok(page);
        }
    }
}

fn step(snapshot: &Snapshot, behind: Option<JobId>) -> Result<Vec<(JobId, Job)>, ApiError> {
    let rows = match behind {
        Some(id) => scan_before::<Job>(snapshot, &id, LIST_STEP),
        None => scan_last::<Job>(snapshot, LIST_STEP),
    };
    rows.map_err(|error| storage(&error))
}

/// A place in the list: a job's time and id. For whoever gets it, just text.
fn cursor_of(job: &JobView) -> String {
    format!("{}:{}", job.job_id.wall_ms(), job.job_id)
}

fn cursor(text: &str) -> Result<JobId, ApiError> {
    let id = text.split_once(':').and_then(|(time, id)| {
        let id: JobId = id.parse().ok()?;
        (time == id.wall_ms().to_string()).then_some(id)
    });
    id.ok_or_else(|| {
        ApiError::new(ErrorKind::Invalid, "invalid_cursor", "this is no cursor of a list of jobs")
            .hint("take the `next_cursor` of the page before, as it is")
    })
}

/// One job.
pub(super) fn one(local: &Local, who: &Principal, id: JobId) -> Result<JobView, ApiError> {
    let snapshot = local.snapshot()?;
    let job = own(&snapshot, who, id)?;
    list::job(&snapshot, &local.view(), local.clock.now(), id, job).map_err(|error| storage(&error))
}

fn own(snapshot: &Snapshot, who: &Principal, id: JobId) -> Result<Job, ApiError> {
    let job = get::<Job>(snapshot, &id).map_err(|error| storage(&error))?;
    job.filter(|job| Local::shows(who, &job.requester)).ok_or_else(|| not_found(id))
}

/// Events behind a place.
pub(super) fn events(
    local: &Local,
    who: &Principal,
    id: JobId,
    behind: EventCursor,
) -> Result<EventPage, ApiError> {
    let snapshot = local.snapshot()?;
    let job = own(&snapshot, who, id)?;
    let limit = behind.limit.unwrap_or(EVENT_ROWS_DEFAULT).clamp(1, EVENT_ROWS_MAX);
    let events = rows::after(&snapshot, (local.me, id), behind.after, limit);
    let events = events.map_err(|error| storage(&error))?;
    // An end that nobody tried to sign yet has its last event still to come.
    let settled = job.status.is_terminal() && job.attested != Attested::Pending;
    let ended = settled && events.len() < limit;
    let unsigned = ended && matches!(job.attested, Attested::Unsigned { .. });
    let next_cursor = events.last().map_or(behind.after, |event| event.seq);
    Ok(EventPage { events, next_cursor, ended, unsigned })
}

/// The files it left.
pub(super) fn outputs(local: &Local, who: &Principal, id: JobId) -> Result<Vec<OutputView>, ApiError> {
    let snapshot = local.snapshot()?;
    own(&snapshot, who, id)?;
    let files = files::of(&snapshot, id).map_err(|error| storage(&error))?;
    let view = |file: mesh_protocol::job::OutputFile| OutputView {
        size_bytes: file.content.0.len() as u64,
        sha256: Digest::of(&file.content.0),
        path: file.path,
        content_base64: file.content,
    };
    Ok(files.into_iter().map(view).collect())
}

/// The evidence, as it was stored.
pub(super) fn evidence(local: &Local, who: &Principal, id: JobId) -> Result<Bytes, ApiError> {
    stored(local, who, id, "attestation_unavailable").map(Bytes::from)
}

/// The envelope in the evidence: the text that was signed.
pub(super) fn attestation(local: &Local, who: &Principal, id: JobId) -> Result<Bytes, ApiError> {
    let bundle = bundle(local, who, id, "attestation_unavailable")?;
    Ok(Bytes::from(bundle.envelope))
}

/// The result artifact in the evidence: the text that was digested.
pub(super) fn result_artifact(local: &Local, who: &Principal, id: JobId) -> Result<Bytes, ApiError> {
    const CODE: &str = "result_artifact_unavailable";
    let artifact = bundle(local, who, id, CODE)?.artifact;
    artifact.map(Bytes::from).ok_or_else(|| missing(id, CODE, "the evidence has no result"))
}

fn bundle(local: &Local, who: &Principal, id: JobId, code: &'static str) -> Result<Bundle, ApiError> {
    let stored = stored(local, who, id, code)?;
    Bundle::parse(&stored).map_err(|_| missing(id, code, "what came as evidence is none"))
}

fn stored(local: &Local, who: &Principal, id: JobId, code: &'static str) -> Result<Vec<u8>, ApiError> {
    let snapshot = local.snapshot()?;
    let job = own(&snapshot, who, id)?;
    let stored = get::<Evidence>(&snapshot, &id).map_err(|error| storage(&error))?;
    let why = if job.status.is_terminal() { "the job has no evidence" } else { "the job has not ended" };
    stored.map(|evidence| evidence.0).ok_or_else(|| missing(id, code, why))
}

/// What jobs may be here.
pub(super) fn capabilities(local: &Local) -> JobCapabilities {
    let executor = local.executor.borrow().clone();
    let has = |language: &Language| executor.languages.iter().any(|name| name == language.name());
    let max = JobLimits::MAX;
    JobCapabilities {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        languages: Language::ALL.into_iter().filter(has).collect(),
        isolation_classes: executor.classes,
        unavailable: executor.unavailable,
        slots: executor.slots,
        limits: JobBounds {
            wall_seconds_max: max.wall_seconds,
            cpu_seconds_max: max.cpu_seconds,
            mem_mb_max: max.mem_mb,
            max_pids_max: max.max_pids,
            max_file_mb_max: max.max_file_mb,
            code_bytes_max: CODE_BYTES_MAX as u64,
            stdin_bytes_max: STDIN_BYTES_MAX as u64,
            files_max: FILES_MAX as u64,
            file_bytes_max: FILE_BYTES_MAX as u64,
            files_bytes_max: FILES_BYTES_MAX as u64,
            output_bytes_max: OUTPUT_BYTES_MAX as u64,
            result_wait_seconds_max: WAIT_SECONDS_MAX,
        },
        runtimes: executor.runtimes.unwrap_or_default(),
        attestations: AttestationCapability {
            algorithm: "Ed25519".to_owned(),
            key_id: key_id_of(&local.me),
            node: local.me,
        },
    }
}

/// What the caller's jobs take here. Those that run are few, and among the newest.
pub(super) fn load(local: &Local, who: &Principal) -> Result<JobLoad, ApiError> {
    let usage =
        usage::of(&local.snapshot()?, &local.caller(who).tenant()).map_err(|error| storage(&error))?;
    let running = JobFilter { status: Some(JobStatus::Running), ..JobFilter::default() };
    let policy = &local.job_policy;
    Ok(JobLoad {
        queued: usage.queued,
        queued_max: policy.tenant_queue_max as u64,
        running: list(local, who, &running, LIST_ROWS_MAX)?.jobs.len() as u64,
        bytes: usage.bytes,
        bytes_max: policy.tenant_bytes_max,
    })
}

fn missing(id: JobId, code: &str, why: &str) -> ApiError {
    ApiError::new(ErrorKind::NotFound, code, why).hint(format!("`mesh-cli jobs {id}` shows the job"))
}

fn not_found(id: JobId) -> ApiError {
    ApiError::new(ErrorKind::NotFound, "job_not_found", format!("there is no job {id}"))
        .hint("`mesh-cli jobs` lists them")
}

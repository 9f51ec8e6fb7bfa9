//! Jobs, as their origin shows them.

use bytes::Bytes;
use mesh_node_core::broker::list;
use mesh_node_core::evidence::Evidence;
use mesh_node_core::jobs::job::Job;
use mesh_node_core::store::get;
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::JobView;
use mesh_protocol::id::JobId;

use super::{Local, storage};
use crate::clock::Clock;
use crate::service::{LIST_ROWS_MAX, Principal};

/// The newest jobs the caller may see, without their outputs.
pub(super) fn list(local: &Local, who: &Principal, limit: usize) -> Result<Vec<JobView>, ApiError> {
    let snapshot = local.snapshot()?;
    let (view, now) = (local.view(), local.clock.now());
    let rows = list::newest::<Job>(&snapshot, LIST_ROWS_MAX).map_err(|error| storage(&error))?;
    let shown = rows.into_iter().filter(|(_, job)| Local::shows(who, &job.requester)).take(limit);
    shown
        .map(|(id, job)| {
            let job = list::job(&snapshot, &view, now, id, job).map_err(|error| storage(&error))?;
            Ok(JobView { result: None, late: None, ..job })
        })
        .collect()
}

/// One job.
pub(super) fn one(local: &Local, who: &Principal, id: JobId) -> Result<JobView, ApiError> {
    let snapshot = local.snapshot()?;
    let job = get::<Job>(&snapshot, &id).map_err(|error| storage(&error))?;
    let job = job.filter(|job| Local::shows(who, &job.requester)).ok_or_else(|| not_found(id))?;
    list::job(&snapshot, &local.view(), local.clock.now(), id, job).map_err(|error| storage(&error))
}

/// The evidence, as it was stored.
pub(super) fn evidence(local: &Local, who: &Principal, id: JobId) -> Result<Bytes, ApiError> {
    let job = one(local, who, id)?;
    let stored = get::<Evidence>(&local.snapshot()?, &id).map_err(|error| storage(&error))?;
    stored.map(|evidence| Bytes::from(evidence.0)).ok_or_else(|| {
        let why = if job.terminal { "the job has no evidence" } else { "the job has not ended" };
        ApiError::new(ErrorKind::NotFound, "attestation_unavailable", why)
            .hint(format!("`mesh-cli jobs {id}` shows the job"))
    })
}

fn not_found(id: JobId) -> ApiError {
    ApiError::new(ErrorKind::NotFound, "job_not_found", format!("there is no job {id}"))
        .hint("`mesh-cli jobs` lists them")
}

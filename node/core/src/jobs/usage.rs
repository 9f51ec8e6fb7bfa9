//! What each tenant has on this node: jobs that wait, and bytes that are kept for it. The answers when there is no room.
//!
//! Counted in the commit that changes it, so that asking costs two rows. What a job is charged for is in its record:
//! what it set aside when it was accepted, and what it came to once it has ended.

use mesh_protocol::api::error::{ApiError, ErrorKind};
use serde::{Deserialize, Serialize};

use crate::site::JobPolicy;
use crate::store::{Record, Store, StoreError, Table, get};
use crate::turn::Turn;

/// The row of all tenants together. No tenant is called so.
const EVERYBODY: &str = "";

/// What a tenant has here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Jobs accepted here that have not begun.
    pub queued: u64,
    /// Jobs that are kept, whatever their status.
    pub jobs: u64,
    /// Bytes set aside or kept for them.
    pub bytes: u64,
}

impl Record for Usage {
    const TABLE: Table = Table::JobUsage;
    /// The tenant.
    type Key = String;
}

/// What a tenant has here now.
///
/// # Errors
/// [`StoreError`].
pub fn of(store: &dyn Store, tenant: &str) -> Result<Usage, StoreError> {
    Ok(get(store, &tenant.to_owned())?.unwrap_or_default())
}

/// Why there is no room for one more job of these bytes; `None` when there is.
pub(crate) fn refusal(
    store: &dyn Store,
    policy: &JobPolicy,
    tenant: &str,
    bytes: u64,
) -> Result<Option<ApiError>, StoreError> {
    let (all, own) = (of(store, EVERYBODY)?, of(store, tenant)?);
    let full = |usage: Usage, max: usize| usage.queued >= u64::try_from(max).unwrap_or(u64::MAX);
    let over = |usage: Usage, max: u64| usage.bytes.saturating_add(bytes) > max;
    let (code, message, hint) = if full(own, policy.tenant_queue_max) {
        let message = format!("{} jobs of this tenant wait already", own.queued);
        ("tenant_queue_saturated", message, "wait for some to begin, or cancel them")
    } else if full(all, policy.queue_max) {
        let message = format!("{} jobs wait here already", all.queued);
        ("queue_saturated", message, "try again when some have begun")
    } else if over(own, policy.tenant_bytes_max) {
        let message = format!("{} bytes are kept for this tenant's {} jobs", own.bytes, own.jobs);
        ("tenant_storage_quota", message, "jobs that have ended are forgotten in time; ask for smaller ones")
    } else if over(all, policy.bytes_max) {
        let message = format!("{} bytes are kept for {} jobs here", all.bytes, all.jobs);
        ("storage_capacity", message, "jobs that have ended are forgotten in time")
    } else {
        return Ok(None);
    };
    Ok(Some(ApiError::new(ErrorKind::Busy, code, message).hint(hint)))
}

fn change(turn: &mut Turn<'_, '_>, tenant: &str, change: impl Fn(Usage) -> Usage) -> Result<(), StoreError> {
    for whose in [EVERYBODY, tenant] {
        let usage = change(of(turn.tx, whose)?);
        if usage == Usage::default() {
            turn.tx.delete::<Usage>(&whose.to_owned());
        } else {
            turn.tx.put(&whose.to_owned(), &usage);
        }
    }
    Ok(())
}

/// A job was accepted.
pub(crate) fn accepted(turn: &mut Turn<'_, '_>, tenant: &str, bytes: u64) -> Result<(), StoreError> {
    change(turn, tenant, |usage| Usage {
        queued: usage.queued.saturating_add(1),
        jobs: usage.jobs.saturating_add(1),
        bytes: usage.bytes.saturating_add(bytes),
    })
}

/// A job waits no longer: it began, or it ended.
pub(crate) fn begun(turn: &mut Turn<'_, '_>, tenant: &str) -> Result<(), StoreError> {
    change(turn, tenant, |usage| Usage { queued: usage.queued.saturating_sub(1), ..usage })
}

/// A job waits again.
pub(crate) fn requeued(turn: &mut Turn<'_, '_>, tenant: &str) -> Result<(), StoreError> {
    change(turn, tenant, |usage| Usage { queued: usage.queued.saturating_add(1), ..usage })
}

/// A job's charge is another.
pub(crate) fn recharged(
    turn: &mut Turn<'_, '_>,
    tenant: &str,
    (before, now): (u64, u64),
) -> Result<(), StoreError> {
    change(turn, tenant, |usage| Usage {
        bytes: usage.bytes.saturating_sub(before).saturating_add(now),
        ..usage
    })
}

/// A job was forgotten.
pub(crate) fn forgotten(turn: &mut Turn<'_, '_>, tenant: &str, bytes: u64) -> Result<(), StoreError> {
    change(turn, tenant, |usage| Usage {
        jobs: usage.jobs.saturating_sub(1),
        bytes: usage.bytes.saturating_sub(bytes),
        ..usage
    })
}

//! Stream tickets: what a program that cannot send headers, such as a web page, opens a stream with.
//!
//! A ticket is for one job, good once and for [`TICKET_SECONDS`], and may what the key it was made with may. It is shown
//! once and kept as a digest.
//!
//! Invariant: a ticket that was shown for another job than its own is still good for its own.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mesh_protocol::id::JobId;

use super::failure::Refusal;
use super::keys::Tenancy;
use super::limits::{TENANT_TICKETS_MAX, TICKET_SECONDS, TICKETS_MAX};
use crate::api::tokens::{Fingerprint, Token, fingerprint};

/// The tickets that are out.
#[derive(Default)]
pub(super) struct Tickets(Mutex<HashMap<Fingerprint, Ticket>>);

struct Ticket {
    job: JobId,
    tenancy: Tenancy,
    ends: Instant,
}

impl Tickets {
    /// A new one.
    pub(super) fn issue(&self, tenancy: Tenancy, job: JobId, now: Instant) -> Result<Token, Refusal> {
        let token = Token::random().map_err(|_| Refusal::internal())?;
        let mut tickets = self.tickets();
        tickets.retain(|_, ticket| ticket.ends > now);
        let own = tickets.values().filter(|ticket| ticket.tenancy.tenant == tenancy.tenant).count();
        if own >= TENANT_TICKETS_MAX {
            return Err(Refusal::too_many("tenant_stream_capacity", "this tenant has too many tickets out"));
        }
        if tickets.len() >= TICKETS_MAX {
            return Err(Refusal::unavailable("stream_capacity", "too many tickets are out"));
        }
        let ends = now + Duration::from_secs(TICKET_SECONDS);
        tickets.insert(fingerprint(token.expose()), Ticket { job, tenancy, ends });
        Ok(token)
    }

    /// Whose ticket this is, if it is good for this job. Then it is used up.
    pub(super) fn redeem(&self, text: &str, job: JobId, now: Instant) -> Option<Tenancy> {
        let mut tickets = self.tickets();
        let given = fingerprint(text);
        tickets.get(&given).filter(|ticket| ticket.job == job)?;
        tickets.remove(&given).filter(|ticket| ticket.ends > now).map(|ticket| ticket.tenancy)
    }

    /// The table is whole between any two statements, so a panic elsewhere has not broken it.
    fn tickets(&self) -> MutexGuard<'_, HashMap<Fingerprint, Ticket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Principal;

    fn tenancy() -> Tenancy {
        let name = "acme".to_owned();
        Tenancy {
            tenant: name.clone(),
            principal_id: name.clone(),
            credential_id: name.clone(),
            method: "api_key",
            scopes: Vec::new(),
            expires_at_ms: None,
            rated: true,
            who: Principal::Tenant { tenant: name.clone(), principal: name },
        }
    }

    #[test]
    fn a_ticket_works_once_for_its_job_and_for_half_a_minute() {
        let (tickets, now) = (Tickets::default(), Instant::now());
        let (job, other) = (JobId::from_bytes([1; 16]), JobId::from_bytes([2; 16]));
        let late = now + Duration::from_secs(TICKET_SECONDS);
        let issue = || tickets.issue(tenancy(), job, now).map(|token| token.expose().to_owned()).ok();
        let ticket = issue();
        let ticket = ticket.as_deref().unwrap_or_default();
        assert_eq!(tickets.redeem(ticket, other, now), None);
        assert_eq!(tickets.redeem(ticket, job, now), Some(tenancy()), "another's path did not use it up");
        assert_eq!(tickets.redeem(ticket, job, now), None);
        let second = issue();
        assert_eq!(tickets.redeem(second.as_deref().unwrap_or_default(), job, late), None);
    }

    #[test]
    fn a_tenant_has_no_more_tickets_out_than_it_may_until_old_ones_end() {
        let (tickets, now) = (Tickets::default(), Instant::now());
        let job = JobId::from_bytes([1; 16]);
        let issued =
            |at| (0..=TENANT_TICKETS_MAX).take_while(|_| tickets.issue(tenancy(), job, at).is_ok()).count();
        assert_eq!(issued(now), TENANT_TICKETS_MAX);
        assert_eq!(issued(now + Duration::from_secs(TICKET_SECONDS)), TENANT_TICKETS_MAX);
    }
}

//! Room for something costly, for all tenants together and for each: who asks gets a place or an answer at once.
//!
//! Invariant: a place is given back when its [`Place`] is dropped, whatever happens to the request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::failure::Refusal;
use super::limits::Share;

/// Room for one kind of thing.
pub(super) struct Room {
    /// What a refusal is called; a tenant's own begins with `tenant_`.
    code: &'static str,
    share: Share,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    /// Only tenants that have some.
    each: HashMap<String, usize>,
}

/// A place in a room.
pub(super) struct Place {
    room: Arc<Room>,
    tenant: String,
}

impl Room {
    pub(super) fn new(code: &'static str, share: Share) -> Arc<Self> {
        Arc::new(Self { code, share, taken: Mutex::default() })
    }

    /// A place, or why there is none: the tenant's own share is looked at first, since that is what it can change.
    pub(super) fn take(self: &Arc<Self>, tenant: &str) -> Result<Place, Refusal> {
        let mut taken = self.taken();
        let own = taken.each.get(tenant).copied().unwrap_or(0);
        if own >= self.share.each {
            return Err(Refusal::too_many(
                format!("tenant_{}", self.code),
                "this tenant has no more room here now",
            ));
        }
        if taken.all >= self.share.all {
            return Err(Refusal::unavailable(self.code, "there is no more room for this now"));
        }
        taken.all = taken.all.saturating_add(1);
        taken.each.insert(tenant.to_owned(), own.saturating_add(1));
        drop(taken);
        Ok(Place { room: Arc::clone(self), tenant: tenant.to_owned() })
    }

    pub(super) const fn code(&self) -> &'static str {
        self.code
    }

    pub(super) fn taken_by_all(&self) -> usize {
        self.taken().all
    }

    pub(super) fn taken_by(&self, tenant: &str) -> usize {
        self.taken().each.get(tenant).copied().unwrap_or(0)
    }

    /// The table is whole between any two statements, so a panic elsewhere has not broken it.
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        taken.all = taken.all.saturating_sub(1);
        let left = taken.each.get(&self.tenant).copied().unwrap_or(0).saturating_sub(1);
        if left == 0 {
            taken.each.remove(&self.tenant);
        } else if let Some(own) = taken.each.get_mut(&self.tenant) {
            *own = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_its_share_and_all_have_theirs_and_places_come_back() {
        let room = Room::new("capacity", Share { all: 3, each: 2 });
        let code = |taken: Result<Place, Refusal>| {
            taken.err().map(|refusal| (refusal.status.as_u16(), refusal.code))
        };
        let (first, _second) = (room.take("a").ok(), room.take("a").ok());
        assert_eq!(code(room.take("a")), Some((429, "tenant_capacity".to_owned())));
        let _third = room.take("b").ok();
        assert_eq!(code(room.take("b")), Some((503, "capacity".to_owned())));
        drop(first);
        assert_eq!(code(room.take("b")), None);
    }
}

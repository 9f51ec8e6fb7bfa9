//! Letting nodes in: which tickets are out, who used them, which certificates were issued.
//!
//! ```text
//!                issue                    redeem by N            its time over
//!   (no row) ──────────> outstanding ──────────────────> used by N ──────────> (no row)
//!                             │ withdraw, or its time over                        ^
//!                             └───────────────────────────────────────────────────┘
//! ```
//! A ticket is marked used in the same commit that stores the certificate it bought, and the reply is sent after that
//! commit. So the same node may ask again after a crash at either end and gets the same certificate, and nobody else
//! ever gets one for that ticket. That is exact, not likely, because a ticket belongs to one issuer's database.
//!
//! Not here: the proof, which is checked before ([`mesh_protocol::join`]), and signing.
//!
//! Expiry is by the issuer's wall clock, the one date that two machines have to agree on.

use mesh_protocol::id::{NodeId, TicketId};
use mesh_protocol::join::JoinRefusal;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::store::{Overlay, Record, Store, StoreError, Table, scan_prefix};
use crate::time::Now;

/// Tickets whose time is not over, at most: more than anyone hands out at once.
pub const TICKETS_MAX: usize = 64;
/// The longest time a ticket may be good for: 30 days.
pub const TICKET_LIFE_MS_MAX: u64 = 30 * 24 * 3_600 * 1_000;
/// How long the node that used a ticket may repeat its request: a crash and a restart at either end fit in.
pub const REPEAT_MS: u64 = 10 * 60 * 1_000;

/// A ticket this node issued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedTicket {
    /// When, for people.
    pub issued_wall_ms: u64,
    /// Until when it may be used first.
    pub expires_wall_ms: u64,
    /// Who used it.
    pub used: Option<Use>,
}

/// The use of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// By whom.
    pub node: NodeId,
    /// When first.
    pub at_wall_ms: u64,
}

impl Record for IssuedTicket {
    const TABLE: Table = Table::Tickets;
    type Key = TicketId;
}

impl IssuedTicket {
    /// Until when somebody may come with it.
    #[must_use]
    pub fn open_until_wall_ms(&self) -> u64 {
        self.used.map_or(self.expires_wall_ms, |used| used.at_wall_ms.saturating_add(REPEAT_MS))
    }
}

/// The certificate a node has from here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedCertificate {
    /// DER.
    #[serde(with = "serde_bytes")]
    pub leaf: Vec<u8>,
    /// When, for people.
    pub issued_wall_ms: u64,
    /// For which ticket; `None` for the founder's own.
    pub ticket: Option<TicketId>,
}

impl Record for IssuedCertificate {
    const TABLE: Table = Table::Certificates;
    type Key = NodeId;
}

/// Why no ticket was issued. Nothing was written.
#[derive(Debug, Error)]
pub enum IssueError {
    /// Too many are out.
    #[error("{TICKETS_MAX} tickets are out already")]
    TooMany,
    /// A time outside the bounds.
    #[error("a ticket is good for at least a second and at most 30 days")]
    Life,
    /// The id is taken.
    #[error("a ticket with this id is out already")]
    Taken,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Notes a new ticket, and forgets those whose time is over. Returns its expiry, which goes into the line.
///
/// # Errors
/// [`IssueError`].
pub fn issue(tx: &mut Overlay<'_>, now: Now, id: TicketId, life_ms: u64) -> Result<u64, IssueError> {
    if !(1_000..=TICKET_LIFE_MS_MAX).contains(&life_ms) {
        return Err(IssueError::Life);
    }
    if forget_old(tx, now)? >= TICKETS_MAX {
        return Err(IssueError::TooMany);
    }
    if tx.get_record::<IssuedTicket>(&id)?.is_some() {
        return Err(IssueError::Taken);
    }
    let expires_wall_ms = now.wall_ms.saturating_add(life_ms);
    tx.put(&id, &IssuedTicket { issued_wall_ms: now.wall_ms, expires_wall_ms, used: None });
    Ok(expires_wall_ms)
}

/// Takes an unused ticket back; returns whether there was one. Who used it already stays a member.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn withdraw(tx: &mut Overlay<'_>, id: TicketId) -> Result<bool, StoreError> {
    let unused = tx.get_record::<IssuedTicket>(&id)?.is_some_and(|ticket| ticket.used.is_none());
    if unused {
        tx.delete::<IssuedTicket>(&id);
    }
    Ok(unused)
}

/// A node that proved to hold a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedeemRequest {
    /// Which ticket.
    pub ticket: TicketId,
    /// The expiry that the proof covered.
    pub expires_wall_ms: u64,
    /// Who, by its TLS key.
    pub node: NodeId,
    /// The certificate it gets if this is the first time.
    pub leaf: Vec<u8>,
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redemption {
    /// It is a member, once this is committed.
    Admitted {
        /// Its certificate: the same again for the same ticket.
        leaf: Vec<u8>,
        /// Whether this ticket had let it in before.
        repeated: bool,
    },
    /// It is not.
    Refused(JoinRefusal),
}

/// Decides about the holder of a ticket. The proof was checked before; the reply goes out after the commit.
///
/// # Errors
/// [`StoreError`] when the store fails; nobody was let in.
pub fn redeem(tx: &mut Overlay<'_>, now: Now, request: RedeemRequest) -> Result<Redemption, StoreError> {
    let refused = |refusal| Ok(Redemption::Refused(refusal));
    let Some(ticket) = tx.get_record::<IssuedTicket>(&request.ticket)? else {
        return refused(JoinRefusal::Unknown);
    };
    if ticket.expires_wall_ms != request.expires_wall_ms {
        return refused(JoinRefusal::Unknown);
    }
    match ticket.used {
        Some(used) if used.node != request.node => refused(JoinRefusal::UsedByOther),
        _ if now.wall_ms > ticket.open_until_wall_ms() => refused(JoinRefusal::Expired),
        Some(_) => match tx.get_record::<IssuedCertificate>(&request.node)? {
            Some(issued) => Ok(Redemption::Admitted { leaf: issued.leaf, repeated: true }),
            None => refused(JoinRefusal::Unknown),
        },
        None => {
            let RedeemRequest { ticket: id, node, leaf, .. } = request;
            let used = Some(Use { node, at_wall_ms: now.wall_ms });
            tx.put(&id, &IssuedTicket { used, ..ticket });
            let issued =
                IssuedCertificate { leaf: leaf.clone(), issued_wall_ms: now.wall_ms, ticket: Some(id) };
            tx.put(&node, &issued);
            Ok(Redemption::Admitted { leaf, repeated: false })
        }
    }
}

/// Until when the join listener has to be open, by the wall clock; `None` when nobody may come.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn open_until(store: &dyn Store, now: Now) -> Result<Option<u64>, StoreError> {
    let tickets = scan_prefix::<IssuedTicket>(store, &(), TICKETS_MAX)?;
    let times = tickets.iter().map(|(_, ticket)| ticket.open_until_wall_ms());
    Ok(times.max().filter(|until| *until >= now.wall_ms))
}

/// Removes the tickets whose time is over; returns how many are left.
fn forget_old(tx: &mut Overlay<'_>, now: Now) -> Result<usize, StoreError> {
    let tickets = scan_prefix::<IssuedTicket>(tx, &(), TICKETS_MAX)?;
    let over = |ticket: &IssuedTicket| now.wall_ms > ticket.open_until_wall_ms();
    let (old, left): (Vec<_>, Vec<_>) = tickets.into_iter().partition(|(_, ticket)| over(ticket));
    for (id, _) in old {
        tx.delete::<IssuedTicket>(&id);
    }
    Ok(left.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OrderedStore;
    use crate::time::NodeTime;
    use proptest::prelude::*;

    const HOUR: u64 = 3_600_000;

    fn at(wall_ms: u64) -> Now {
        Now { node: NodeTime(0), wall_ms }
    }

    fn id(seed: u8) -> TicketId {
        TicketId::from_bytes([seed; 16])
    }

    fn node(seed: u8) -> NodeId {
        NodeId::from_bytes([seed; 32])
    }

    /// Runs one event and commits it.
    fn run<T>(store: &mut OrderedStore, event: impl FnOnce(&mut Overlay<'_>) -> T) -> T {
        let mut tx = Overlay::new(store);
        let outcome = event(&mut tx);
        let changes = tx.into_changes();
        store.apply(changes);
        outcome
    }

    fn ask(store: &mut OrderedStore, now: u64, ticket: u8, who: u8, expires: u64, leaf: &[u8]) -> Redemption {
        let request = RedeemRequest {
            ticket: id(ticket),
            expires_wall_ms: expires,
            node: node(who),
            leaf: leaf.to_vec(),
        };
        run(store, |tx| redeem(tx, at(now), request)).unwrap()
    }

    fn admitted(leaf: &[u8], repeated: bool) -> Redemption {
        Redemption::Admitted { leaf: leaf.to_vec(), repeated }
    }

    fn with_ticket() -> OrderedStore {
        let mut store = OrderedStore::default();
        let expires = run(&mut store, |tx| issue(tx, at(0), id(1), HOUR)).unwrap();
        assert_eq!(expires, HOUR);
        store
    }

    #[test]
    fn a_ticket_lets_one_node_in_and_that_node_again_with_the_same_certificate() {
        let mut store = with_ticket();
        assert_eq!(ask(&mut store, 5, 1, 7, HOUR, b"first"), admitted(b"first", false));
        assert_eq!(ask(&mut store, 6, 1, 7, HOUR, b"second"), admitted(b"first", true));
        assert_eq!(ask(&mut store, 7, 1, 8, HOUR, b"other"), Redemption::Refused(JoinRefusal::UsedByOther));
    }

    #[test]
    fn a_ticket_ends_by_the_issuers_clock_and_its_user_may_repeat_a_little_longer() {
        let mut store = with_ticket();
        assert_eq!(ask(&mut store, HOUR + 1, 1, 7, HOUR, b""), Redemption::Refused(JoinRefusal::Expired));
        assert_eq!(ask(&mut store, HOUR, 1, 7, HOUR, b"leaf"), admitted(b"leaf", false));
        assert_eq!(ask(&mut store, HOUR + REPEAT_MS, 1, 7, HOUR, b""), admitted(b"leaf", true));
        let late = ask(&mut store, HOUR + REPEAT_MS + 1, 1, 7, HOUR, b"");
        assert_eq!(late, Redemption::Refused(JoinRefusal::Expired));
    }

    #[test]
    fn an_unknown_a_withdrawn_or_an_altered_ticket_lets_nobody_in() {
        let mut store = with_ticket();
        assert_eq!(ask(&mut store, 1, 2, 7, HOUR, b""), Redemption::Refused(JoinRefusal::Unknown));
        assert_eq!(ask(&mut store, 1, 1, 7, HOUR + 1, b""), Redemption::Refused(JoinRefusal::Unknown));
        assert!(run(&mut store, |tx| withdraw(tx, id(1))).unwrap());
        assert_eq!(ask(&mut store, 1, 1, 7, HOUR, b""), Redemption::Refused(JoinRefusal::Unknown));
        assert!(!run(&mut store, |tx| withdraw(tx, id(1))).unwrap());
    }

    #[test]
    fn the_listener_is_open_exactly_while_somebody_may_come() {
        let mut store = OrderedStore::default();
        assert_eq!(open_until(&store, at(0)).unwrap(), None);
        run(&mut store, |tx| issue(tx, at(0), id(1), HOUR)).unwrap();
        assert_eq!(open_until(&store, at(HOUR)).unwrap(), Some(HOUR));
        assert_eq!(open_until(&store, at(HOUR + 1)).unwrap(), None);
        ask(&mut store, 5, 1, 7, HOUR, b"leaf");
        assert_eq!(open_until(&store, at(5)).unwrap(), Some(5 + REPEAT_MS));
        assert_eq!(open_until(&store, at(6 + REPEAT_MS)).unwrap(), None);
    }

    #[test]
    fn tickets_are_bounded_and_old_ones_make_room() {
        let mut store = OrderedStore::default();
        for seed in 0..u8::try_from(TICKETS_MAX).unwrap() {
            run(&mut store, |tx| issue(tx, at(0), id(seed), HOUR)).unwrap();
        }
        assert!(matches!(run(&mut store, |tx| issue(tx, at(1), id(200), HOUR)), Err(IssueError::TooMany)));
        run(&mut store, |tx| issue(tx, at(HOUR + 1), id(200), HOUR)).unwrap();
        assert_eq!(scan_prefix::<IssuedTicket>(&store, &(), 100).unwrap().len(), 1);
        assert!(matches!(run(&mut store, |tx| issue(tx, at(HOUR), id(200), HOUR)), Err(IssueError::Taken)));
        assert!(matches!(run(&mut store, |tx| issue(tx, at(0), id(1), 10)), Err(IssueError::Life)));
        let long = TICKET_LIFE_MS_MAX + 1;
        assert!(matches!(run(&mut store, |tx| issue(tx, at(0), id(1), long)), Err(IssueError::Life)));
    }

    proptest! {
        /// Whatever the order of requests and lost replies: one ticket, one node, one certificate.
        #[test]
        fn no_order_of_requests_lets_two_nodes_in(asks in proptest::collection::vec((0_u8..4, 0_u64..2 * HOUR), 1..40)) {
            let mut store = with_ticket();
            let mut let_in = std::collections::BTreeMap::new();
            for (turn, (who, now)) in asks.into_iter().enumerate() {
                let leaf = format!("leaf {turn}");
                if let Redemption::Admitted { leaf, .. } = ask(&mut store, now, 1, who, HOUR, leaf.as_bytes()) {
                    prop_assert_eq!(let_in.entry(who).or_insert_with(|| leaf.clone()), &leaf);
                }
            }
            prop_assert!(let_in.len() <= 1, "{let_in:?}");
        }
    }
}

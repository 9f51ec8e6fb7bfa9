//! Forgetting in time: messages that were applied long ago, and acknowledged parcels kept for peers that are idle.

use mesh_protocol::id::NodeId;

use super::head::{Head, Outbox};
use super::inbox::{Inbox, Seen, SeenAt};
use crate::limits;
use crate::store::{Overlay, StoreError, get, scan_prefix};
use crate::time::Now;

/// Forgets what may be forgotten by now, looking at about `limit` rows. Returns how many rows it looked at: when that
/// is `limit` or more there may be more to do.
///
/// A message is forgotten when it was applied [`limits::SEEN_MS`] ago *and* its sender knows that it was.
///
/// # Errors
/// [`StoreError`] when the state could not be read.
pub fn collect_garbage(tx: &mut Overlay<'_>, now: Now, limit: usize) -> Result<usize, StoreError> {
    let looked_at = forget_seen(tx, now, limit)?;
    let peers: Vec<NodeId> = scan_prefix::<Head>(tx, &(), usize::MAX)?
        .into_iter()
        .filter(|(_, head)| !head.retained.is_empty())
        .map(|(peer, _)| peer)
        .collect();
    let mut dropped = 0_u64;
    for peer in peers {
        let Some(mut outbox) = Outbox::load(tx, peer)? else { continue };
        let here = outbox.drop_expired(now)?;
        if here > 0 {
            dropped = dropped.saturating_add(here);
            outbox.save();
        }
    }
    Ok(looked_at.saturating_add(usize::try_from(dropped).unwrap_or(usize::MAX)))
}

fn forget_seen(tx: &mut Overlay<'_>, now: Now, limit: usize) -> Result<usize, StoreError> {
    let rows = scan_prefix::<SeenAt>(tx, &(), limit)?;
    let old = rows.into_iter().take_while(|((at, ..), _)| now.node >= at.plus_ms(limits::SEEN_MS));
    let mut looked_at = 0_usize;
    for (key @ (_, peer, message), _) in old {
        looked_at = looked_at.saturating_add(1);
        tx.delete::<SeenAt>(&key);
        let Some(seen) = get::<Seen>(tx, &(peer, message))? else { continue };
        let Some(mut inbox) = get::<Inbox>(tx, &peer)? else { continue };
        if inbox.is_settled(&seen) {
            inbox.seen = inbox.seen.saturating_sub(1);
            tx.put(&peer, &inbox);
            tx.delete::<Seen>(&(peer, message));
        } else {
            // Looked at again after as long: its sender has not been here since.
            tx.put(&(now.node, peer, message), &SeenAt);
        }
    }
    Ok(looked_at)
}

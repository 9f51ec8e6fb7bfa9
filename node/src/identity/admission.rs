//! Who of the mesh's members is let in right now: the revocation list in force and this node's own blocks.
//!
//! The table is in memory and shared by every verifier and every live connection. A change is applied here first and
//! stored afterwards, so a revoked node is out at once: new handshakes see the new table, and every live connection
//! is woken to look again. The revocation list itself is checked by its own signature before it gets here.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use mesh_protocol::id::NodeId;
use mesh_protocol::revocation::RevocationList;
use thiserror::Error;
use tokio::sync::watch;

/// Why a member is not let in.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exclusion {
    /// The mesh shut it out.
    #[error("the node is revoked")]
    Revoked,
    /// This node's operator did.
    #[error("the node is blocked here")]
    Blocked,
}

/// The live table. One a node; shared by reference counting.
#[derive(Debug)]
pub struct Admission {
    table: Mutex<Table>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Table {
    revoked: BTreeSet<NodeId>,
    blocked: BTreeSet<NodeId>,
}

impl Default for Admission {
    fn default() -> Self {
        Self { table: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

impl Admission {
    /// Puts a revocation list in force, in place of the one before. Live connections of who it names are closed.
    pub fn apply(&self, list: &RevocationList) {
        let revoked = list.entries().iter().map(|entry| entry.node).collect();
        self.change(|table| table.revoked = revoked);
    }

    /// Shuts a node out of this node alone, until [`Self::unblock`].
    pub fn block(&self, node: NodeId) {
        self.change(|table| {
            table.blocked.insert(node);
        });
    }

    /// Lets a blocked node in again.
    pub fn unblock(&self, node: NodeId) {
        self.change(|table| {
            table.blocked.remove(&node);
        });
    }

    /// Whether a member is let in.
    ///
    /// # Errors
    /// [`Exclusion`] when it is not; revoked comes before blocked.
    pub fn check(&self, node: NodeId) -> Result<(), Exclusion> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.revoked.contains(&node) {
            Err(Exclusion::Revoked)
        } else if table.blocked.contains(&node) {
            Err(Exclusion::Blocked)
        } else {
            Ok(())
        }
    }

    /// Wakes at every change. Subscribe first and check then, and no change is missed.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn change(&self, edit: impl FnOnce(&mut Table)) {
        edit(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_modify(|generation| *generation = generation.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::MeshRoot;
    use mesh_protocol::revocation::Revocation;

    fn node(seed: u8) -> NodeId {
        NodeId::from_bytes([seed; 32])
    }

    fn list(root: &MeshRoot, ver: u64, nodes: &[u8]) -> RevocationList {
        let entry = |seed: &u8| Revocation { node: node(*seed), reason: String::new(), at_wall_ms: 0 };
        root.revoke(ver, nodes.iter().map(entry).collect()).unwrap()
    }

    #[test]
    fn a_list_replaces_the_one_before_and_leaves_blocks_alone() {
        let root = MeshRoot::from_seed(&[1; 32], 0).unwrap();
        let admission = Admission::default();
        admission.block(node(3));
        admission.apply(&list(&root, 1, &[1, 3]));
        assert_eq!(admission.check(node(1)), Err(Exclusion::Revoked));
        assert_eq!(admission.check(node(3)), Err(Exclusion::Revoked));
        admission.apply(&list(&root, 2, &[2]));
        assert_eq!(admission.check(node(1)), Ok(()));
        assert_eq!(admission.check(node(3)), Err(Exclusion::Blocked));
        admission.unblock(node(3));
        assert_eq!(admission.check(node(3)), Ok(()));
    }

    #[test]
    fn every_change_wakes_who_subscribed_before_it() {
        let admission = Admission::default();
        let mut changes = admission.subscribe();
        assert!(!changes.has_changed().unwrap());
        admission.block(node(1));
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        admission.unblock(node(1));
        assert!(changes.has_changed().unwrap());
    }
}

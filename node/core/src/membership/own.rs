//! This node's own record: when it changes, when it refutes, and when an epoch was not ours alone.

use mesh_protocol::id::NodeId;
use mesh_protocol::record::{
    Advertisement, Lifecycle, NodeRecord, RecordVersion, SignedRecord, VerifiedRecord,
};

use super::timing::{PUBLISH_EVERY_MS, RAISE_EVERY_MS};
use super::{Membership, Output, Turn};
use crate::directory::{Entry, Taken};
use crate::time::NodeTime;

/// What this node says about itself, and in which version.
#[derive(Debug)]
pub(super) struct Own {
    advertisement: Option<Advertisement>,
    lifecycle: Lifecycle,
    version: RecordVersion,
    changed: bool,
    last_published: Option<NodeTime>,
    last_raised: Option<NodeTime>,
}

impl Own {
    pub(super) const fn new(epoch: u64) -> Self {
        Self {
            advertisement: None,
            lifecycle: Lifecycle::Up,
            version: RecordVersion { epoch, ver: 0 },
            changed: false,
            last_published: None,
            last_raised: None,
        }
    }

    pub(super) fn advertise(&mut self, advertisement: Advertisement) {
        self.advertisement = Some(advertisement);
    }

    /// When a change that waits is published.
    pub(super) fn due(&self) -> Option<NodeTime> {
        let free = self.last_published.map_or(NodeTime(0), |at| at.plus_ms(PUBLISH_EVERY_MS));
        self.changed.then_some(free)
    }
}

impl Membership {
    /// The version of our record that others can have: the newest signed one.
    pub(super) fn own_version(&self) -> RecordVersion {
        self.directory.version(&self.identity.node).unwrap_or(self.own.version)
    }

    pub(super) fn handle_advertise(&mut self, turn: &mut Turn<'_>, advertisement: Advertisement) {
        if self.own.advertisement.as_ref() != Some(&advertisement) {
            self.own.advertise(advertisement);
            self.own.changed = true;
            self.publish_when_due(turn);
        }
    }

    pub(super) fn handle_announce(&mut self, turn: &mut Turn<'_>, lifecycle: Lifecycle) {
        if self.own.lifecycle != lifecycle {
            self.own.lifecycle = lifecycle;
            self.publish(turn);
        }
    }

    /// Our record is signed: everybody linked is shown its version and will fetch it.
    pub(super) fn handle_signed(&mut self, turn: &mut Turn<'_>, record: SignedRecord) {
        let ours = self.identity.node;
        let Ok(verified) = record.verify(&self.identity.root) else { return };
        if verified.record().node != ours
            || !matches!(self.directory.take(verified.clone()), Taken::New | Taken::Newer)
        {
            return;
        }
        turn.put(Output::Store(verified));
        let linked: Vec<NodeId> = self.peers.linked().map(|(node, _)| *node).collect();
        for node in linked {
            self.send_ping(turn, node);
        }
    }

    pub(super) fn handle_epoch_raised(&mut self, turn: &mut Turn<'_>, epoch: u64) {
        if epoch > self.own.version.epoch {
            self.own.version = RecordVersion { epoch, ver: 0 };
            self.publish(turn);
        }
    }

    /// Somebody accuses us of silence. Any other version than the present one is old or made up.
    pub(super) fn refute(&mut self, turn: &mut Turn<'_>, accused: RecordVersion) {
        if accused == self.own_version() {
            self.worsen_health();
            self.own.changed = true;
            self.publish_when_due(turn);
        }
    }

    /// A record of ours that we did not make: an earlier life of this node went further than its disk remembers, or
    /// another machine runs with its identity. Overtake it.
    pub(super) fn hear_own(&mut self, turn: &mut Turn<'_>, heard: &VerifiedRecord) {
        let held = self.directory.get(&self.identity.node).map(Entry::signed);
        let waits = |at: NodeTime| turn.now.node.since(at) < RAISE_EVERY_MS;
        let version = heard.record().version;
        if version < self.own.version
            || held == Some(heard.signed())
            || self.own.last_raised.is_some_and(waits)
        {
            return;
        }
        self.own.last_raised = Some(turn.now.node);
        turn.put(Output::RaiseEpoch(version.epoch.saturating_add(1)));
    }

    pub(super) fn publish_when_due(&mut self, turn: &mut Turn<'_>) {
        if self.own.due().is_some_and(|due| due <= turn.now.node) {
            self.publish(turn);
        }
    }

    pub(super) fn publish(&mut self, turn: &mut Turn<'_>) {
        let Some(advertisement) = self.own.advertisement.clone() else { return };
        self.own.changed = false;
        self.own.last_published = Some(turn.now.node);
        self.own.version.ver = self.own.version.ver.saturating_add(1);
        turn.put(Output::Sign(Box::new(NodeRecord {
            mesh: self.identity.root.mesh(),
            node: self.identity.node,
            certificate: self.identity.certificate.clone(),
            version: self.own.version,
            lifecycle: self.own.lifecycle,
            advertisement,
            wall_ms: turn.now.wall_ms,
        })));
    }
}

//! The task that feeds membership and links, and performs what they put out.
//!
//! It decides nothing itself. Everything that takes time (a dial, an exchange, a question) runs in a task of its own
//! and comes back as an event.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use mesh_node_core::links::{self, ConnectionKey, Links, Path, Upgrades};
use mesh_node_core::membership::{self, Identity, Input};
use mesh_protocol::close::CloseCode;
use mesh_protocol::id::NodeId;
use mesh_protocol::record::NodeRecord;
use mesh_protocol::revocation::RevocationList;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};

use super::{Event, Shared, connection, dial, exchange, question, relay};
use crate::identity::NodeKey;
use crate::randomness::Randomness;
use crate::transport::{Connection, Purpose};

/// The driver of one node.
pub(super) struct Driver {
    shared: Arc<Shared>,
    key: NodeKey,
    links: Links,
    upgrades: Upgrades,
    rng: StdRng,
    dials: BTreeMap<(NodeId, u64), AbortHandle>,
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        identity: &Identity,
        key: NodeKey,
        randomness: Randomness,
    ) -> Self {
        let links = Links::new(identity.node, identity.epoch);
        let upgrades = Upgrades::default();
        let rng = randomness.stream("membership");
        Self { shared, key, links, upgrades, rng, dials: BTreeMap::new() }
    }

    /// Takes what this node knew when it stopped: who is a member is known from here on.
    pub(super) fn begin(&mut self, start: Input) {
        self.membership(start);
    }

    /// Runs until the farewell.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Event>) {
        let accepting = [
            tokio::spawn(accept(Arc::clone(&self.shared))),
            tokio::spawn(accept_relayed(Arc::clone(&self.shared))),
        ];
        let farewell = loop {
            let wake = self.shared.membership().next_wake();
            let wake = self.upgrades.next_due().map_or(wake, |due| due.min(wake));
            let sleep = Duration::from_millis(wake.since(self.shared.clock.now().node));
            tokio::select! {
                biased;
                event = inbox.recv() => match event {
                    Some(Event::Farewell(done)) => break Some(done),
                    Some(event) => self.handle(event),
                    None => break None,
                },
                () = tokio::time::sleep(sleep) => {
                    self.membership(Input::Wake);
                    self.improve();
                }
            }
        };
        accepting.iter().for_each(JoinHandle::abort);
        self.close_all(farewell);
    }

    fn close_all(&mut self, farewell: Option<oneshot::Sender<()>>) {
        self.dials.values().for_each(AbortHandle::abort);
        for connection in self.shared.connections().values() {
            connection.close(CloseCode::Leaving, "");
        }
        if let Some(done) = farewell {
            // Whoever said farewell may have given up waiting.
            let _ = done.send(());
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrived(connection) => {
                let (peer, key, boot) = (connection.peer(), connection.key(), connection.boot());
                let ours = key.dialler == self.shared.me;
                // Numbers of inbound connections are the peer's, and so are the ports they come from.
                if ours {
                    self.dials.remove(&(peer, key.number));
                }
                let address = match connection.path() {
                    Path::Direct(address) if ours => Some(address),
                    Path::Direct(_) | Path::Relayed { .. } => None,
                };
                let outputs = self.links.handle(links::Input::Established { peer, key, boot, address });
                let refused =
                    outputs.iter().any(|o| matches!(o, links::Output::Refuse { key: k, .. } if *k == key));
                // A refused one may have the name of one that is kept.
                if refused {
                    connection.close(CloseCode::Superseded, "");
                } else {
                    self.shared.connections().insert((peer, key), connection.clone());
                }
                self.links(outputs);
                if !refused {
                    connection::serve(Arc::clone(&self.shared), connection);
                }
            }
            Event::DialFailed(peer, number, failure) => {
                self.dials.remove(&(peer, number));
                self.not_improved(peer, failure.kind);
                let outputs = self.links.handle(links::Input::DialFailed { peer, number, failure });
                self.links(outputs);
            }
            Event::Ended(peer, key, cause) => {
                let ended = self.shared.connections().remove(&(peer, key));
                if let Some(link) = ended.filter(|_| self.links.current(&peer) == Some(key)) {
                    self.shared.note(peer, Some(link.path()), &format!("the link ended: {cause}"));
                }
                let outputs = self.links.handle(links::Input::Ended { peer, key, cause });
                self.links(outputs);
            }
            Event::Membership(input) => self.membership(input),
            Event::NewerRevocations(list) => self.revoke(list),
            Event::Farewell(_) => {}
        }
    }

    fn membership(&mut self, input: Input) {
        let now = self.shared.clock.now();
        let outputs = self.shared.membership().handle(now, &mut self.rng, input);
        self.perform(outputs);
    }

    fn perform(&mut self, outputs: Vec<membership::Output>) {
        let (mut put, mut forget, mut changed) = (Vec::new(), Vec::new(), false);
        for output in outputs {
            match output {
                membership::Output::Send { to, bytes } => {
                    if let Some(link) = self.shared.link(to) {
                        // A datagram that cannot be sent is one that was lost.
                        let _ = link.send_datagram(&bytes);
                    }
                }
                membership::Output::Dial { peer, addresses } => {
                    let wanted = links::Input::Wanted { peer, waiter: None, addresses };
                    let outputs = self.links.handle(wanted);
                    self.links(outputs);
                }
                membership::Output::Close { peer, cause } => {
                    let outputs = self.links.handle(links::Input::Drop { peer, cause });
                    self.links(outputs);
                }
                membership::Output::Sync { peer } => exchange::begin(Arc::clone(&self.shared), peer),
                membership::Output::Changed { .. } | membership::Output::SelfChanged => changed = true,
                membership::Output::Store(record) => {
                    changed = true;
                    let node = record.record().node;
                    self.upgrades.news(self.shared.clock.now().node, &node);
                    put.push((node, record.signed().clone()));
                }
                membership::Output::Forget { node } => {
                    changed = true;
                    self.shared.routes().forget(&node);
                    self.shared.history().forget(&node);
                    forget.push(node);
                }
                membership::Output::Sign(record) => self.sign(*record),
                membership::Output::RaiseEpoch(epoch) => {
                    self.shared.observer.raise_epoch(epoch);
                    self.membership(Input::EpochRaised(epoch));
                }
            }
        }
        if !put.is_empty() || !forget.is_empty() {
            self.shared.observer.records(put, forget);
        }
        if changed {
            self.shared.observer.view_changed();
        }
    }

    fn sign(&mut self, record: NodeRecord) {
        self.shared.endpoint.set_record(record.version);
        self.shared.relayed.set_record(record.version);
        match record.sign(self.key.signing_key()) {
            Ok(signed) => self.membership(Input::Signed(signed)),
            // Checked against the same limits when it was configured; said rather than hidden if that ever differs.
            Err(error) => tracing::error!(%error, "this node's own record cannot be signed"),
        }
    }

    fn links(&mut self, outputs: Vec<links::Output>) {
        for output in outputs {
            match output {
                links::Output::StartDial { peer, number, plan } => self.dial(peer, number, plan),
                links::Output::AbandonDial { peer, number } => {
                    if let Some(dial) = self.dials.remove(&(peer, number)) {
                        dial.abort();
                        self.abandoned(peer, number);
                    }
                }
                links::Output::Up { peer, key, boot } => {
                    self.shared.used().insert(peer, key);
                    self.note_way(peer, key);
                    if let Some(connection) = self.shared.link(peer) {
                        self.shared.note(peer, Some(connection.path()), "linked");
                        self.shared.delivery.link_up(&connection);
                        question::compare_revocations(Arc::clone(&self.shared), connection);
                    }
                    self.membership(Input::LinkUp { peer, boot });
                    self.shared.observer.view_changed();
                }
                links::Output::Down { peer, cause } => {
                    self.shared.used().remove(&peer);
                    self.upgrades.settled(&peer);
                    self.show_upgrades();
                    self.shared.delivery.link_down(peer);
                    self.membership(Input::LinkDown { peer, cause });
                    self.shared.observer.view_changed();
                }
                links::Output::Unreached { peer, failure } => {
                    self.membership(Input::DialFailed { peer, failure });
                }
                links::Output::Retire { peer, key, within_ms } => self.retire(peer, key, within_ms),
                links::Output::Close { peer, key } => {
                    if let Some(connection) = self.shared.connections().remove(&(peer, key)) {
                        connection.close(CloseCode::Superseded, "");
                    }
                }
                // A refused connection is closed where it arrives. Nobody waits for links here: delivery holds what it
                // has until one is up.
                links::Output::Refuse { .. } | links::Output::Ready { .. } | links::Output::Failed { .. } => {
                }
            }
        }
    }

    fn dial(&mut self, peer: NodeId, number: u64, plan: Vec<links::Attempt>) {
        let shared = Arc::clone(&self.shared);
        shared.dials.fetch_add(1, Ordering::Relaxed);
        // A peer that is linked is dialled for a direct link only.
        let any_way = shared.link(peer).is_none();
        let task = tokio::spawn(async move {
            let dialled = if any_way {
                dial::any_way(&shared, peer, number, &plan).await
            } else {
                dial::directly(&shared, peer, number, &plan).await
            };
            let event = match dialled {
                Ok(connection) => Event::Arrived(connection),
                Err(failure) => Event::DialFailed(peer, number, failure),
            };
            // Fails only when the driver is gone.
            let _ = shared.events.send(event).await;
        });
        self.dials.insert((peer, number), task.abort_handle());
    }

    fn abandoned(&mut self, peer: NodeId, number: u64) {
        let failure = links::DialFailure {
            kind: links::FailureKind::Passing,
            text: "another connection was there first".to_owned(),
            address: None,
        };
        let outputs = self.links.handle(links::Input::DialFailed { peer, number, failure });
        self.links(outputs);
    }

    /// A link goes another way than before: whether a better one is to be looked for.
    fn note_way(&mut self, peer: NodeId, key: ConnectionKey) {
        if key.relayed {
            self.upgrades.relayed(self.shared.clock.now().node, &mut self.rng, peer);
        } else {
            self.upgrades.settled(&peer);
        }
        self.show_upgrades();
    }

    /// Dials directly who is linked through another and due.
    fn improve(&mut self) {
        for peer in self.upgrades.take_due(self.shared.clock.now().node) {
            let addresses = self.shared.addresses(peer);
            let outputs = self.links.handle(links::Input::Improve { peer, addresses });
            // It cannot be dialled now: a dial is under way, or it advertises no address.
            if outputs.is_empty() {
                self.not_improved(peer, links::FailureKind::Passing);
            }
            self.links(outputs);
        }
        self.show_upgrades();
    }

    fn not_improved(&mut self, peer: NodeId, kind: links::FailureKind) {
        self.upgrades.failed(self.shared.clock.now().node, &mut self.rng, &peer, kind);
        self.show_upgrades();
    }

    fn show_upgrades(&self) {
        let used = self.shared.used();
        let relayed = used.iter().filter(|(_, key)| key.relayed).map(|(peer, _)| *peer);
        let due = relayed.filter_map(|peer| Some((peer, self.upgrades.due(&peer)?)));
        *self.shared.upgrades.lock().unwrap_or_else(PoisonError::into_inner) = due.collect();
    }

    fn retire(&self, peer: NodeId, key: ConnectionKey, within_ms: u64) {
        let Some(connection) = self.shared.connections().get(&(peer, key)).cloned() else { return };
        tokio::spawn(async move {
            let _ = tokio::time::timeout(Duration::from_millis(within_ms), connection.drained()).await;
            connection.close(CloseCode::Superseded, "");
        });
    }

    /// In force first, then on disk, then told to everybody else.
    fn revoke(&mut self, list: RevocationList) {
        let known = self.shared.revocations.borrow().as_ref().map_or(0, RevocationList::ver);
        if list.ver() <= known {
            return;
        }
        self.shared.admission.apply(&list);
        self.shared.revocations.send_replace(Some(list.clone()));
        for entry in list.entries() {
            self.membership(Input::Revoked(entry.node));
        }
        self.shared.observer.revoked(list);
        let linked: Vec<NodeId> = self.shared.used().keys().copied().collect();
        let links: Vec<Connection> = linked.into_iter().filter_map(|peer| self.shared.link(peer)).collect();
        for link in links {
            question::compare_revocations(Arc::clone(&self.shared), link);
        }
    }
}

/// Hands accepted links to the driver, and serves accepted carriers.
async fn accept(shared: Arc<Shared>) {
    while let Some(connection) = shared.endpoint.accept().await {
        match connection.purpose() {
            Purpose::Carrier => drop(tokio::spawn(relay::serve(Arc::clone(&shared), connection))),
            Purpose::Link => {
                if shared.events.send(Event::Arrived(connection)).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Hands accepted links that came through another member to the driver.
async fn accept_relayed(shared: Arc<Shared>) {
    while let Some(connection) = shared.relayed.accept().await {
        if shared.events.send(Event::Arrived(connection)).await.is_err() {
            return;
        }
    }
}

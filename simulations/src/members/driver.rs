//! The driver of one node: what its machines put out is done, and what comes of it is fed back.

use mesh_node_core::directory::exchange::{Exchange, Heard};
use mesh_node_core::links::{self, DialFailure, FailureKind};
use mesh_node_core::membership::{Input, Output};
use mesh_node_core::time::{NodeTime, Now};
use mesh_protocol::id::NodeId;

use super::network::{DIAL_TIMEOUT_MS, DIAL_TRIES_MS};
use super::queue::Event;
use super::{Change, Mesh, root};

const EXCHANGE_TIMEOUT_MS: u64 = 10_000;
/// Bytes of a stream that one packet carries.
const PACKET_BYTES: usize = 1_200;

impl Mesh {
    pub(super) fn happen(&mut self, event: Event) {
        match event {
            // One that was planned before an earlier one came up is for nobody: it would plan another, and so for ever.
            Event::Wake(end) if self.is_up(end) && self.hosts[end.host].wake_at == Some(self.now) => {
                self.hosts[end.host].wake_at = None;
                self.feed(end.host, Input::Wake);
            }
            Event::Datagram { from, to, bytes } if self.echoes.contains(&to) => {
                self.echo_datagram(from, to, &bytes);
            }
            Event::EchoProbe { echo, to, boot } => self.echo_probes(echo, to, boot),
            Event::Datagram { from, to, bytes } if self.paths.carry(from, to) => {
                self.feed(to, Input::Datagram { from: self.hosts[from].id, bytes });
            }
            Event::DialTry { from, to, number, plan } => self.dial_try(from, to, number, &plan),
            Event::DialTimeout { from, to, number } if self.is_up(from) => {
                if self.hosts[from.host].dialling.remove(&number) {
                    self.dial_failed(from.host, to, number, "no answer within 5 s");
                }
            }
            Event::Established { end, peer, key } if self.is_up(end) => {
                let host = &self.hosts[end.host];
                let address = (key.dialler == host.id).then(|| self.hosts[peer.host].address);
                let id = self.hosts[peer.host].id;
                self.feed_links(
                    end.host,
                    links::Input::Established { peer: id, key, boot: peer.boot, address },
                );
            }
            Event::Ended { end, peer, key, cause } if self.is_up(end) => {
                let peer = self.hosts[peer].id;
                self.feed_links(end.host, links::Input::Ended { peer, key, cause: cause.to_owned() });
            }
            Event::IdleCheck { ends, key } => {
                if !self.is_live(ends) {
                    self.end_connection(ends, key, "idle for 15 s");
                }
            }
            Event::Frame { from, to, exchange, from_initiator, bytes } => {
                self.frame_arrives(from, to, exchange, from_initiator, &bytes);
            }
            Event::ExchangeTimeout { host, peer, exchange } => {
                if self.hosts[host].exchanges.remove(&(exchange, true)).is_some() {
                    let error = Some("the exchange timed out".to_owned());
                    self.feed(host, Input::SyncEnded { peer: self.hosts[peer].id, error });
                }
            }
            Event::Wake { .. }
            | Event::Datagram { .. }
            | Event::DialTimeout { .. }
            | Event::Established { .. }
            | Event::Ended { .. } => {}
        }
    }

    fn frame_arrives(&mut self, from: usize, to: usize, exchange: u64, from_initiator: bool, bytes: &[u8]) {
        if !self.paths.both_ways(from, to) {
            return;
        }
        if self.echoes.contains(&to) {
            self.echo_frame(from, to, exchange, bytes);
            return;
        }
        let host = &mut self.hosts[to];
        let Some(machine) = &host.machine else { return };
        let name = (exchange, !from_initiator);
        let mut session = match host.exchanges.remove(&name) {
            Some(session) => session,
            None if from_initiator => Exchange::respond(),
            None => return,
        };
        // Both ends are the shipped code: one that breaks off is noticed by the other's timeout.
        let Ok(step) = machine.continue_sync(&mut session, bytes) else { return };
        let heard = (step.heard != Heard::default())
            .then(|| self.notary.check(&root(), machine.directory(), step.heard));
        if !step.done {
            host.exchanges.insert(name, session);
        }
        for bytes in step.send {
            self.send_frame(to, from, exchange, !from_initiator, bytes);
        }
        let from_id = self.hosts[from].id;
        if let Some(heard) = heard {
            self.feed(to, Input::Heard { from: from_id, heard });
        }
        if step.done && !from_initiator {
            self.feed(to, Input::SyncEnded { peer: from_id, error: None });
        }
    }

    pub(super) fn send_frame(
        &mut self,
        from: usize,
        to: usize,
        exchange: u64,
        from_initiator: bool,
        bytes: Vec<u8>,
    ) {
        let cost = &mut self.hosts[from].cost;
        cost.exchange_bytes += bytes.len() as u64 + 4;
        cost.packets += bytes.len().div_ceil(PACKET_BYTES) as u64;
        let after = self.reliable_latency();
        self.plan(after, Event::Frame { from, to, exchange, from_initiator, bytes });
    }

    /// Gives a node's membership one event, if the node runs, and does what follows.
    pub fn feed(&mut self, index: usize, input: Input) {
        let now = Now { node: NodeTime(self.now), wall_ms: 1_700_000_000_000 + self.now };
        let host = &mut self.hosts[index];
        let Some(machine) = &mut host.machine else { return };
        let outputs = machine.handle(now, &mut self.rng, input);
        let mut last_sent_to = None;
        for output in outputs {
            let to = if let Output::Send { to, .. } = &output { Some(*to) } else { None };
            if to.is_some() && to != last_sent_to {
                self.hosts[index].cost.packets += 1;
            }
            last_sent_to = to;
            self.perform(index, output);
        }
        let host = &mut self.hosts[index];
        let Some(machine) = &host.machine else { return };
        let wake = machine.next_wake().0.max(self.now);
        if host.wake_at.is_none_or(|planned| wake < planned) {
            host.wake_at = Some(wake);
            let end = host.end(index);
            self.queue.plan(wake, Event::Wake(end));
        }
    }

    fn perform(&mut self, index: usize, output: Output) {
        match output {
            Output::Send { to, bytes } => {
                self.hosts[index].cost.datagram_bytes += bytes.len() as u64;
                if self.hosts[index].links.current(&to).is_some() && !self.is_lost() {
                    let (to, after) = (self.place_of(&to), self.latency());
                    self.plan(after, Event::Datagram { from: index, to, bytes });
                }
            }
            Output::Dial { peer, addresses } => {
                self.feed_links(index, links::Input::Wanted { peer, waiter: None, addresses });
            }
            Output::Close { peer, cause } => self.feed_links(index, links::Input::Drop { peer, cause }),
            Output::Sync { peer } => self.begin_exchange(index, peer),
            Output::Changed { peer } => {
                let state = self.hosts[index].machine.as_ref().and_then(|machine| machine.state(&peer));
                let peer = self.place_of(&peer);
                if let Some(state) = state {
                    self.trace.note(state.name(), &[self.now, index as u64, peer as u64]);
                    self.changes.push(Change { at: self.now, observer: index, peer, state });
                }
            }
            Output::Store(record) => {
                self.hosts[index].disk.insert(record.record().node, record);
            }
            Output::Forget { node } => {
                self.hosts[index].disk.remove(&node);
            }
            Output::Sign(record) => {
                if let Ok(signed) = record.sign(&self.hosts[index].key) {
                    self.feed(index, Input::Signed(signed));
                }
            }
            Output::RaiseEpoch(epoch) => {
                self.hosts[index].epoch = epoch;
                self.feed(index, Input::EpochRaised(epoch));
            }
            Output::SelfChanged => {}
        }
    }

    fn begin_exchange(&mut self, index: usize, peer: NodeId) {
        let Some(machine) = &self.hosts[index].machine else { return };
        let (session, first) = machine.begin_sync();
        self.next_exchange += 1;
        let (exchange, peer) = (self.next_exchange, self.place_of(&peer));
        self.hosts[index].exchanges.insert((exchange, true), session);
        self.send_frame(index, peer, exchange, true, first);
        self.plan(EXCHANGE_TIMEOUT_MS, Event::ExchangeTimeout { host: index, peer, exchange });
    }

    pub(super) fn feed_links(&mut self, index: usize, input: links::Input) {
        for output in self.hosts[index].links.handle(input) {
            match output {
                links::Output::StartDial { peer, number, plan } => {
                    let (from, to) = (self.hosts[index].end(index), self.place_of(&peer));
                    self.hosts[index].cost.dials += 1;
                    self.hosts[index].dialling.insert(number);
                    let plan: Vec<_> = plan.into_iter().map(|attempt| attempt.address).collect();
                    for after in DIAL_TRIES_MS {
                        let plan = plan.clone();
                        self.plan(after, Event::DialTry { from, to, number, plan });
                    }
                    self.plan(DIAL_TIMEOUT_MS, Event::DialTimeout { from, to, number });
                }
                links::Output::AbandonDial { peer, number } => {
                    if self.hosts[index].dialling.remove(&number) {
                        let to = self.place_of(&peer);
                        self.dial_failed(index, to, number, "another connection was there first");
                    }
                }
                links::Output::Up { peer, boot, .. } => self.feed(index, Input::LinkUp { peer, boot }),
                links::Output::Down { peer, cause } => self.feed(index, Input::LinkDown { peer, cause }),
                links::Output::Unreached { peer, failure } => {
                    self.feed(index, Input::DialFailed { peer, failure });
                }
                links::Output::Retire { peer, key, .. } => {
                    self.close(index, self.place_of(&peer), key, 1_000);
                }
                links::Output::Close { peer, key } | links::Output::Refuse { peer, key } => {
                    self.close(index, self.place_of(&peer), key, 0);
                }
                links::Output::Ready { .. } | links::Output::Failed { .. } => {}
            }
        }
    }

    fn dial_failed(&mut self, from: usize, to: usize, number: u64, text: &str) {
        let peer = self.hosts[to].id;
        let failure = DialFailure { kind: FailureKind::Passing, text: text.to_owned(), address: None };
        self.feed_links(from, links::Input::DialFailed { peer, number, failure });
    }
}

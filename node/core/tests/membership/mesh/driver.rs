//! The driver of one node: what its machines put out is done, and what comes of it is fed back.

use mesh_node_core::directory::exchange::Exchange;
use mesh_node_core::links;
use mesh_node_core::membership::{Input, Output};
use mesh_node_core::time::{NodeTime, Now};

use super::network::{DIAL_TIMEOUT_MS, DIAL_TRIES_MS};
use super::{Change, Event, Mesh};

const EXCHANGE_TIMEOUT_MS: u64 = 10_000;

impl Mesh {
    pub(super) fn frame_arrives(
        &mut self,
        from: usize,
        to: usize,
        exchange: u64,
        from_initiator: bool,
        bytes: &[u8],
    ) {
        if self.side[from] != self.side[to] {
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
        let step = machine.continue_sync(&mut session, bytes).expect("our own nodes exchange properly");
        if !step.done {
            host.exchanges.insert(name, session);
        }
        for bytes in step.send {
            self.send_frame(to, from, exchange, !from_initiator, bytes);
        }
        let from_id = self.hosts[from].id;
        self.feed(to, Input::Heard { from: from_id, heard: step.heard });
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
        self.hosts[from].exchange_bytes += bytes.len() as u64 + 4;
        let after = self.reliable_latency();
        self.schedule(after, Event::Frame { from, to, exchange, from_initiator, bytes });
    }

    pub(crate) fn feed(&mut self, index: usize, input: Input) {
        let now = Now { node: NodeTime(self.now), wall_ms: 1_700_000_000_000 + self.now };
        let host = &mut self.hosts[index];
        let Some(machine) = &mut host.machine else { return };
        let outputs = machine.handle(now, &mut self.rng, input);
        for output in outputs {
            self.perform(index, output);
        }
        let host = &mut self.hosts[index];
        let Some(machine) = &host.machine else { return };
        let wake = machine.next_wake().0.max(self.now);
        if host.wake_at.is_none_or(|planned| wake < planned) {
            host.wake_at = Some(wake);
            let boot = host.boot;
            self.schedule_at(wake, Event::Wake { host: index, boot });
        }
    }

    pub(super) fn perform(&mut self, index: usize, output: Output) {
        match output {
            Output::Send { to, bytes } => {
                let to = self.index_of(&to);
                self.hosts[index].datagram_bytes += bytes.len() as u64;
                if self.hosts[index].links.current(&self.hosts[to].id).is_some() && !self.is_lost() {
                    let after = self.latency();
                    self.schedule(after, Event::Datagram { from: index, to, bytes });
                }
            }
            Output::Dial { peer, addresses } => {
                self.feed_links(index, links::Input::Wanted { peer, waiter: None, addresses });
            }
            Output::Close { peer, cause } => self.feed_links(index, links::Input::Drop { peer, cause }),
            Output::Sync { peer } => {
                let peer = self.index_of(&peer);
                let (session, first) = self.hosts[index].machine.as_ref().unwrap().begin_sync();
                self.next_exchange += 1;
                let exchange = self.next_exchange;
                self.hosts[index].exchanges.insert((exchange, true), session);
                self.send_frame(index, peer, exchange, true, first);
                self.schedule(EXCHANGE_TIMEOUT_MS, Event::ExchangeTimeout { host: index, peer, exchange });
            }
            Output::Changed { peer } => {
                let state = self.state(index, &peer).unwrap();
                let peer = self.index_of(&peer);
                self.changes.push(Change { at: self.now, observer: index, peer, state });
            }
            Output::Store { node, record } => {
                self.hosts[index].disk.insert(node, record);
            }
            Output::Forget { node } => {
                self.hosts[index].disk.remove(&node);
            }
            Output::Sign(record) => {
                let signed = record.sign(&self.hosts[index].key).unwrap();
                self.feed(index, Input::Signed(signed));
            }
            Output::RaiseEpoch(epoch) => {
                self.hosts[index].epoch = epoch;
                self.feed(index, Input::EpochRaised(epoch));
            }
            Output::SelfChanged => {}
        }
    }

    pub(super) fn feed_links(&mut self, index: usize, input: links::Input) {
        for output in self.hosts[index].links.handle(input) {
            let boot = self.hosts[index].boot;
            match output {
                links::Output::StartDial { peer, number, plan } => {
                    let to = self.index_of(&peer);
                    self.hosts[index].dials += 1;
                    let plan: Vec<_> = plan.into_iter().map(|attempt| attempt.address).collect();
                    for after in DIAL_TRIES_MS {
                        let plan = plan.clone();
                        self.schedule(after, Event::DialTry { from: index, to, number, boot, plan });
                    }
                    self.schedule(DIAL_TIMEOUT_MS, Event::DialTimeout { from: index, to, number, boot });
                }
                links::Output::AbandonDial { number, .. } => self.queue.retain(|_, event| {
                    !matches!(event, Event::DialTry { from, number: n, .. } if (*from, *n) == (index, number))
                }),
                links::Output::Up { peer, boot, .. } => self.feed(index, Input::LinkUp { peer, boot }),
                links::Output::Down { peer, cause } => self.feed(index, Input::LinkDown { peer, cause }),
                links::Output::Unreached { peer, failure } => self.feed(index, Input::DialFailed { peer, failure }),
                links::Output::Retire { peer, key, .. } => self.close(index, self.index_of(&peer), key, 1_000),
                links::Output::Close { peer, key } | links::Output::Refuse { peer, key } => {
                    self.close(index, self.index_of(&peer), key, 0);
                }
                links::Output::Ready { .. } | links::Output::Failed { .. } => {}
            }
        }
    }
}

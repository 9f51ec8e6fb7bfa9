//! Connections between nodes, as QUIC makes and ends them: handshakes that are retried, closes that may be lost, and
//! silent peers that are noticed after the idle timeout.

use std::net::SocketAddr;

use mesh_node_core::links::ConnectionKey;
use rand::RngExt as _;

use super::Mesh;
use super::queue::{End, Event};

pub(super) const IDLE_TIMEOUT_MS: u64 = 15_000;
pub(super) const DIAL_TIMEOUT_MS: u64 = 5_000;
/// When QUIC sends the first packet of a dial, with an initial probe timeout of one second (RFC 9002).
pub(super) const DIAL_TRIES_MS: [u64; 3] = [0, 1_000, 3_000];

impl Mesh {
    pub(super) fn dial_try(&mut self, from: End, to: usize, number: u64, plan: &[SocketAddr]) {
        if !self.is_up(from) || !self.hosts[from.host].dialling.contains(&number) {
            return;
        }
        let right_address = plan.contains(&self.hosts[to].address);
        let echo = self.echoes.contains(&to);
        let reached = (self.hosts[to].machine.is_some() || echo) && self.paths.both_ways(from.host, to);
        if !right_address || !reached || self.is_lost() || self.is_lost() {
            return;
        }
        self.hosts[from.host].dialling.remove(&number);
        let key = ConnectionKey::direct(self.hosts[from.host].id, number);
        let ends = [from, self.hosts[to].end(to)];
        self.connections.insert(pair(ends, key), ends);
        let handshake = self.latency() + self.latency();
        for [end, peer] in [ends, [ends[1], ends[0]]] {
            let after = handshake + self.reliable_latency();
            self.plan(after, Event::Established { end, peer, key });
        }
        if echo {
            let first = self.rng.random_range(0..self.echo_round_ms());
            self.plan(first, Event::EchoProbe { echo: to, to: from.host, boot: from.boot });
        }
    }

    pub(super) fn end_connection(&mut self, ends: [End; 2], key: ConnectionKey, cause: &'static str) {
        if self.connections.remove(&pair(ends, key)).is_none() {
            return;
        }
        for [end, peer] in [ends, [ends[1], ends[0]]] {
            self.plan(0, Event::Ended { end, peer: peer.host, key, cause });
        }
    }

    /// One end closes; the other hears of it at once, or never and then by its idle timeout.
    pub(super) fn close(&mut self, host: usize, peer: usize, key: ConnectionKey, after_ms: u64) {
        let Some(ends) = self.connections.remove(&(host.min(peer), host.max(peer), key)) else { return };
        let live = self.is_live(ends);
        for [end, other] in [ends, [ends[1], ends[0]]] {
            let wait = match (end.host == host, live) {
                (true, _) => 0,
                (false, true) => self.latency(),
                (false, false) => IDLE_TIMEOUT_MS,
            };
            self.plan(after_ms + wait, Event::Ended { end, peer: other.host, key, cause: "closed" });
        }
    }
}

fn pair([one, other]: [End; 2], key: ConnectionKey) -> (usize, usize, ConnectionKey) {
    (one.host.min(other.host), one.host.max(other.host), key)
}

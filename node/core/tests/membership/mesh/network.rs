//! Connections between nodes, as QUIC makes and ends them: handshakes that are retried, closes that may be lost, and
//! silent peers that are noticed after the idle timeout.

use std::net::SocketAddr;

use mesh_node_core::links::ConnectionKey;
use mesh_protocol::peer::BootId;

use super::{Event, Mesh};

pub(super) const IDLE_TIMEOUT_MS: u64 = 15_000;
pub(super) const DIAL_TIMEOUT_MS: u64 = 5_000;
/// When QUIC sends the first packet of a dial, with an initial probe timeout of one second (RFC 9002).
pub(super) const DIAL_TRIES_MS: [u64; 3] = [0, 1_000, 3_000];

impl Mesh {
    pub(super) fn dial_try(
        &mut self,
        from: usize,
        to: usize,
        number: u64,
        boot: BootId,
        plan: &[SocketAddr],
    ) {
        let key = ConnectionKey::direct(self.hosts[from].id, number);
        let pair = (from.min(to), from.max(to), key);
        if !self.is_up(from, boot) || self.connections.contains_key(&pair) {
            return;
        }
        let right_address = plan.contains(&self.hosts[to].address);
        let up = self.hosts[to].machine.is_some() && self.side[from] == self.side[to];
        if !right_address || !up || self.is_lost() || self.is_lost() {
            return;
        }
        let ends = [(from, boot), (to, self.hosts[to].boot)];
        self.connections.insert(pair, ends);
        self.queue.retain(|_, event| {
            !matches!(event, Event::DialTimeout { from: f, number: n, .. } if (*f, *n) == (from, number))
        });
        let handshake = self.latency() + self.latency();
        for ((host, boot), (peer, peer_boot)) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let after = handshake + self.reliable_latency();
            self.schedule(after, Event::Established { host, boot, peer, peer_boot, key });
        }
    }

    pub(super) fn end_connection(
        &mut self,
        ends: [(usize, BootId); 2],
        key: ConnectionKey,
        cause: &'static str,
    ) {
        let [(a, _), (b, _)] = ends;
        if self.connections.remove(&(a.min(b), a.max(b), key)).is_none() {
            return;
        }
        for ((host, boot), (peer, _)) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            self.schedule(0, Event::Ended { host, boot, peer, key, cause });
        }
    }

    /// One end closes; the other hears of it at once, or never and then by its idle timeout.
    pub(super) fn close(&mut self, host: usize, peer: usize, key: ConnectionKey, after_ms: u64) {
        let pair = (host.min(peer), host.max(peer), key);
        let Some(ends) = self.connections.remove(&pair) else { return };
        let live = self.is_live(ends);
        for ((end, boot), (other, _)) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let wait = if end == host {
                0
            } else if live {
                self.latency()
            } else {
                IDLE_TIMEOUT_MS
            };
            self.schedule(
                after_ms + wait,
                Event::Ended { host: end, boot, peer: other, key, cause: "closed" },
            );
        }
    }
}

//! Packets between members in memory, and walls that stop them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use mesh_node::transport::PacketSocket;

/// Packets that wait for one member. More are lost.
const INBOX_PACKETS: usize = 4_096;

/// What all members send through.
#[derive(Debug, Default)]
pub(crate) struct Air(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    inboxes: BTreeMap<SocketAddr, VecDeque<(SocketAddr, Vec<u8>)>>,
    readers: BTreeMap<SocketAddr, Waker>,
    walls: BTreeSet<(SocketAddr, SocketAddr)>,
}

impl Air {
    /// Stops every packet between these two.
    pub(crate) fn part(&self, one: SocketAddr, other: SocketAddr) {
        self.0.lock().unwrap().walls.extend([(one, other), (other, one)]);
    }

    /// Lets them through again.
    pub(crate) fn unite(&self, one: SocketAddr, other: SocketAddr) {
        self.0.lock().unwrap().walls.retain(|wall| ![(one, other), (other, one)].contains(wall));
    }
}

/// One member's socket.
#[derive(Debug)]
pub(crate) struct Plug {
    pub(crate) air: Arc<Air>,
    pub(crate) address: SocketAddr,
}

impl PacketSocket for Plug {
    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn try_send(&self, to: SocketAddr, packet: &[u8]) -> io::Result<()> {
        let mut state = self.air.0.lock().unwrap();
        let walled = state.walls.contains(&(self.address, to));
        let inbox = state.inboxes.entry(to).or_default();
        if !walled && inbox.len() < INBOX_PACKETS {
            inbox.push_back((self.address, packet.to_vec()));
            if let Some(reader) = state.readers.remove(&to) {
                reader.wake();
            }
        }
        Ok(())
    }

    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        let mut state = self.air.0.lock().unwrap();
        match state.inboxes.entry(self.address).or_default().pop_front() {
            Some((from, packet)) => {
                buffer[..packet.len()].copy_from_slice(&packet);
                Poll::Ready(Ok((packet.len(), from)))
            }
            None => {
                state.readers.insert(self.address, context.waker().clone());
                Poll::Pending
            }
        }
    }
}

//! Connections over packets that no UDP socket of the system carries.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use mesh_node::identity::Admission;
use mesh_node::transport::{Endpoint, PacketSocket, Settings, Socket};
use mesh_protocol::stream::StreamKind;

use super::fixture::*;

/// A network in memory that loses every tenth packet.
#[derive(Debug, Default)]
struct Network {
    sent: u64,
    inboxes: BTreeMap<SocketAddr, VecDeque<(SocketAddr, Vec<u8>)>>,
    readers: BTreeMap<SocketAddr, Waker>,
}

#[derive(Debug)]
struct Plug {
    network: Arc<Mutex<Network>>,
    address: SocketAddr,
}

impl PacketSocket for Plug {
    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn try_send(&self, to: SocketAddr, packet: &[u8]) -> io::Result<()> {
        let mut network = self.network.lock().unwrap();
        network.sent += 1;
        if network.sent.is_multiple_of(10) {
            return Ok(());
        }
        network.inboxes.entry(to).or_default().push_back((self.address, packet.to_vec()));
        if let Some(reader) = network.readers.remove(&to) {
            reader.wake();
        }
        Ok(())
    }

    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        let mut network = self.network.lock().unwrap();
        match network.inboxes.entry(self.address).or_default().pop_front() {
            Some((from, packet)) => {
                buffer[..packet.len()].copy_from_slice(&packet);
                Poll::Ready(Ok((packet.len(), from)))
            }
            None => {
                network.readers.insert(self.address, context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[tokio::test]
async fn a_connection_over_a_lossy_network_in_memory_delivers_every_frame() {
    let mesh = Mesh::new(1);
    let network = Arc::new(Mutex::new(Network::default()));
    let member = |seed: u8| {
        let credentials = mesh.credentials(seed);
        let address = SocketAddr::from(([10, 0, 0, seed], 7_000));
        let socket = Socket::Packets(Arc::new(Plug { network: Arc::clone(&network), address }));
        let (id, admission) = (credentials.key.node(), Arc::new(Admission::default()));
        let seeded = Settings { seed: Some([seed; 32]), ..settings(seed) };
        let clock = HandClock::at(START_WALL_MS);
        let endpoint = Endpoint::bind(socket, credentials, Arc::clone(&admission), clock, seeded).unwrap();
        Member { id, admission, endpoint, address }
    };
    let (a, b) = (member(1), member(2));
    let (at_a, at_b) = connect(&a, &b).await;
    let (mut sender, _answers) = at_a.open(StreamKind::Outbox).await.unwrap();
    let send = async {
        for number in 0..200_u32 {
            sender.send_frame(&number.to_be_bytes().repeat(100), 1_000).await.unwrap();
        }
        sender.finish().unwrap();
    };
    let receive = async {
        let (_, _sender, mut receiver) = at_b.accept_stream().await.unwrap();
        let mut frames = Vec::new();
        while let Some(frame) = receiver.receive_frame(1_000).await.unwrap() {
            frames.push(u32::from_be_bytes(frame[..4].try_into().unwrap()));
        }
        frames
    };
    let ((), frames) = soon(async { tokio::join!(send, receive) }).await;
    assert_eq!(frames, (0..200).collect::<Vec<_>>());
    assert!(network.lock().unwrap().sent >= 60, "packets really went this way");
}

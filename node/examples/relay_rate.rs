//! What it costs to go through a third member instead of directly: the handshake, a small question, and a large body,
//! over loopback, both ways in one run.
//!
//! `cargo run --release -p mesh-node --example relay_rate`
//!
//! Both ends and the relay share one process and its threads, so the figures are of all three together. The relay moves
//! packets as a node does, without a limit on the rate.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_node::clock::{Clock, NodeClock};
use mesh_node::identity::{Admission, Credentials, MeshRoot, NodeKey};
use mesh_node::limits::RELAY_QUEUE_PACKETS;
use mesh_node::transport::{
    Connection, Endpoint, PacketReader, Paths, Receiver, Sender, Settings, Socket, send_packets,
};
use mesh_node_core::links::plan;
use mesh_protocol::close::CloseCode;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::BootId;
use mesh_protocol::stream::StreamKind;
use tokio::sync::mpsc;

const DIALS: u64 = 200;
const QUESTIONS: usize = 3_000;
const BODY_BYTES: usize = 256 * 1024 * 1024;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A member: its own endpoint, and the one for what others carry.
struct Member {
    id: NodeId,
    direct: Endpoint,
    relayed: Endpoint,
    paths: Arc<Paths>,
}

impl Member {
    fn bind(root: &MeshRoot, clock: &Arc<NodeClock>) -> Outcome<Self> {
        let key = NodeKey::generate()?;
        let leaf = root.issue(key.node(), clock.now().wall_ms)?;
        let credentials = Credentials { key: key.clone(), leaf, root: root.certificate().clone() };
        let paths = Arc::new(Paths::default());
        let bind = |socket| {
            let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
            let (credentials, admission) = (credentials.clone(), Arc::new(Admission::default()));
            Endpoint::bind(socket, credentials, admission, clock, Settings::new(BootId(1)))
        };
        let direct = bind(Socket::Udp(UdpSocket::bind("127.0.0.1:0")?))?;
        let relayed = bind(Socket::Paths(Arc::clone(&paths)))?;
        Ok(Self { id: key.node(), direct, relayed, paths })
    }
}

/// Answers every frame with itself, until the connection ends.
async fn echo(connection: Connection) {
    while let Ok((kind, mut sender, mut receiver)) = connection.accept_stream().await {
        tokio::spawn(async move {
            let limit = kind.frame_bytes_max();
            while let Ok(Some(frame)) = receiver.receive_frame(limit).await {
                let answer: &[u8] = if kind == StreamKind::Bulk { b"" } else { &frame };
                if sender.send_frame(answer, limit).await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn one_way(read: Receiver, write: Sender) {
    let (queue, waiting) = mpsc::channel(RELAY_QUEUE_PACKETS);
    let take = async move {
        let mut reader = PacketReader::new(read);
        while let Ok(Some(packet)) = reader.next().await {
            // A full queue loses packets.
            let _ = queue.try_send(packet);
        }
    };
    tokio::select! {
        () = take => {}
        _ = send_packets(write, waiting) => {}
    }
}

/// Both ends of one stream on a carrier.
async fn stream(of: &Connection, at: &Connection) -> Outcome<((Sender, Receiver), (Sender, Receiver))> {
    let ours = of.open(StreamKind::Relay).await?;
    let (_, sender, receiver) = at.accept_stream().await?;
    Ok((ours, (sender, receiver)))
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    println!("{what:<40} p50 {:>9.1?}   p99 {:>9.1?}", at(50), at(99));
}

/// Questions and a body over one connection.
async fn measure(way: &str, connection: &Connection) -> Outcome<()> {
    let (mut sender, mut receiver) = connection.open(StreamKind::Question).await?;
    let mut times = Vec::new();
    for _ in 0..QUESTIONS {
        let started = Instant::now();
        sender.send_frame(&[7; 64], 64).await?;
        receiver.receive_frame(64).await?;
        times.push(started.elapsed());
    }
    print(&format!("{way}: 64 bytes and back"), times);

    let (mut sender, mut receiver) = connection.open(StreamKind::Bulk).await?;
    let chunk = vec![9; StreamKind::Bulk.frame_bytes_max()];
    let started = Instant::now();
    for _ in 0..BODY_BYTES / chunk.len() {
        sender.send_frame(&chunk, chunk.len()).await?;
    }
    for _ in 0..BODY_BYTES / chunk.len() {
        receiver.receive_frame(0).await?;
    }
    let megabytes = f64::from(u32::try_from(BODY_BYTES / 1_000_000)?);
    println!("{:<40} {:.0} MB/s", format!("{way}: a body"), megabytes / started.elapsed().as_secs_f64());
    Ok(())
}

async fn run() -> Outcome<()> {
    let clock = Arc::new(NodeClock::start(None)?);
    let root = MeshRoot::from_seed(&NodeKey::generate()?.derive_secret(b"root"), clock.now().wall_ms)?;
    let (a, b, relay) =
        (Member::bind(&root, &clock)?, Arc::new(Member::bind(&root, &clock)?), Member::bind(&root, &clock)?);
    let to_b = plan(&[b.direct.local_address()?], None, 0);
    let to_relay = plan(&[relay.direct.local_address()?], None, 0);
    let carriers = {
        let (at_a, of_a) = tokio::join!(a.direct.dial_carrier(relay.id, 1, &to_relay), relay.direct.accept());
        let (at_b, of_b) = tokio::join!(b.direct.dial_carrier(relay.id, 1, &to_relay), relay.direct.accept());
        let closed = || "the relay closed";
        [(at_a?, of_a.ok_or_else(closed)?), (at_b?, of_b.ok_or_else(closed)?)]
    };
    for relayed in [false, true] {
        let b = Arc::clone(&b);
        tokio::spawn(async move {
            let endpoint = if relayed { &b.relayed } else { &b.direct };
            while let Some(connection) = endpoint.accept().await {
                tokio::spawn(echo(connection));
            }
        });
    }

    let (mut direct, mut whole, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..DIALS {
        let started = Instant::now();
        let connection = a.direct.dial(b.id, number, &to_b).await?;
        direct.push(started.elapsed());
        connection.close(CloseCode::Idle, "");
        drop(connection);

        let started = Instant::now();
        let path = path(&a, &b, &relay, &carriers).await?;
        let agreed = Instant::now();
        let connection = a.relayed.dial(b.id, number, &plan(&[path], None, 0)).await?;
        whole.push(started.elapsed());
        inner.push(agreed.elapsed());
        connection.close(CloseCode::Idle, "");
        drop(connection);
        // A path ends a moment after its connection, and there are only so many to one peer.
        while !a.paths.has_room(relay.id, b.id) || !b.paths.has_room(relay.id, a.id) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    print("direct: dial, TLS and Hello", direct);
    print("relayed: dial, TLS and Hello", inner);
    print("relayed: with its stream", whole);

    let path = path(&a, &b, &relay, &carriers).await?;
    let through = a.relayed.dial(b.id, DIALS, &plan(&[path], None, 0)).await?;
    let straight = a.direct.dial(b.id, DIALS, &to_b).await?;
    for _ in 0..2 {
        measure("direct", &straight).await?;
        measure("relayed", &through).await?;
    }
    let lost = a.paths.counts().dropped.saturating_add(b.paths.counts().dropped);
    println!("{:<40} {lost}", "relayed: packets lost in full queues");
    Ok(())
}

/// A path from A to B, with the relay's tasks behind it.
async fn path(
    a: &Member,
    b: &Member,
    relay: &Member,
    [(at_a, of_a), (at_b, of_b)]: &[(Connection, Connection); 2],
) -> Outcome<SocketAddr> {
    let (ours, theirs) = stream(at_a, of_a).await?;
    let (far, near) = stream(at_b, of_b).await?;
    tokio::spawn(one_way(theirs.1, near.0));
    tokio::spawn(one_way(near.1, theirs.0));
    b.paths.open((relay.id, a.id), far.1, far.0)?;
    Ok(a.paths.open((relay.id, b.id), ours.1, ours.0)?)
}

fn main() -> Outcome<()> {
    tokio::runtime::Runtime::new()?.block_on(run())
}

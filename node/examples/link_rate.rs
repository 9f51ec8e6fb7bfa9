//! What a connection costs: the dial with everything in it, a small question, and a large body, over loopback.
//!
//! `cargo run --release -p mesh-node --example link_rate`
//!
//! A dial is UDP, TLS with both certificates checked, Hello and HelloAck. Both ends share one process and its threads,
//! so the figures are of both ends together.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use std::error::Error;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_node::clock::{Clock, NodeClock};
use mesh_node::identity::{Admission, Credentials, MeshRoot, NodeKey};
use mesh_node::transport::{Connection, Endpoint, Settings, Socket};
use mesh_node_core::links::plan;
use mesh_protocol::close::CloseCode;
use mesh_protocol::peer::BootId;
use mesh_protocol::stream::StreamKind;

const DIALS: u64 = 300;
const QUESTIONS: usize = 5_000;
const BODY_BYTES: usize = 256 * 1024 * 1024;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn bind(root: &MeshRoot, clock: &Arc<NodeClock>) -> Outcome<(Endpoint, NodeKey)> {
    let key = NodeKey::generate()?;
    let leaf = root.issue(key.node(), clock.now().wall_ms)?;
    let credentials = Credentials { key: key.clone(), leaf, root: root.certificate().clone() };
    let socket = Socket::Udp(UdpSocket::bind("127.0.0.1:0")?);
    let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
    let admission = Arc::new(Admission::default());
    Ok((Endpoint::bind(socket, credentials, admission, clock, Settings::new(BootId(1)))?, key))
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

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    println!("{what:<32} p50 {:>9.1?}   p99 {:>9.1?}", at(50), at(99));
}

async fn measure() -> Outcome<()> {
    let clock = Arc::new(NodeClock::start(None)?);
    let root = MeshRoot::from_seed(&NodeKey::generate()?.derive_secret(b"root"), clock.now().wall_ms)?;
    let (listener, listener_key) = bind(&root, &clock)?;
    let (dialler, _) = bind(&root, &clock)?;
    let plan = plan(&[listener.local_address()?], None, 0);
    tokio::spawn(async move {
        while let Some(connection) = listener.accept().await {
            tokio::spawn(echo(connection));
        }
    });

    let mut dials = Vec::new();
    for number in 0..DIALS {
        let started = Instant::now();
        let connection = dialler.dial(listener_key.node(), number, &plan).await?;
        dials.push(started.elapsed());
        connection.close(CloseCode::Idle, "");
    }
    print("dial, TLS and Hello", dials);

    let connection = dialler.dial(listener_key.node(), DIALS, &plan).await?;
    let (mut sender, mut receiver) = connection.open(StreamKind::Question).await?;
    let (mut same, mut fresh) = (Vec::new(), Vec::new());
    for _ in 0..QUESTIONS {
        let started = Instant::now();
        sender.send_frame(&[7; 64], 64).await?;
        receiver.receive_frame(64).await?;
        same.push(started.elapsed());

        let started = Instant::now();
        let (mut sender, mut receiver) = connection.open(StreamKind::Question).await?;
        sender.send_frame(&[7; 64], 64).await?;
        receiver.receive_frame(64).await?;
        sender.finish()?;
        fresh.push(started.elapsed());
    }
    print("64 bytes and back, one stream", same);
    print("64 bytes and back, a stream each", fresh);

    let (mut sender, mut receiver) = connection.open(StreamKind::Bulk).await?;
    let chunk = vec![9; StreamKind::Bulk.frame_bytes_max()];
    let started = Instant::now();
    for _ in 0..BODY_BYTES / chunk.len() {
        sender.send_frame(&chunk, chunk.len()).await?;
    }
    for _ in 0..BODY_BYTES / chunk.len() {
        receiver.receive_frame(0).await?;
    }
    let megabytes = u32::try_from(BODY_BYTES / 1_000_000)?;
    println!("{:<32} {:.0} MB/s", "bulk", f64::from(megabytes) / started.elapsed().as_secs_f64());
    Ok(())
}

fn main() -> Outcome<()> {
    tokio::runtime::Runtime::new()?.block_on(measure())
}

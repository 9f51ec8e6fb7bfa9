//! A connection that lost against another: what began on it comes to its end there.

use mesh_node::identity::NodeKey;
use mesh_node::transport::{CloseReason, Connection};
use mesh_node_core::directory::Directory;
use mesh_node_core::directory::exchange::Exchange;
use mesh_node_core::links::plan;
use mesh_protocol::close::CloseCode;
use mesh_protocol::limits::CONTROL_FRAME_BYTES_MAX;
use mesh_protocol::probe::{Probe, Standing};
use mesh_protocol::record::RecordVersion;
use mesh_protocol::stream::StreamKind;
use mesh_protocol::sync::Liveness;

use crate::member::{Mesh, WITHIN, until};

/// Says what a healthy member says to probes, so that nobody is suspected however slow this machine is.
async fn answer_probes(connection: Connection) {
    let standing = Standing { version: RecordVersion { epoch: 1, ver: 1 }, accusations: Vec::new() };
    while let Ok(bytes) = connection.receive_datagram().await {
        if let Ok(Probe::Ping { seq, .. }) = Probe::decode(&bytes) {
            let ack = Probe::Ack { seq, standing: standing.clone() };
            let _ = connection.send_datagram(&ack.encode());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_began_on_a_connection_that_lost_ends_there_before_it_is_closed() {
    let mesh = Mesh::new();
    let id = |seed| NodeKey::from_seed(&[seed; 32]).node();
    // Of two dials that of the smaller id wins, so the member the test drives itself is the smaller.
    let (small, large) = if id(2) < id(9) { (2, 9) } else { (9, 2) };
    let driven = mesh.endpoint(small);
    let node = mesh.start(large, vec![mesh.record(small)]);

    let first = driven.accept().await.expect("the node dials whom it knows");
    tokio::spawn(answer_probes(first.clone()));
    let (mut sender, mut receiver) = loop {
        // What else it opens is given up, as by any peer that cannot answer.
        let (kind, sender, receiver) = first.accept_stream().await.unwrap();
        if kind == StreamKind::Sync {
            break (sender, receiver);
        }
    };

    let second = driven.dial(node.id, 1, &plan(&[node.address], None, 0)).await.unwrap();
    tokio::spawn(answer_probes(second.clone()));
    until("the node uses the one that wins", || {
        (node.network.current(id(small)) == Some(second.key())).then_some(())
    })
    .await;
    assert!(!first.is_closed(), "an exchange is open on the one that lost");

    let (mut exchange, directory) = (Exchange::respond(), Directory::new());
    loop {
        let frame = receiver.receive_frame(CONTROL_FRAME_BYTES_MAX).await.unwrap().expect("a frame");
        let step = exchange.handle(&directory, |_| Liveness::Unsaid, &frame).unwrap();
        for frame in step.send {
            sender.send_frame(&frame, CONTROL_FRAME_BYTES_MAX).await.unwrap();
        }
        if step.done {
            break;
        }
    }
    sender.finish().unwrap();
    // The node has taken all of it, or given it up, which its view would tell.
    let _ = sender.finished().await;
    drop((sender, receiver));
    let reason = tokio::time::timeout(WITHIN, first.closed()).await.expect("then it is closed");
    assert!(matches!(reason, CloseReason::There { code: CloseCode::Superseded, .. }), "{reason:?}");
    assert!(!second.is_closed());
    let view = node.network.view();
    let seen = view.peers.iter().find(|peer| peer.node == id(small)).unwrap();
    assert!(seen.linked && seen.last_error.is_none(), "{seen:?}");
}

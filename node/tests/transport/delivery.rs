//! Claims about delivery over a real connection, against a peer that a test plays.

use std::sync::Arc;

use mesh_node::delivery::Delivery;
use mesh_node::storage::Database;
use mesh_node::transport::{Connection, Receiver, Sender};
use mesh_node::writer::{self, Perform, WriterCore};
use mesh_node_core::event::{Action, Event};
use mesh_node_core::machine::Machine;
use mesh_node_core::site::Site;
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::codec::decode;
use mesh_protocol::delivery::{Open, ToReceiver};
use mesh_protocol::limits::CONTROL_FRAME_BYTES_MAX;
use mesh_protocol::stream::StreamKind;

use crate::fixture::{HandClock, Mesh, START_WALL_MS, connect, soon};

/// Carries out what concerns delivery; nothing else happens here.
struct ToDelivery(Arc<Delivery>);

impl Perform<Machine> for ToDelivery {
    fn perform(&mut self, action: Action) {
        match action {
            Action::SendFrame(peer, session, frame) => self.0.send_frame(peer, session, frame),
            Action::StreamFrom(peer, session, seq) => self.0.stream_from(peer, session, seq),
            _ => {}
        }
    }

    fn quarantined(&mut self, event: &Event) {
        panic!("{event:?}");
    }
}

/// The next session the other end opens.
async fn opened(connection: &Connection) -> (Open, Sender, Receiver) {
    let (kind, sender, mut receiver) = soon(connection.accept_stream()).await.unwrap();
    assert_eq!(kind, StreamKind::Outbox);
    let frame = soon(receiver.receive_frame(CONTROL_FRAME_BYTES_MAX)).await.unwrap().unwrap();
    match decode(&frame).unwrap() {
        ToReceiver::Open(open) => (open, sender, receiver),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_peer_ends_is_begun_again_on_the_same_link() {
    let mesh = Mesh::new(9);
    let (sender, receiver) = (mesh.member(1), mesh.member(2));
    let (ours, theirs) = connect(&sender, &receiver).await;
    let dir = tempfile::tempdir().unwrap();
    let database = Arc::new(Database::create_file(&dir.path().join("mesh.redb")).unwrap());
    let delivery = Delivery::new(Arc::clone(&database));
    let site = Site {
        me: sender.id,
        agents: std::collections::BTreeMap::new(),
        executor: ExecutorView::default(),
        named_executors: Vec::new(),
        view: Arc::default(),
    };
    let core = WriterCore::new(
        database,
        Machine::new(site),
        HandClock::at(START_WALL_MS),
        Box::new(rand::make_rng::<rand::rngs::StdRng>()),
        Box::new(ToDelivery(Arc::clone(&delivery))),
    );
    let (writer, _writing) = writer::start(core).unwrap();
    delivery.attach(writer);
    delivery.link_up(&ours);
    let (first, ..) = opened(&theirs).await;
    // The stream is dropped, the connection is not.
    let (second, ..) = opened(&theirs).await;
    assert_ne!(first.session, second.session);
    delivery.link_down(receiver.id);
}

//! Claims about delivery over a real connection, against a peer that a test plays.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mesh_node::delivery::Delivery;
use mesh_node::randomness::Randomness;
use mesh_node::storage::Database;
use mesh_node::transport::{Connection, Receiver, Sender};
use mesh_node::writer::{self, Perform, Writer, WriterCore, WriterHandle};
use mesh_node_core::event::{Action, Command, Event};
use mesh_node_core::machine::Machine;
use mesh_node_core::outbox;
use mesh_node_core::site::Site;
use mesh_node_core::time::{NodeTime, Now};
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::codec::{decode, encode};
use mesh_protocol::delivery::{Chain, Epoch, Open, Resume, ToReceiver, ToSender};
use mesh_protocol::id::NodeId;
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
            Action::Answer(peer, session, frame) => self.0.answer(peer, session, frame),
            Action::Reset(peer, session) => self.0.reset(peer, session),
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

/// Delivery of a new disk, with the writer it reports to, which ends when its second half is dropped.
struct Sending {
    delivery: Arc<Delivery>,
    database: Arc<Database>,
    writer: WriterHandle<Machine>,
    _running: Writer<Machine>,
}

fn sending(me: NodeId, dir: &Path) -> Sending {
    let database = Arc::new(Database::create_file(&dir.join("mesh.redb")).unwrap());
    let delivery = Delivery::new(Arc::clone(&database), Randomness::SYSTEM);
    let site = Site {
        me,
        agents: std::collections::BTreeMap::new(),
        executor: ExecutorView::default(),
        named_executors: Vec::new(),
        jobs: mesh_node_core::site::JobPolicy::default(),
        view: Arc::default(),
    };
    let core = WriterCore::new(
        Arc::clone(&database),
        Machine::new(site),
        HandClock::at(START_WALL_MS),
        Box::new(rand::make_rng::<rand::rngs::StdRng>()),
        Box::new(ToDelivery(Arc::clone(&delivery))),
    );
    let (writer, running) = writer::start(core).unwrap();
    delivery.attach(writer.clone());
    Sending { delivery, database, writer, _running: running }
}

fn lives(database: &Database, peer: NodeId) -> bool {
    let now = Now { node: NodeTime(0), wall_ms: START_WALL_MS };
    outbox::depth(&database.snapshot().unwrap(), now, peer).unwrap().is_some_and(|view| view.live)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_peer_ends_is_begun_again_on_the_same_link() {
    let mesh = Mesh::new(9);
    let (sender, receiver) = (mesh.member(1), mesh.member(2));
    let (ours, theirs) = connect(&sender, &receiver).await;
    let dir = tempfile::tempdir().unwrap();
    let Sending { delivery, _running, .. } = sending(sender.id, dir.path());
    delivery.link_up(&ours);
    let (first, ..) = opened(&theirs).await;
    // The stream is dropped, the connection is not.
    let (second, ..) = opened(&theirs).await;
    assert_ne!(first.session, second.session);
    delivery.link_down(receiver.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discarded_outbox_gets_a_new_session_however_much_is_sent() {
    let mesh = Mesh::new(9);
    let (sender, receiver) = (mesh.member(1), mesh.member(2));
    let (ours, theirs) = connect(&sender, &receiver).await;
    let dir = tempfile::tempdir().unwrap();
    let Sending { delivery, database, writer, _running } = sending(sender.id, dir.path());
    delivery.link_up(&ours);
    let (first, mut answers, _parcels) = opened(&theirs).await;
    let resume = Resume { epoch: first.epoch, mark: 0, chain: Chain::START, tombstones: 0, before: None };
    answers.send_frame(&encode(&ToSender::Resume(resume)), CONTROL_FRAME_BYTES_MAX).await.unwrap();
    soon(async {
        while !lives(&database, receiver.id) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    writer.submit(Event::Command(Command::Discard(receiver.id)), 0).await.unwrap();
    // More is sent all the time, so that the session is never quiet.
    let mut sends = tokio::time::interval(Duration::from_millis(100));
    let next = opened(&theirs);
    tokio::pin!(next);
    let (second, ..) = loop {
        tokio::select! {
            next = &mut next => break next,
            _ = sends.tick() => delivery.grew(receiver.id),
        }
    };
    assert_ne!(first.session, second.session);
    delivery.link_down(receiver.id);
}

/// A session that the peer opens with this node, until it is answered.
async fn answered(theirs: &Connection, delivery: &Arc<Delivery>, ours: &Connection) -> (Sender, Receiver) {
    let (mut asks, mut answers) = theirs.open(StreamKind::Outbox).await.unwrap();
    ask_to_resume(&mut asks).await;
    let (kind, sender, receiver) = soon(ours.accept_stream()).await.unwrap();
    assert_eq!(kind, StreamKind::Outbox);
    delivery.accept(ours.peer(), sender, receiver);
    is_resumed(&mut answers).await;
    (asks, answers)
}

async fn ask_to_resume(asks: &mut Sender) {
    let open = Open { epoch: Epoch([1; 16]), next: 1, acked: 0, session: 7 };
    asks.send_frame(&encode(&ToReceiver::Open(open)), CONTROL_FRAME_BYTES_MAX).await.unwrap();
}

async fn is_resumed(answers: &mut Receiver) {
    let frame = soon(answers.receive_frame(CONTROL_FRAME_BYTES_MAX)).await.unwrap().unwrap();
    assert!(matches!(decode(&frame).unwrap(), ToSender::Resume(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_a_peer_opens_twice_goes_on_where_it_was_opened_last() {
    let mesh = Mesh::new(9);
    let (receiver, peer) = (mesh.member(1), mesh.member(2));
    let (ours, theirs) = connect(&receiver, &peer).await;
    let dir = tempfile::tempdir().unwrap();
    let Sending { delivery, _running, .. } = sending(receiver.id, dir.path());
    for _ in 0..8 {
        let (_asks, mut first) = answered(&theirs, &delivery, &ours).await;
        let (mut asks, mut second) = answered(&theirs, &delivery, &ours).await;
        assert!(!matches!(soon(first.receive_frame(CONTROL_FRAME_BYTES_MAX)).await, Ok(Some(_))), "it ended");
        ask_to_resume(&mut asks).await;
        is_resumed(&mut second).await;
    }
}

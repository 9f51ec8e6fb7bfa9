//! Joining with a ticket.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use mesh_node::identity::{Admission, NodeKey};
use mesh_node::join::{
    Door, Issuer, JoinError, JoinListener, Joined, Redeem, Unavailable, Welcome, redeem_ticket,
};
use mesh_node::transport::{DialCause, Socket};
use mesh_node_core::joining::{self, RedeemRequest, Redemption};
use mesh_node_core::store::{OrderedStore, Overlay};
use mesh_node_core::time::{NodeTime, Now};
use mesh_protocol::codec;
use mesh_protocol::id::TicketId;
use mesh_protocol::join::{EXPORTER_LABEL, JoinProof, JoinRefusal, JoinReply, JoinRequest};
use mesh_protocol::root::RootKey;
use mesh_protocol::ticket::{Ticket, TicketKey};
use tokio::sync::Notify;

use super::fixture::*;
use super::raw::{Costume, connect_raw};

const HOUR_MS: u64 = 3_600_000;
const ISSUER: u8 = 1;

/// The issuer's durable side: a store in memory.
struct Desk {
    store: Mutex<OrderedStore>,
    wall_ms: u64,
    broken: AtomicBool,
    /// Commits and never answers, as a crash at that moment looks to the joiner.
    mute: AtomicBool,
    committed: Notify,
}

impl Desk {
    fn at(wall_ms: u64) -> Arc<Self> {
        Arc::new(Self {
            store: Mutex::default(),
            wall_ms,
            broken: AtomicBool::new(false),
            mute: AtomicBool::new(false),
            committed: Notify::new(),
        })
    }

    fn commit<T>(&self, event: impl FnOnce(&mut Overlay<'_>) -> T) -> T {
        let mut store = self.store.lock().unwrap();
        let mut tx = Overlay::new(&*store);
        let outcome = event(&mut tx);
        let changes = tx.into_changes();
        store.apply(changes);
        outcome
    }

    fn now(&self) -> Now {
        Now { node: NodeTime(0), wall_ms: self.wall_ms }
    }
}

#[derive(Clone)]
struct ToDesk(Arc<Desk>);

impl Redeem for ToDesk {
    async fn redeem(&self, request: RedeemRequest) -> Result<Redemption, Unavailable> {
        if self.0.broken.load(Ordering::Relaxed) {
            return Err(Unavailable);
        }
        let redemption = self.0.commit(|tx| joining::redeem(tx, self.0.now(), request)).unwrap();
        self.0.committed.notify_one();
        if self.0.mute.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(redemption)
    }
}

/// A founder with an open join listener.
struct Founder {
    mesh: Arc<Mesh>,
    desk: Arc<Desk>,
    admission: Arc<Admission>,
    issuer: Arc<Issuer<ToDesk>>,
    listener: JoinListener,
}

fn ticket_key() -> TicketKey {
    TicketKey::new(NodeKey::from_seed(&[ISSUER; 32]).derive_secret(b"ticket-key/1"))
}

impl Founder {
    fn start() -> Self {
        Self::start_with(START_WALL_MS, Welcome::default())
    }

    fn start_with(wall_ms: u64, welcome: Welcome) -> Self {
        let mesh = Arc::new(Mesh::new(1));
        let (desk, admission) = (Desk::at(wall_ms), Arc::new(Admission::default()));
        let issuer = Arc::new(Issuer {
            root: Arc::new(Mesh::new(1).root),
            credentials: mesh.credentials(ISSUER),
            ticket_key: ticket_key(),
            admission: Arc::clone(&admission),
            clock: HandClock::at(wall_ms),
            redeem: ToDesk(Arc::clone(&desk)),
            welcome: Box::new(move || welcome.clone()),
        });
        let listener = JoinListener::open(Socket::Udp(loopback_socket()), Arc::clone(&issuer)).unwrap();
        Self { mesh, desk, admission, issuer, listener }
    }

    fn invite(&self, seed: u8) -> Ticket {
        let (id, now) = (TicketId::from_bytes([seed; 16]), Now { wall_ms: START_WALL_MS, ..Now::default() });
        let expires = self.desk.commit(|tx| joining::issue(tx, now, id, HOUR_MS)).unwrap();
        let root = self.mesh.root.certificate().key().fingerprint();
        let ticket = Ticket {
            id,
            root,
            issuer: self.mesh.credentials(ISSUER).key.node(),
            addresses: vec![self.address()],
            expires_wall_ms: expires,
            secret: ticket_key().secret_of(id, expires, root.mesh()),
        };
        ticket.to_line().parse().unwrap()
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_address().unwrap()
    }
}

fn key(seed: u8) -> NodeKey {
    NodeKey::from_seed(&[seed; 32])
}

async fn join(ticket: &Ticket, seed: u8) -> Result<Joined, JoinError> {
    soon(redeem_ticket(Socket::Udp(loopback_socket()), ticket, &key(seed))).await
}

fn refusal(joined: Result<Joined, JoinError>) -> JoinRefusal {
    match joined.unwrap_err() {
        JoinError::Refused(refusal) => refusal,
        other => panic!("refused otherwise: {other}"),
    }
}

#[tokio::test]
async fn a_ticket_leads_into_the_mesh() {
    let revoked = Mesh::new(1).revoke(3, &[key(9).node()]);
    let welcome = Welcome {
        revocations: Some(revoked.as_bytes().to_vec()),
        addresses: vec![([127, 0, 0, 1], 7_100).into()],
        record: b"a signed record".to_vec(),
    };
    let founder = Founder::start_with(START_WALL_MS, welcome.clone());
    let joined = join(&founder.invite(5), 2).await.unwrap();
    assert_eq!((joined.addresses, joined.record), (welcome.addresses, welcome.record));
    assert_eq!(joined.revocations.unwrap().ver(), 3);
    assert_eq!(joined.issuer, founder.issuer.credentials.key.node());

    let newcomer = Member::start(joined.credentials, START_WALL_MS, settings(2));
    let member = founder.mesh.member(ISSUER);
    let (at_newcomer, at_member) = connect(&newcomer, &member).await;
    assert_eq!((at_newcomer.peer(), at_member.peer()), (member.id, key(2).node()));
}

#[tokio::test]
async fn a_ticket_works_once_and_the_same_node_may_repeat_and_gets_the_same_certificate() {
    let founder = Founder::start();
    let ticket = founder.invite(5);
    let first = join(&ticket, 2).await.unwrap();
    assert_eq!(refusal(join(&ticket, 3).await), JoinRefusal::UsedByOther);
    let again = join(&ticket, 2).await.unwrap();
    assert_eq!(again.credentials.leaf, first.credentials.leaf);
}

#[tokio::test]
async fn a_reply_that_was_lost_after_the_commit_is_given_again() {
    let founder = Founder::start();
    let ticket = founder.invite(5);
    founder.desk.mute.store(true, Ordering::Relaxed);
    let joining = tokio::spawn({
        let ticket = ticket.clone();
        async move { join(&ticket, 2).await.map(|_| ()) }
    });
    soon(founder.desk.committed.notified()).await;
    joining.abort();
    founder.desk.mute.store(false, Ordering::Relaxed);
    join(&ticket, 2).await.unwrap();
    assert_eq!(refusal(join(&ticket, 3).await), JoinRefusal::UsedByOther);
}

#[tokio::test]
async fn a_ticket_ends_by_the_issuers_clock() {
    let founder = Founder::start_with(START_WALL_MS + HOUR_MS + 1, Welcome::default());
    assert_eq!(refusal(join(&founder.invite(5), 2).await), JoinRefusal::Expired);
}

#[tokio::test]
async fn an_altered_ticket_is_no_ticket_and_the_reason_is_not_told() {
    let founder = Founder::start();
    let ticket = founder.invite(5);
    let later = Ticket { expires_wall_ms: ticket.expires_wall_ms + HOUR_MS, ..ticket.clone() };
    let other_id = Ticket { id: TicketId::from_bytes([6; 16]), ..ticket.clone() };
    let other_root = RootKey::from_bytes([7; 32]).fingerprint();
    let guessed = Ticket {
        secret: ticket_key().secret_of(ticket.id, ticket.expires_wall_ms, other_root.mesh()),
        ..ticket.clone()
    };
    for altered in [later, other_id, guessed] {
        assert!(matches!(join(&altered, 2).await, Err(JoinError::Unproven)));
    }
    join(&ticket, 2).await.unwrap();
}

#[tokio::test]
async fn a_withdrawn_ticket_says_so_to_its_holder() {
    let founder = Founder::start();
    let ticket = founder.invite(5);
    assert!(founder.desk.commit(|tx| joining::withdraw(tx, ticket.id)).unwrap());
    assert_eq!(refusal(join(&ticket, 2).await), JoinRefusal::Unknown);
}

#[tokio::test]
async fn a_revoked_node_does_not_come_back_with_a_ticket() {
    let founder = Founder::start();
    founder.admission.apply(&founder.mesh.revoke(1, &[key(2).node()]));
    assert_eq!(refusal(join(&founder.invite(5), 2).await), JoinRefusal::Revoked);
}

#[tokio::test]
async fn an_issuer_that_cannot_write_lets_nobody_in_and_does_not_use_the_ticket_up() {
    let founder = Founder::start();
    let ticket = founder.invite(5);
    founder.desk.broken.store(true, Ordering::Relaxed);
    assert_eq!(refusal(join(&ticket, 2).await), JoinRefusal::Unavailable);
    founder.desk.broken.store(false, Ordering::Relaxed);
    join(&ticket, 3).await.unwrap();
}

#[tokio::test]
async fn a_joiner_talks_to_nobody_but_the_tickets_issuer() {
    let founder = Founder::start();
    let ticket = Ticket { issuer: key(8).node(), ..founder.invite(5) };
    assert!(matches!(join(&ticket, 2).await, Err(JoinError::WrongListener { .. })));
    assert_eq!(founder.listener.counts().admitted, 0);
}

#[tokio::test]
async fn a_joiner_takes_no_root_but_the_tickets() {
    let founder = Founder::start();
    let ticket = founder.invite(5);
    let mut forged = ticket.clone();
    forged.root = RootKey::from_bytes([7; 32]).fingerprint();
    let error = join(&forged, 2).await.unwrap_err();
    assert!(matches!(error, JoinError::FalseRoot), "{error}");
}

#[tokio::test]
async fn a_joiner_takes_no_revocation_list_of_another_mesh() {
    let foreign = Mesh::new(2).revoke(3, &[]).as_bytes().to_vec();
    let founder =
        Founder::start_with(START_WALL_MS, Welcome { revocations: Some(foreign), ..Welcome::default() });
    assert!(matches!(join(&founder.invite(5), 2).await, Err(JoinError::Revocations(_))));
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_is_not_the_issuers() {
    let founder = Founder::start();
    let member = founder.mesh.member(4);
    let mut ticket = founder.invite(5);
    ticket.addresses.insert(0, member.address);
    join(&ticket, 2).await.unwrap();
}

/// Sends one request by hand and returns the reply.
async fn request(connection: &quinn::Connection, request: &JoinRequest) -> JoinReply {
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(&codec::frame(&codec::encode(request), 1_000).unwrap()).await.unwrap();
    send.finish().unwrap();
    let bytes = soon(receive.read_to_end(1_000_000)).await.unwrap();
    codec::decode(&bytes[4..]).unwrap()
}

fn prove(connection: &quinn::Connection, ticket: &Ticket, seed: u8) -> JoinRequest {
    let mut exporter = [0; 32];
    connection.export_keying_material(&mut exporter, EXPORTER_LABEL, b"").unwrap();
    let proof = JoinProof::make(&ticket.secret, &exporter, key(seed).node(), ticket.id);
    JoinRequest { ticket: ticket.id, expires_wall_ms: ticket.expires_wall_ms, proof }
}

#[tokio::test]
async fn a_proof_is_of_no_use_on_another_connection_or_for_another_node() {
    let founder = Founder::start();
    let ticket = founder.invite(5);
    let joiner = |seed| Costume::of(&founder.mesh.credentials(seed)).speaking(b"mesh-join/1").endpoint();
    let (honest, thief) = (joiner(2), joiner(3));
    let overheard = prove(&connect_raw(&honest, founder.address()).await, &ticket, 2);
    let elsewhere = connect_raw(&honest, founder.address()).await;
    assert_eq!(request(&elsewhere, &overheard).await, JoinReply::Unproven);
    let by_thief = connect_raw(&thief, founder.address()).await;
    assert_eq!(request(&by_thief, &overheard).await, JoinReply::Unproven);
    let for_other = connect_raw(&thief, founder.address()).await;
    assert_eq!(request(&for_other, &prove(&for_other, &ticket, 2)).await, JoinReply::Unproven);

    let fresh = connect_raw(&honest, founder.address()).await;
    assert!(matches!(request(&fresh, &prove(&fresh, &ticket, 2)).await, JoinReply::Admitted(_)));
}

#[tokio::test]
async fn a_request_that_is_none_ends_the_connection_and_nothing_else() {
    let founder = Founder::start();
    let joiner = Costume::of(&founder.mesh.credentials(2)).speaking(b"mesh-join/1").endpoint();
    for bytes in [[0, 0, 0, 3, 1, 2, 3].as_slice(), &[0xff; 8], &[0, 0]] {
        let connection = connect_raw(&joiner, founder.address()).await;
        let (mut send, _receive) = connection.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        send.finish().unwrap();
        soon(connection.closed()).await;
    }
    join(&founder.invite(5), 2).await.unwrap();
}

#[tokio::test]
async fn the_members_port_leads_no_joiner_in_and_the_join_port_no_member() {
    let founder = Founder::start();
    let member = founder.mesh.member(ISSUER);
    let ticket = Ticket { addresses: vec![member.address], ..founder.invite(5) };
    assert!(matches!(join(&ticket, 2).await, Err(JoinError::WrongListener { .. })));
    assert_eq!(member.endpoint.counts().accepted, 0);

    let other = founder.mesh.member(3);
    let error = other.dial_at(member.id, founder.address()).await.unwrap_err();
    assert_eq!(error.cause, DialCause::Incompatible);
}

#[tokio::test]
async fn the_join_port_is_closed_while_no_ticket_is_out() {
    let founder = Founder::start();
    let port = loopback_socket().local_addr().unwrap();
    let mut door = Door::new(Arc::clone(&founder.issuer), move || UdpSocket::bind(port).map(Socket::Udp));
    let out = |founder: &Founder| {
        joining::open_until(&*founder.desk.store.lock().unwrap(), founder.desk.now()).unwrap().is_some()
    };
    door.keep(out(&founder)).unwrap();
    assert_eq!(door.address(), None);
    UdpSocket::bind(port).expect("nobody holds the port");

    let ticket = Ticket { addresses: vec![port], ..founder.invite(5) };
    door.keep(out(&founder)).unwrap();
    assert_eq!(door.address(), Some(port));
    join(&ticket, 2).await.unwrap();

    founder.desk.commit(|tx| tx.delete::<joining::IssuedTicket>(&ticket.id));
    door.keep(out(&founder)).unwrap();
    assert_eq!(door.address(), None);
    let rebound = async {
        while UdpSocket::bind(port).is_err() {
            tokio::task::yield_now().await;
        }
    };
    soon(rebound).await;
}

//! What a peer may not do, whatever it sends; and what becomes of its work when it is shut out.

use ed25519_dalek::SigningKey;
use mesh_node_core::broker::conversation::Message;
use mesh_node_core::broker::list;
use mesh_node_core::broker::run::Run;
use mesh_node_core::event::{Action, Caller, Command, Delivery, Event};
use mesh_node_core::jobs::execution::Execution;
use mesh_node_core::jobs::submission::Submission;
use mesh_node_core::limits::{EARLY_STOPS_MAX, SEEN_MS};
use mesh_node_core::policy::GrantChange;
use mesh_node_core::roster::Revocations;
use mesh_node_core::site::Site;
use mesh_node_core::store::{Scan, Store, Table, scan_last};
use mesh_node_core::view::Contact;
use mesh_protocol::api::ask::SendRequest;
use mesh_protocol::api::job::RunRequest;
use mesh_protocol::codec::encode;
use mesh_protocol::delivery::{Content, Epoch, Open, Parcel};
use mesh_protocol::id::{ConversationId, FlightId, JobId, MeshId, MessageId, NodeId};
use mesh_protocol::job::{JobSpec, Language};
use mesh_protocol::message::{AskRequest, JobRequest, PeerMessage, Post, Requester, StopReason};
use mesh_protocol::policy::Trust;
use mesh_protocol::revocation::{Revocation, RevocationKey, RevocationList};

use crate::pair::{A, B, Pair, executor, reply, view};

/// B sends this to A, beside its own outbox.
fn forge(pair: &mut Pair, content: &PeerMessage) {
    let (from, session) = (pair.nodes[B].id, pair.random());
    let mut epoch = [0; 16];
    epoch[..8].copy_from_slice(&session.to_be_bytes());
    let message = MessageId::from_bytes(epoch);
    let open = Open { epoch: Epoch(epoch), next: 2, acked: 0, session };
    let parcel = Parcel { seq: 1, acked: 0, message, content: Content::Body(encode(content)) };
    pair.event(A, Event::Delivery(from, Delivery::Open(open)));
    pair.event(A, Event::Delivery(from, Delivery::Parcel { session, parcel }));
}

fn somebody() -> Requester {
    Requester { name: "mallory".into() }
}

#[test]
fn a_peer_cannot_overwrite_a_message_that_is_here() {
    let mut pair = Pair::new();
    let receipt = pair.ask(A, "@echo.node:a").unwrap();
    let task: Message = pair.row(A, &receipt.message_id);
    let post = Post {
        conversation: receipt.conversation_id,
        message: receipt.message_id,
        from: somebody(),
        to: "echo".parse().unwrap(),
        body: "something else".into(),
    };
    forge(&mut pair, &PeerMessage::Post(post));
    let ask = AskRequest {
        flight: receipt.flight_id.unwrap(),
        conversation: receipt.conversation_id,
        message: receipt.message_id,
        from: somebody(),
        to: "echo".parse().unwrap(),
        task: "something else".into(),
        remaining_ms: 1_000,
        hops: Vec::new(),
    };
    forge(&mut pair, &PeerMessage::Ask(ask));
    assert_eq!(pair.row::<Message>(A, &receipt.message_id), task);
    assert_eq!(pair.count::<Message>(A), 3, "what it said is kept beside it");
}

#[test]
fn a_peer_cannot_refuse_a_message_it_was_not_sent() {
    let mut pair = Pair::new();
    let refused = PeerMessage::PostRefused {
        conversation: ConversationId::from_bytes([1; 16]),
        message: MessageId::from_bytes([2; 16]),
        detail: "x".repeat(500),
    };
    forge(&mut pair, &refused);
    assert_eq!(pair.count::<Message>(A), 0);
}

#[test]
fn a_peer_that_may_not_ask_leaves_no_rows_by_stopping_what_it_never_asked() {
    let mut pair = Pair::new();
    let deny = GrantChange { trust: Some(Trust::None), ..GrantChange::default() };
    let peer = pair.nodes[B].id;
    pair.command(A, Command::Grant(peer, deny)).unwrap();
    let reason = StopReason::Requested;
    forge(&mut pair, &PeerMessage::StopRun { flight: FlightId::from_bytes([1; 16]), reason });
    forge(&mut pair, &PeerMessage::StopJob { job: JobId::from_bytes([1; 16]), reason });
    assert_eq!((pair.count::<Run>(A), pair.count::<Execution>(A)), (0, 0));
}

#[test]
fn so_many_jobs_are_remembered_that_a_peer_stopped_before_they_came_and_it_is_told_when_there_are_more() {
    let mut pair = Pair::new();
    let able = Site { executor: executor(B), ..pair.site(A) };
    pair.replace(A, able);
    let stop = |pair: &mut Pair, n: u64| {
        forge(pair, &PeerMessage::StopJob { job: numbered(n), reason: StopReason::Requested });
        let last = Scan::prefix(&[], 1).backwards();
        let rows = pair.nodes[A].store.scan(Table::OutboxParcels, &last).unwrap();
        let says = |word: &str| rows[0].1.windows(word.len()).any(|bytes| bytes == word.as_bytes());
        (says("cancelled_before_start"), says("too_many_stops"))
    };
    let kept = |pair: &Pair| scan_last::<Execution>(&pair.nodes[A].store, usize::MAX).unwrap().len() as u64;
    for n in 0..EARLY_STOPS_MAX {
        assert_eq!(stop(&mut pair, n), (true, false));
    }
    for n in [EARLY_STOPS_MAX, u64::MAX] {
        assert_eq!((stop(&mut pair, n), kept(&pair)), ((false, true), EARLY_STOPS_MAX));
    }
    // What was stopped is not begun when it comes after all; another is.
    let begins = |pair: &mut Pair, n| {
        let spec = JobSpec::new(Language::Python, "print(1)");
        let request = JobRequest { job: numbered(n), from: somebody(), spec, remaining_ms: 60_000 };
        forge(pair, &PeerMessage::Job(request));
        pair.nodes[A].todo.iter().any(|action| matches!(action, Action::StartJob(..)))
    };
    assert!(!begins(&mut pair, 0));
    assert!(begins(&mut pair, u64::MAX - 1));
    // Once they are forgotten there is room for others.
    pair.pass(SEEN_MS);
    while kept(&pair) > 1 {
        let before = kept(&pair);
        pair.event(A, Event::Due);
        assert!(kept(&pair) < before);
    }
    assert_eq!(stop(&mut pair, 0), (true, false));
}

#[test]
fn asks_that_were_stopped_before_they_came_share_that_room() {
    let mut pair = Pair::new();
    let stop = |pair: &mut Pair, n: u64| {
        let flight = FlightId::from_bytes(*numbered(n).as_bytes());
        forge(pair, &PeerMessage::StopRun { flight, reason: StopReason::Requested });
    };
    forge(&mut pair, &PeerMessage::StopJob { job: numbered(0), reason: StopReason::Requested });
    let room = EARLY_STOPS_MAX - 1;
    let kept = |pair: &Pair| scan_last::<Run>(&pair.nodes[A].store, usize::MAX).unwrap().len() as u64;
    (0..room).for_each(|n| stop(&mut pair, n));
    assert_eq!(kept(&pair), room);
    stop(&mut pair, room);
    assert_eq!(kept(&pair), room, "one more is not remembered");
    // Once they are forgotten there is room for others.
    pair.pass(SEEN_MS);
    while kept(&pair) > 0 {
        pair.event(A, Event::Due);
    }
    stop(&mut pair, 0);
    assert_eq!(kept(&pair), 1);
}

fn numbered(n: u64) -> JobId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    JobId::from_bytes(bytes)
}

#[test]
fn the_work_of_a_blocked_peer_is_stopped_and_what_waits_never_begins() {
    let mut pair = Pair::new();
    pair.link();
    pair.ask(A, "@echo.node:b").unwrap();
    pair.ask(A, "@echo.node:b").unwrap();
    for _ in 0..2 {
        let spec = serde_json::from_str(r#"{"language":"python","code":"print(1)"}"#).unwrap();
        let submission = Submission::of(RunRequest::new(spec)).unwrap();
        pair.command(A, Command::Run(Caller::Operator, Box::new(submission))).unwrap();
    }
    let runs = pair.starts(B);
    let a = pair.nodes[A].id;
    pair.command(B, Command::Block(a, String::new())).unwrap();
    let todo = std::mem::take(&mut pair.nodes[B].todo);
    let count = |wanted: fn(&Action) -> bool| todo.iter().filter(|action| wanted(action)).count();
    assert_eq!(count(|action| matches!(action, Action::StopRun { .. })), 1);
    assert_eq!(count(|action| matches!(action, Action::StopJob { .. })), 1);
    assert_eq!(count(|action| matches!(action, Action::CloseJob(..))), 1);
    let [(origin, flight, attempt)] = runs[..] else { panic!("{runs:?}") };
    pair.event(B, Event::RunEnded { origin, flight, attempt, outcome: reply("done") });
    assert!(pair.starts(B).is_empty());
}

#[test]
fn a_revocation_list_that_is_not_newer_does_not_replace_the_one_in_force() {
    let mut pair = Pair::new();
    let root = SigningKey::from_bytes(&[3; 32]);
    let mesh = MeshId::from_bytes([4; 16]);
    let list = |ver: u64, nodes: &[u8]| {
        let entry =
            |n: &u8| Revocation { node: NodeId::from_bytes([*n; 32]), reason: String::new(), at_wall_ms: 0 };
        RevocationList::sign(&RevocationKey::Root(&root), mesh, ver, nodes.iter().map(entry).collect())
            .unwrap()
    };
    let newer = list(2, &[8, 9]);
    pair.command(A, Command::Revoke(newer.clone())).unwrap();
    for other in [list(1, &[8]), list(2, &[9])] {
        assert_eq!(pair.command(A, Command::Revoke(other)).unwrap_err().code, "revocation_superseded");
    }
    assert_eq!(pair.row::<Revocations>(A, &()).0, newer.as_bytes());
}

#[test]
fn a_message_to_a_node_that_left_is_refused() {
    let mut pair = Pair::new();
    pair.event(A, Event::View(view(A, Contact::Gone)));
    let request = SendRequest { to: "@echo.node:b".into(), body: "hello".into(), request_id: None };
    let refused = pair.command(A, Command::Send(Caller::Operator, request)).unwrap_err();
    assert_eq!(refused.code, "peer_gone");
}

#[test]
fn a_flight_does_not_wait_for_a_node_that_has_it() {
    let mut pair = Pair::new();
    let first = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    let second = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    let shown = |pair: &Pair, id| {
        let row = pair.row(A, &id);
        list::flight(&pair.nodes[A].store, &view(A, Contact::Reachable), pair.now, id, row).unwrap()
    };
    assert_eq!(shown(&pair, first).waiting_on.as_deref(), Some("node b: unreachable"));
    pair.link();
    assert_eq!(shown(&pair, first).waiting_on, None, "it runs");
    assert_eq!(shown(&pair, second).waiting_on, None, "its node has it");
}

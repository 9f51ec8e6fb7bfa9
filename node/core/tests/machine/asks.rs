//! Asks: held, delivered, run once, ended truly.

use mesh_node_core::broker::conversation::Message;
use mesh_node_core::broker::flight::Flight;
use mesh_node_core::broker::run::Run;
use mesh_node_core::event::{Action, Caller, Command, Delivery, Event, Reply};
use mesh_node_core::handler::Handler as _;
use mesh_node_core::limits::{RETAIN_MS, SILENCE_MAX_MS};
use mesh_node_core::machine::Machine;
use mesh_node_core::policy::GrantChange;
use mesh_node_core::turn::Place;
use mesh_protocol::api::ask::CancelReply;
use mesh_protocol::delivery::{Ack, Epoch};
use mesh_protocol::flight::{FailureCode, FlightOutcome, FlightState};
use mesh_protocol::id::{FlightId, NodeId};
use mesh_protocol::message::Hop;
use mesh_protocol::policy::Permission;

use crate::pair::{A, B, Pair, reply};

fn flight(pair: &Pair, id: FlightId) -> Flight {
    pair.row(A, &id)
}

fn failure(pair: &Pair, id: FlightId) -> (FailureCode, bool) {
    match flight(pair, id).outcome {
        Some(FlightOutcome::Failed { code, may_have_run, .. }) => (code, may_have_run),
        other => panic!("{other:?}"),
    }
}

fn cancel(pair: &mut Pair, id: FlightId) -> CancelReply {
    match pair.command(A, Command::CancelFlight(id)).unwrap() {
        Reply::Cancelled(cancelled) => cancelled,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_ask_on_this_node_is_answered_in_its_own_conversation() {
    let mut pair = Pair::new();
    let receipt = pair.ask(A, "@echo.node:a").unwrap();
    pair.answer(A, reply("it"));
    let id = receipt.flight_id.unwrap();
    assert_eq!(flight(&pair, id).state, FlightState::Completed);
    let answer: Message = pair.row(A, &flight(&pair, id).reply_message.unwrap());
    assert_eq!((answer.conversation, answer.body.as_str()), (receipt.conversation_id, "it"));
    assert_eq!(answer.reply_to, Some(receipt.message_id));
}

#[test]
fn an_ask_crosses_the_link_and_its_answer_comes_back() {
    let mut pair = Pair::new();
    pair.link();
    let receipt = pair.ask(A, "@echo.node:b").unwrap();
    assert_eq!(receipt.held, None);
    let id = receipt.flight_id.unwrap();
    assert_eq!(flight(&pair, id).state, FlightState::Running);
    pair.answer(B, reply("it"));
    assert_eq!(flight(&pair, id).outcome, Some(reply("it")));
    let task: Message = pair.row(B, &receipt.message_id);
    assert_eq!(task.from, "a/operator", "the link says which node asked");
}

#[test]
fn an_ask_to_an_unreachable_node_is_held_said_so_and_run_once() {
    let mut pair = Pair::new();
    let receipt = pair.ask(A, "@echo.node:b").unwrap();
    let held = receipt.held.expect("the receipt says that it is held");
    assert_eq!((held.state.as_str(), held.queued), ("unreachable", 1));
    for _ in 0..3 {
        pair.link();
        pair.cut();
    }
    assert_eq!(pair.count::<Run>(B), 1);
    assert_eq!(pair.starts(B).len(), 1, "however often the link comes and goes");
}

#[test]
fn the_origin_may_be_down_when_the_answer_comes() {
    let mut pair = Pair::new();
    pair.link();
    let id = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    pair.cut();
    pair.answer(B, reply("late but here"));
    pair.restart(A);
    pair.link();
    assert_eq!(flight(&pair, id).outcome, Some(reply("late but here")));
}

#[test]
fn never_sent_fails_as_unreachable_and_cannot_have_run() {
    let mut pair = Pair::new();
    let id = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    pair.pass(61_000);
    assert_eq!(failure(&pair, id), (FailureCode::PeerUnreachable, false));
    pair.link();
    assert_eq!(pair.count::<Run>(B), 0, "what failed as never sent is never sent");
}

#[test]
fn sent_and_not_acknowledged_waits_and_ends_by_proof_that_it_never_arrived() {
    let mut pair = Pair::new();
    pair.link();
    pair.go_deaf();
    let id = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    pair.pass(61_000);
    let waiting = flight(&pair, id);
    assert_eq!(waiting.state, FlightState::Waiting);
    assert!(waiting.waiting_on.unwrap().contains("has not acknowledged"));
    pair.link();
    assert_eq!(failure(&pair, id), (FailureCode::PeerUnreachable, false));
    assert!(pair.starts(B).is_empty());
}

#[test]
fn a_node_that_stays_silent_ends_the_ask_after_the_cap_as_perhaps_run() {
    let mut pair = Pair::new();
    pair.link();
    pair.go_deaf();
    let id = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    pair.pass(61_000);
    pair.pass(SILENCE_MAX_MS);
    assert_eq!(failure(&pair, id), (FailureCode::PeerSilent, true));
}

#[test]
fn acknowledged_is_bound_by_its_own_deadline_where_it_runs() {
    let mut pair = Pair::new();
    pair.link();
    let id = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    pair.pass(61_000);
    assert!(!flight(&pair, id).state.is_terminal(), "the origin invents nothing");
    assert!(pair.nodes[B].todo.iter().any(|action| matches!(action, Action::StopRun { .. })));
    pair.answer(B, FlightOutcome::Cancelled { may_have_run: true });
    assert_eq!(failure(&pair, id), (FailureCode::TimedOut, true));
}

#[test]
fn a_late_result_is_kept_beside_the_outcome() {
    let mut pair = Pair::new();
    pair.link();
    let id = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    pair.cut();
    pair.pass(61_000);
    pair.pass(SILENCE_MAX_MS);
    let outcome = flight(&pair, id).outcome;
    pair.answer(B, reply("after all"));
    pair.link();
    let ended = flight(&pair, id);
    assert_eq!(ended.outcome, outcome);
    assert_eq!(ended.late, Some(reply("after all")));
}

#[test]
fn a_cancel_ends_at_once_what_was_never_sent_and_otherwise_goes_after_it() {
    let mut pair = Pair::new();
    let id = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    let cancelled = cancel(&mut pair, id);
    assert_eq!((cancelled.state.as_str(), cancelled.on_its_way), ("cancelled", false));
    assert!(cancel(&mut pair, id).already_terminal);

    pair.link();
    let id = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    assert!(cancel(&mut pair, id).on_its_way);
    assert!(pair.nodes[B].todo.iter().any(|action| matches!(action, Action::StopRun { .. })));
    pair.answer(B, FlightOutcome::Cancelled { may_have_run: true });
    assert_eq!(flight(&pair, id).outcome, Some(FlightOutcome::Cancelled { may_have_run: true }));
}

#[test]
fn what_ran_when_its_node_was_killed_ends_as_restarted_and_is_not_run_again() {
    let mut pair = Pair::new();
    pair.link();
    let id = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    pair.cut();
    pair.restart(B);
    assert!(pair.starts(B).is_empty());
    pair.link();
    assert_eq!(failure(&pair, id), (FailureCode::NodeRestarted, true));
}

#[test]
fn two_asks_to_one_agent_run_one_after_the_other() {
    let mut pair = Pair::new();
    pair.ask(A, "@echo.node:a").unwrap();
    let second = pair.ask(A, "@echo.node:a").unwrap().flight_id.unwrap();
    assert_eq!(flight(&pair, second).state, FlightState::Queued);
    pair.answer(A, reply("one"));
    pair.answer(A, reply("two"));
    assert_eq!(flight(&pair, second).outcome, Some(reply("two")));
}

#[test]
fn asks_of_one_moment_run_in_the_order_they_came_whatever_their_ids_say() {
    let mut pair = Pair::new();
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(pair.ask(A, "@echo.node:a").unwrap().flight_id.unwrap());
        // The next id sorts before this one: the wall clock it is minted by was set back.
        pair.now.wall_ms -= 3_600_000;
    }
    for turn in ["first", "second", "third", "fourth"] {
        pair.answer(A, reply(turn));
    }
    let outcomes: Vec<_> = asked.into_iter().map(|id| flight(&pair, id).outcome).collect();
    assert_eq!(outcomes, ["first", "second", "third", "fourth"].map(|turn| Some(reply(turn))));
}

#[test]
fn a_peer_that_is_not_allowed_is_refused_with_the_remedy() {
    let mut pair = Pair::new();
    let deny = GrantChange { deny: vec![Permission::Ask], ..GrantChange::default() };
    pair.command(B, Command::Grant(pair.nodes[A].id, deny)).unwrap();
    pair.link();
    let id = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    assert_eq!(failure(&pair, id), (FailureCode::Refused, false));
    match flight(&pair, id).outcome {
        Some(FlightOutcome::Failed { remediation: Some(remedy), .. }) => {
            assert!(remedy.contains("mesh-cli allow a ask"), "{remedy}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_ask_that_would_go_in_a_circle_is_refused() {
    let mut pair = Pair::new();
    pair.link();
    let hops = vec![Hop { node: pair.nodes[B].id, agent: "echo".into() }];
    let agent = Caller::Agent { name: "echo".parse().unwrap(), hops };
    let id = pair.ask_as(A, agent, "@echo.node:b", None).unwrap().flight_id.unwrap();
    assert_eq!(failure(&pair, id), (FailureCode::AskLoop, false));
}

#[test]
fn the_same_request_id_gives_the_same_receipt_and_another_content_conflicts() {
    let mut pair = Pair::new();
    let first = pair.ask_as(A, Caller::Operator, "@echo.node:a", Some("once")).unwrap();
    let again = pair.ask_as(A, Caller::Operator, "@echo.node:a", Some("once")).unwrap();
    assert!(again.replayed);
    assert_eq!(first.flight_id, again.flight_id);
    assert_eq!(pair.starts(A).len(), 1);
    let other = pair.ask_as(A, Caller::Operator, "@echo.node:b", Some("once")).unwrap_err();
    assert_eq!(other.code, "idempotency_key_reused");
}

#[test]
fn nobody_but_the_agents_node_may_end_a_flight() {
    let mut pair = Pair::new();
    let id = pair.ask(A, "@echo.node:a").unwrap().flight_id.unwrap();
    pair.link();
    // B says how a flight ended that runs on A.
    let forged = mesh_protocol::message::PeerMessage::RunEnded { flight: id, outcome: reply("forged") };
    let parcel = mesh_protocol::delivery::Parcel {
        seq: 1,
        acked: 0,
        message: mesh_protocol::id::MessageId::from_bytes([9; 16]),
        content: mesh_protocol::delivery::Content::Body(mesh_protocol::codec::encode(&forged)),
    };
    let open = mesh_protocol::delivery::Open {
        epoch: mesh_protocol::delivery::Epoch([5; 16]),
        next: 2,
        acked: 0,
        session: pair.random(),
    };
    let from = pair.nodes[B].id;
    pair.event(A, Event::Delivery(from, Delivery::Open(open)));
    pair.event(A, Event::Delivery(from, Delivery::Parcel { session: open.session, parcel }));
    assert_eq!(flight(&pair, id).state, FlightState::Running);
}

#[test]
fn blocking_a_peer_ends_what_waits_for_it() {
    let mut pair = Pair::new();
    let id = pair.ask(A, "@echo.node:b").unwrap().flight_id.unwrap();
    let peer = pair.nodes[B].id;
    assert!(matches!(pair.command(A, Command::Block(peer, String::new())).unwrap(), Reply::Done(1)));
    assert_eq!(failure(&pair, id), (FailureCode::PeerGone, false));
    assert_eq!(pair.ask(A, "@echo.node:b").unwrap_err().code, "peer_gone");
}

#[test]
fn a_refused_ask_leaves_no_trace() {
    let mut pair = Pair::new();
    let before = pair.nodes[A].store.clone();
    assert_eq!(pair.ask(A, "@nobody").unwrap_err().code, "unknown_target");
    assert_eq!(pair.ask(A, "@echo").unwrap_err().code, "ambiguous_target");
    assert_eq!(pair.nodes[A].store, before);
}

#[test]
fn what_has_ended_is_forgotten_after_a_month_and_nothing_before() {
    let mut pair = Pair::new();
    let empty = pair.nodes[A].store.len();
    let id = pair.ask_as(A, Caller::Operator, "@echo.node:a", Some("once")).unwrap().flight_id.unwrap();
    pair.answer(A, reply("it"));
    pair.pass(RETAIN_MS - 1);
    assert_eq!(flight(&pair, id).outcome, Some(reply("it")));
    pair.pass(2);
    assert_eq!(pair.nodes[A].store.len(), empty, "no row is left of it");
}

#[test]
fn an_ask_that_waits_when_the_node_stops_is_worked_on_after_the_next_start() {
    let mut pair = Pair::new();
    let first = pair.ask(A, "@echo.node:a").unwrap().flight_id.unwrap();
    let second = pair.ask(A, "@echo.node:a").unwrap().flight_id.unwrap();
    pair.event(A, Event::Stopping);
    pair.answer(A, FlightOutcome::Cancelled { may_have_run: true });
    assert_eq!(failure(&pair, first), (FailureCode::NodeRestarted, true), "nobody cancelled it");
    assert!(pair.starts(A).is_empty(), "a node that stops begins nothing");
    pair.restart(A);
    assert_eq!(pair.starts(A).iter().map(|(_, flight, _)| *flight).collect::<Vec<_>>(), [second]);
}

#[test]
fn a_session_that_another_opening_crossed_lives_no_more() {
    let mut pair = Pair::new();
    pair.link();
    let (peer, session) = (pair.nodes[B].id, pair.session(A));
    assert!(pair.lives(A, session));
    pair.event(A, Event::Delivery(peer, Delivery::Begin { session: session + 1_000 }));
    assert!(!pair.lives(A, session), "whoever holds its stream must learn this");
}

#[test]
fn a_session_whose_outbox_was_discarded_lives_no_more() {
    let mut pair = Pair::new();
    pair.link();
    let (peer, session) = (pair.nodes[B].id, pair.session(A));
    assert!(pair.lives(A, session));
    pair.command(A, Command::Discard(peer)).unwrap();
    assert!(!pair.lives(A, session), "whoever holds its stream must learn this, also while more is sent");
}

#[test]
fn an_acknowledgement_that_lets_a_parcel_out_does_not_come_again_by_itself() {
    let peer = NodeId::from_bytes([2; 32]);
    let ack = Ack { epoch: Epoch([1; 16]), mark: 1 };
    let event = Event::Delivery(peer, Delivery::Ack { session: 1, ack });
    let arrived = Action::Acknowledged(peer, Place { epoch: ack.epoch, seq: ack.mark });
    assert!(Machine::comes_again(&event, std::slice::from_ref(&arrived)));
    assert!(!Machine::comes_again(&event, &[arrived, Action::OutboxGrew(peer)]));
    assert!(!Machine::comes_again(&Event::Due, &[]));
}

//! A host that is cut off and comes back.

use mesh_protocol::api::ask::DeliveryPhase;
use mesh_protocol::api::node::PeerStatus;
use mesh_protocol::flight::{FailureCode, FlightOutcome, FlightState};
use mesh_tests::network::Network;

use crate::node::{NO_JOBS, Node, agent, lines, succeeded};

/// Two nodes, the second with an agent that notes each run in a file before it answers.
async fn pair(network: &Network, root: &std::path::Path) -> (Node, Node) {
    let count = agent("count", &format!("cat >> {0}/runs; echo >> {0}/runs; echo done", root.display()));
    let atlas = Node::found(root, network.host(0), "atlas", NO_JOBS).await;
    let nova = atlas.join(root, network.host(1), "nova", &format!("{NO_JOBS}{count}")).await;
    // Its agents are known with its record, which may come after its first sign of life.
    let receipt = atlas.ask("@count", "first", None).await;
    atlas.ended(&receipt).await;
    (atlas, nova)
}

fn done() -> Option<FlightOutcome> {
    Some(FlightOutcome::Completed { reply: "done".into() })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_to_a_host_that_is_cut_off_is_held_and_runs_once_when_it_is_back() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, nova) = pair(&network, root.path()).await;

    network.cut(&nova.host).unwrap();
    let away = atlas.peer_when("nova", "unreachable, and why", |peer| {
        peer.state == "unreachable" && peer.last_error.as_ref().is_some_and(|error| error.contains(" at "))
    });
    let away = away.await;
    assert!(!away.cause.unwrap().is_empty());
    assert!(away.path.is_none(), "there is no link left");
    assert!(away.last_error.as_ref().unwrap().contains(&nova.host.ip().to_string()), "{:?}", away.last_error);

    let receipt = atlas.ask("@count", "held", None).await;
    let held = receipt.held.clone().expect("the receipt says that it is held");
    assert_eq!((held.state.as_str(), held.queued), ("unreachable", 1));
    assert!(!held.cause.is_empty() && held.queued_bytes > 0, "{held:?}");
    let outbox = atlas.peer_when("nova", "it waits", |peer| peer.outbox.count == 1).await.outbox;
    assert!(outbox.oldest_age_ms.is_some(), "{outbox:?}");

    network.heal(&nova.host).unwrap();
    assert_eq!(atlas.ended(&receipt).await.outcome, done());
    atlas.peer_when("nova", "healed", |peer| peer.state == "alive" && peer.path.is_some()).await;
    atlas.peer_when("nova", "nothing waits", |peer| peer.outbox.count == 0).await;
    assert_eq!(lines(&root.path().join("runs")), ["first", "held"], "each ran once");
}

#[tokio::test(flavor = "multi_thread")]
async fn status_says_of_each_peer_its_state_since_when_why_and_whom_else_it_answers() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), network.host(0), "atlas", NO_JOBS).await;
    let nova = atlas.join(root.path(), network.host(1), "nova", NO_JOBS).await;
    let vega = atlas.join(root.path(), network.host(2), "vega", NO_JOBS).await;
    vega.sees("nova", "alive").await;
    // Or they would be linked through it.
    for peer in ["nova", "vega"] {
        succeeded(&atlas.cli(&["deny", peer, "relay"], ""));
    }

    network.part(&nova.host, &vega.host).unwrap();
    let answers = |peer: &PeerStatus| {
        peer.state == "unreachable"
            && peer.cause.as_ref().is_some_and(|cause| cause.contains("it answers atlas"))
    };
    let away = vega.peer_when("nova", "unreachable from here alone", answers).await;
    assert!(away.since_ms.is_some() && away.path.is_none(), "{away:?}");
    assert!(away.last_error.is_some(), "{away:?}");
    let there = vega.sees("atlas", "alive").await;
    assert!(there.since_ms.is_some() && there.path.is_some(), "{there:?}");
    let page = succeeded(&vega.cli(&["status", "--json"], ""));
    assert!(page.contains("it answers atlas") && page.contains("since_ms"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_that_was_never_sent_fails_at_its_deadline_and_cannot_have_run() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, nova) = pair(&network, root.path()).await;

    network.cut(&nova.host).unwrap();
    atlas.sees("nova", "unreachable").await;
    let receipt = atlas.ask("@count", "too late", Some(1)).await;
    match atlas.ended(&receipt).await.outcome {
        Some(FlightOutcome::Failed { code: FailureCode::PeerUnreachable, may_have_run: false, .. }) => {}
        other => panic!("{other:?}"),
    }

    network.heal(&nova.host).unwrap();
    let after = atlas.ask("@count", "in time", None).await;
    assert_eq!(atlas.ended(&after).await.outcome, done());
    assert_eq!(lines(&root.path().join("runs")), ["first", "in time"], "what failed never ran");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_that_was_sent_into_the_void_waits_past_its_deadline_and_then_tells_the_truth() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, nova) = pair(&network, root.path()).await;

    // The link is up on this side still, so it is sent; no answer can come.
    network.cut(&nova.host).unwrap();
    let receipt = atlas.ask("@count", "into the void", Some(2)).await;
    let sent = atlas.flight_when(&receipt, "it is sent", |f| f.delivery == DeliveryPhase::Sent).await;
    assert!(!sent.terminal);
    let waiting = atlas.flight_when(&receipt, "it waits", |f| f.state == FlightState::Waiting).await;
    assert!(waiting.waiting_on.unwrap().contains("nova"), "whom it waits for is named");
    atlas.sees("nova", "unreachable").await;
    let still = atlas.flight_when(&receipt, "it is there", |_| true).await;
    assert_eq!(still.state, FlightState::Waiting, "no outcome is invented");

    network.heal(&nova.host).unwrap();
    let outcome = atlas.ended(&receipt).await.outcome.unwrap();
    let runs = lines(&root.path().join("runs"));
    match runs.len() {
        1 => assert!(!matches!(outcome, FlightOutcome::Completed { .. }), "{outcome:?}"),
        2 => assert!(outcome.may_have_run(), "{outcome:?}"),
        _ => panic!("it ran more than once: {runs:?}"),
    }
    let after = atlas.ask("@count", "after", None).await;
    assert_eq!(atlas.ended(&after).await.outcome, done());
    assert_eq!(lines(&root.path().join("runs")).len(), runs.len() + 1, "it did not run later");
}

//! Asks across whole nodes.

use mesh_node::service::MessageFilter;
use mesh_protocol::api::ask::{AskCommand, FlightView, SendRequest};
use mesh_protocol::flight::{FailureCode, FlightOutcome, FlightState};
use mesh_protocol::policy::Trust;

use crate::mesh::{ECHO, Node};

fn ask(to: &str, task: &str) -> AskCommand {
    AskCommand { to: to.into(), task: task.into(), request_id: None, deadline_seconds: None }
}

async fn answer(node: &Node, to: &str, task: &str) -> FlightView {
    let receipt = node.client.ask(&ask(to, task)).await.unwrap();
    node.client.flight(&receipt.flight_id.unwrap().to_string(), 20).await.unwrap()
}

fn reply(text: &str) -> Option<FlightOutcome> {
    Some(FlightOutcome::Completed { reply: text.into() })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_crosses_two_nodes_and_the_answer_comes_back() {
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), "atlas", "", Trust::Mine).await;
    let nova = atlas.join(root.path(), "nova", ECHO, Trust::Mine).await;
    atlas.sees("nova", "alive").await;
    nova.sees("atlas", "alive").await;
    let flight = answer(&atlas, "@echo", "say this back").await;
    assert_eq!(flight.outcome, reply("say this back"));
    assert_eq!(flight.target.to_string(), "@echo.node:nova");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_to_a_stopped_node_is_held_and_answered_once_it_is_back() {
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), "atlas", "", Trust::Mine).await;
    let log = root.path().join("runs");
    let agent = format!(
        "[[agent]]\nname = \"count\"\ncommand = [\"/bin/sh\", \"-c\", \"echo run >> {0}; cat\"]\n",
        log.display()
    );
    let nova = atlas.join(root.path(), "nova", &agent, Trust::Mine).await;
    atlas.sees("nova", "alive").await;
    let home = nova.stop().await;
    atlas.sees("nova", "unreachable").await;
    let receipt = atlas.client.ask(&ask("@count", "later")).await.unwrap();
    let held = receipt.held.expect("the receipt says that it is held");
    assert_eq!((held.state.as_str(), held.queued), ("unreachable", 1));
    assert!(!held.cause.is_empty());
    let nova = Node::start(home).await;
    let flight = atlas.client.flight(&receipt.flight_id.unwrap().to_string(), 20).await.unwrap();
    assert_eq!(flight.outcome, reply("later"));
    nova.stop().await;
    assert_eq!(std::fs::read_to_string(log).unwrap(), "run\n", "it ran once");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_message_learns_that_it_arrived_or_that_it_did_not_yet() {
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), "atlas", "", Trust::Mine).await;
    let nova = atlas.join(root.path(), "nova", ECHO, Trust::Mine).await;
    atlas.sees("nova", "alive").await;
    let say =
        |body: &str| SendRequest { to: "@echo".into(), body: body.into(), request_id: Some(body.into()) };
    assert_eq!(atlas.client.send(&say("at-once"), 0).await.unwrap().state, "accepted");
    assert_eq!(atlas.client.send(&say("there"), 20).await.unwrap().state, "delivered");
    assert_eq!(nova.client.messages(&MessageFilter::default(), 1).await.unwrap()[0].body, "there");

    let home = nova.stop().await;
    atlas.sees("nova", "unreachable").await;
    let held = atlas.client.send(&say("later"), 1).await.unwrap();
    assert_eq!((held.state.as_str(), held.held.map(|held| held.queued)), ("accepted", Some(1)));
    let waiting = tokio::spawn({
        let (client, later) = (atlas.client.clone(), say("later"));
        async move { client.send(&later, 20).await.unwrap() }
    });
    let _nova = Node::start(home).await;
    let receipt = waiting.await.unwrap();
    assert_eq!((receipt.state.as_str(), receipt.replayed, receipt.held), ("delivered", true, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_origin_may_be_down_when_the_answer_comes() {
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), "atlas", "", Trust::Mine).await;
    let go = root.path().join("go");
    let agent = format!(
        "[[agent]]\nname = \"slow\"\ncommand = [\"/bin/sh\", \"-c\", \"until [ -e {0} ]; do sleep 0.05; done; cat\"]\n",
        go.display()
    );
    let nova = atlas.join(root.path(), "nova", &agent, Trust::Mine).await;
    atlas.sees("nova", "alive").await;
    let receipt = atlas.client.ask(&ask("@slow", "patience")).await.unwrap();
    let id = receipt.flight_id.unwrap().to_string();
    while atlas.client.flight(&id, 1).await.unwrap().state != FlightState::Running {}
    let home = atlas.stop().await;
    std::fs::write(go, "").unwrap();
    nova.status_when("the answer waits in the outbox", |s| s.peers.iter().any(|p| p.outbox.count > 0)).await;
    let atlas = Node::start(home).await;
    assert_eq!(atlas.client.flight(&id, 20).await.unwrap().outcome, reply("patience"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_ask_kills_the_agent_and_ends_cancelled() {
    let root = tempfile::tempdir().unwrap();
    let agent = "[[agent]]\nname = \"forever\"\ncommand = [\"/bin/sleep\", \"1000\"]\n";
    let atlas = Node::found(root.path(), "atlas", agent, Trust::Mine).await;
    let receipt = atlas.client.ask(&ask("@forever", "stay")).await.unwrap();
    let id = receipt.flight_id.unwrap().to_string();
    while atlas.client.flight(&id, 1).await.unwrap().state != FlightState::Running {}
    atlas.client.cancel_flight(&id).await.unwrap();
    let flight = atlas.client.flight(&id, 20).await.unwrap();
    assert_eq!(flight.outcome, Some(FlightOutcome::Cancelled { may_have_run: true }));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_fails_says_how() {
    let root = tempfile::tempdir().unwrap();
    let agent =
        "[[agent]]\nname = \"broken\"\ncommand = [\"/bin/sh\", \"-c\", \"echo the reason >&2; exit 3\"]\n";
    let atlas = Node::found(root.path(), "atlas", agent, Trust::Mine).await;
    match answer(&atlas, "@broken", "try").await.outcome {
        Some(FlightOutcome::Failed {
            code: FailureCode::EngineFailed, detail, may_have_run: true, ..
        }) => {
            assert!(detail.contains("the reason"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_that_waits_when_its_node_stops_is_answered_after_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let agent = "[[agent]]\nname = \"reader\"\ncommand = \
                 [\"/bin/sh\", \"-c\", \"read -r task; [ $task = slow ] && sleep 1000; echo $task\"]\n";
    let atlas = Node::found(root.path(), "atlas", agent, Trust::Mine).await;
    let slow = atlas.client.ask(&ask("@reader", "slow")).await.unwrap().flight_id.unwrap().to_string();
    let next = atlas.client.ask(&ask("@reader", "next")).await.unwrap().flight_id.unwrap().to_string();
    while atlas.client.flight(&slow, 1).await.unwrap().state != FlightState::Running {}
    let atlas = Node::start(atlas.stop().await).await;
    match atlas.client.flight(&slow, 20).await.unwrap().outcome {
        Some(FlightOutcome::Failed { code: FailureCode::NodeRestarted, may_have_run: true, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(atlas.client.flight(&next, 20).await.unwrap().outcome, reply("next"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_does_not_see_the_messages_of_its_namesake_on_another_node() {
    let root = tempfile::tempdir().unwrap();
    let leak = "[[agent]]\nname = \"echo\"\ncommand = [\"/bin/sh\", \"-c\", \
                \"umask 077; printf %s $MESH_TOKEN > $MESH_HOME/t; mv $MESH_HOME/t $MESH_HOME/token; sleep 1000\"]\n";
    let atlas = Node::found(root.path(), "atlas", leak, Trust::Mine).await;
    let nova = atlas.join(root.path(), "nova", ECHO, Trust::Mine).await;
    atlas.sees("nova", "alive").await;
    nova.sees("atlas", "alive").await;
    answer(&atlas, "@echo.node:nova", "for the other one").await;
    atlas.client.ask(&ask("@echo.node:atlas", "for this one")).await.unwrap();
    let agent = atlas.client_with(&root.path().join("atlas/token")).await;
    let seen = agent.messages(&MessageFilter::default(), 100).await.unwrap();
    assert_eq!(seen.iter().map(|message| message.body.as_str()).collect::<Vec<_>>(), ["for this one"]);
}

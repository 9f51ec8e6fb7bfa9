//! Both ends of a link killed again and again, with work under way.
//!
//! The sender's clients repeat a request, under its own id, until it is accepted: what was accepted is then known. What
//! was accepted must be at the receiver, once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mesh_node::client::{Client, ClientError};
use mesh_node::service::{LIST_ROWS_MAX, MessageFilter};
use mesh_protocol::api::ask::{AskCommand, Receipt, SendRequest};
use mesh_protocol::flight::{FailureCode, FlightOutcome};
use mesh_tests::network::Network;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};

use crate::node::{NO_JOBS, Node, WITHIN, agent, lines, until};

/// Rounds; in each both ends are killed once. `MESH_KILL_ROUNDS` sets another number.
const ROUNDS: usize = 6;
/// Clients that give work at once, so that a kill hits several requests under way.
const CLIENTS: usize = 4;
/// Requests of one client in one round; every third is an ask, the others are messages.
const REQUESTS: usize = 12;

fn rounds() -> usize {
    std::env::var("MESH_KILL_ROUNDS").ok().map_or(ROUNDS, |text| text.parse().expect("a number of rounds"))
}

/// Repeats a request until the node accepts it, however often the node is killed meanwhile.
async fn accepted<F: Future<Output = Result<Receipt, ClientError>>>(request: impl Fn() -> F) -> Receipt {
    let deadline = Instant::now() + WITHIN;
    loop {
        match request().await {
            Ok(receipt) => return receipt,
            Err(ClientError::Refused(error)) if !error.retryable && error.code != "shutting_down" => {
                panic!("{error:?}")
            }
            Err(error) => assert!(Instant::now() < deadline, "{error:?}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// What one client was told of what it gave.
#[derive(Default)]
struct Accepted {
    messages: Vec<String>,
    asks: Vec<Receipt>,
}

/// One client's work in one round, counted as it is accepted. `name` begins with the round.
async fn work(client: Client, name: String, count: Arc<AtomicUsize>) -> Accepted {
    let mut given = Accepted::default();
    for number in 0..REQUESTS {
        let (to, text) = ("@note".to_owned(), format!("{name}-{number}"));
        let request_id = Some(text.clone());
        if number % 3 == 0 {
            let command = AskCommand { to, task: text, request_id, deadline_seconds: None };
            given.asks.push(accepted(|| client.ask(&command)).await);
        } else {
            let request = SendRequest { to, body: text.clone(), request_id };
            accepted(|| client.send(&request, 0)).await;
            given.messages.push(text);
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
    given
}

/// The bodies of this round's messages, with how often each is recorded at a node.
async fn recorded(node: &Node, round: usize) -> BTreeMap<String, usize> {
    let newest = node.client.messages(&MessageFilter::default(), LIST_ROWS_MAX).await.unwrap();
    let mut bodies = BTreeMap::new();
    let work = format!("{round}-");
    for message in newest.into_iter().filter(|message| message.body.starts_with(&work)) {
        *bodies.entry(message.body).or_default() += 1;
    }
    bodies
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_arrives_once_however_often_both_ends_are_killed() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let runs = root.path().join("runs");
    let note = agent("note", &format!("cat > /dev/null; echo $MESH_FLIGHT >> {}; echo done", runs.display()));
    let mut atlas = Node::found(root.path(), network.host(0), "atlas", NO_JOBS).await;
    let mut nova = atlas.join(root.path(), network.host(1), "nova", &format!("{NO_JOBS}{note}")).await;

    let mut asked = Vec::new();
    for round in 0..rounds() {
        let count = Arc::new(AtomicUsize::new(0));
        let mut working = JoinSet::new();
        for client in 0..CLIENTS {
            working.spawn(work(atlas.client.clone(), format!("{round}-{client}"), Arc::clone(&count)));
        }
        // At other moments in every round, and in turn the one or the other first.
        let first = 1 + round * 7 % (CLIENTS * REQUESTS / 2);
        until("the first kill's moment", || count.load(Ordering::Relaxed) >= first).await;
        let (one, other) = if round % 2 == 0 { (&mut nova, &mut atlas) } else { (&mut atlas, &mut nova) };
        one.kill();
        one.start().await;
        until("the second kill's moment", || count.load(Ordering::Relaxed) >= first + CLIENTS).await;
        other.kill();
        other.start().await;
        let given = tokio::time::timeout(WITHIN, working.join_all()).await.expect("all of it is accepted");

        nova.peer_when("atlas", "linked", |peer| peer.path.is_some()).await;
        atlas.peer_when("nova", "all is delivered", |peer| peer.outbox.count == 0).await;
        let texts = given.iter().flat_map(|client| &client.messages);
        let tasks = given.iter().flat_map(|client| &client.asks);
        let listed = recorded(&nova, round).await;
        let once: BTreeMap<String, usize> = texts.map(|text| (text.clone(), 1)).collect();
        assert!(
            once.iter().all(|text| listed.get_key_value(text.0) == Some(text)),
            "round {round}: {listed:?}"
        );
        assert_eq!(listed.len(), once.len() + tasks.count(), "round {round}: nothing else");
        asked.extend(given.into_iter().flat_map(|client| client.asks));
    }

    let mut completed = BTreeSet::new();
    let mut interrupted = BTreeSet::new();
    for receipt in &asked {
        let flight = atlas.ended(receipt).await;
        match flight.outcome.unwrap() {
            FlightOutcome::Completed { .. } => completed.insert(flight.flight_id.to_string()),
            FlightOutcome::Failed { code: FailureCode::NodeRestarted, may_have_run: true, .. } => {
                interrupted.insert(flight.flight_id.to_string())
            }
            other => panic!("{other:?}"),
        };
    }
    let ran = lines(&runs);
    let distinct: BTreeSet<String> = ran.iter().cloned().collect();
    assert_eq!(distinct.len(), ran.len(), "no ask ran twice");
    assert!(completed.is_subset(&distinct), "every ask that is answered ran");
    let unanswered: BTreeSet<String> = distinct.difference(&completed).cloned().collect();
    assert!(unanswered.is_subset(&interrupted), "what ran and is not answered was interrupted, and says so");
    assert_eq!(completed.len() + interrupted.len(), asked.len(), "every ask has one flight");
    // At most the one that was at work when the receiver was killed.
    assert!(interrupted.len() <= rounds(), "{interrupted:?}");
}

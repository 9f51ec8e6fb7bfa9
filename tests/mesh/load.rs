//! Work between two nodes, both ways at once, and the books over it.
//!
//! Clients repeat a request, under its own id, until it is accepted: what was accepted is then known. A message that was
//! accepted must be recorded at the other end, once. An ask that was accepted must end, with an answer or with the word
//! that its run was interrupted, and must not have run twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mesh_node::client::{Client, ClientError};
use mesh_node::service::{LIST_ROWS_MAX, MessageFilter};
use mesh_protocol::api::ask::{AskCommand, Receipt, SendRequest};
use mesh_protocol::flight::{FailureCode, FlightOutcome};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};

use crate::node::{NO_JOBS, Node, WITHIN, agent, lines, until};

/// Clients that give work at once in one direction, so that a fault hits several requests under way.
const CLIENTS: usize = 3;
/// Requests of one client in one round; every third is an ask, the others are messages.
const REQUESTS: usize = 12;
/// Requests of one round, both ways.
pub(crate) const REQUESTS_IN_A_ROUND: usize = 2 * CLIENTS * REQUESTS;

/// A node's configuration: an agent that notes each of its runs.
pub(crate) fn noting(root: &Path, name: &str) -> String {
    let file = runs(root, name);
    let script = format!("cat > /dev/null; echo $MESH_FLIGHT >> {}; echo done", file.display());
    format!("{NO_JOBS}{}", agent("note", &script))
}

fn runs(root: &Path, name: &str) -> PathBuf {
    root.join(format!("runs-{name}"))
}

/// Repeats a request until the node accepts it, whatever happens to the node meanwhile.
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

/// What was accepted in one direction.
#[derive(Default)]
struct Accepted {
    messages: Vec<String>,
    asks: Vec<Receipt>,
}

/// One client's work in one round, counted as it is accepted. Every text begins with `name`.
async fn work(client: Client, to: String, name: String, count: Arc<AtomicUsize>) -> Accepted {
    let mut given = Accepted::default();
    for number in 0..REQUESTS {
        let (to, text) = (to.clone(), format!("{name}-{number}"));
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

/// One round of work between two nodes.
pub(crate) struct Round {
    number: usize,
    count: Arc<AtomicUsize>,
    working: [JoinSet<Accepted>; 2],
}

impl Round {
    /// Begins it.
    pub(crate) fn begin(number: usize, one: &Node, other: &Node) -> Self {
        let count = Arc::new(AtomicUsize::new(0));
        let working = [(one, other), (other, one)].map(|(from, to)| {
            let mut working = JoinSet::new();
            for client in 0..CLIENTS {
                let (address, name) =
                    (format!("@note.node:{}", to.name), format!("{}-{client}", texts(number, to)));
                working.spawn(work(from.client.clone(), address, name, Arc::clone(&count)));
            }
            working
        });
        Self { number, count, working }
    }

    /// Waits until so many requests were accepted.
    pub(crate) async fn reached(&self, requests: usize) {
        until("the moment for the next fault", || self.count.load(Ordering::Relaxed) >= requests).await;
    }

    /// Waits until all of it is accepted and delivered, and closes the books: how many asks were answered, and how many
    /// said that they were interrupted.
    pub(crate) async fn settle(self, root: &Path, one: &Node, other: &Node) -> (usize, usize) {
        let number = self.number;
        let [there, back] = self.working;
        let all = async { [there.join_all().await, back.join_all().await] };
        let [there, back] = tokio::time::timeout(WITHIN, all).await.expect("all of it is accepted");
        for (node, peer) in [(one, other), (other, one)] {
            node.peer_when(&peer.name, "linked", |peer| peer.path.is_some()).await;
            node.peer_when(&peer.name, "all is delivered", |peer| peer.outbox.count == 0).await;
        }
        let (mut answered, mut interrupted) = (0, 0);
        for (from, to, given) in [(one, other, there), (other, one, back)] {
            let texts: Vec<&String> = given.iter().flat_map(|client| &client.messages).collect();
            let asks: Vec<&Receipt> = given.iter().flat_map(|client| &client.asks).collect();
            let listed = recorded(to, number).await;
            assert!(texts.iter().all(|text| listed.get(*text) == Some(&1)), "round {number}: {listed:?}");
            assert!(listed.values().all(|times| *times == 1), "round {number}: {listed:?}");
            assert_eq!(listed.len(), texts.len() + asks.len(), "round {number}: nothing else");
            let (done, cut) = outcomes(from, &asks).await;
            let ran = lines(&runs(root, &to.name));
            let distinct: BTreeSet<String> = ran.iter().cloned().collect();
            assert_eq!(distinct.len(), ran.len(), "round {number}: no ask ran twice");
            assert!(done.is_subset(&distinct), "round {number}: every ask that is answered ran");
            assert_eq!(done.len() + cut.len(), asks.len(), "round {number}: every ask ended, each once");
            answered += done.len();
            interrupted += cut.len();
        }
        (answered, interrupted)
    }
}

/// How texts of one round to one node begin.
fn texts(round: usize, to: &Node) -> String {
    format!("{round}-{}", to.name)
}

/// The bodies of this round's messages to a node, with how often each is recorded there.
async fn recorded(node: &Node, round: usize) -> BTreeMap<String, usize> {
    let newest = node.client.messages(&MessageFilter::default(), LIST_ROWS_MAX).await.unwrap();
    let (mut bodies, begins) = (BTreeMap::new(), format!("{}-", texts(round, node)));
    for message in newest.into_iter().filter(|message| message.body.starts_with(&begins)) {
        *bodies.entry(message.body).or_default() += 1;
    }
    bodies
}

/// The flights that were answered, and those that say that their run was interrupted.
async fn outcomes(node: &Node, asks: &[&Receipt]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut answered, mut interrupted) = (BTreeSet::new(), BTreeSet::new());
    for receipt in asks {
        let flight = node.ended(receipt).await;
        match flight.outcome.unwrap() {
            FlightOutcome::Completed { .. } => answered.insert(flight.flight_id.to_string()),
            FlightOutcome::Failed { code: FailureCode::NodeRestarted, may_have_run: true, .. } => {
                interrupted.insert(flight.flight_id.to_string())
            }
            other => panic!("{other:?}"),
        };
    }
    (answered, interrupted)
}

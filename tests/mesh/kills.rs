//! Both ends of a link killed again and again, and the link itself broken again and again, with work under way both
//! ways. After each round the books have to balance ([`crate::load`]).

use mesh_tests::network::Network;
use tokio::time::{Duration, sleep};

use crate::load::{REQUESTS_IN_A_ROUND, Round, noting};
use crate::node::Node;

/// Rounds of a loop. `MESH_KILL_ROUNDS` sets another number.
const ROUNDS: usize = 10;

fn rounds() -> usize {
    std::env::var("MESH_KILL_ROUNDS").ok().map_or(ROUNDS, |text| text.parse().expect("a number of rounds"))
}

async fn pair(network: &Network, root: &std::path::Path) -> (Node, Node) {
    let atlas = Node::found(root, network.host(0), "atlas", &noting(root, "atlas")).await;
    let nova = atlas.join(root, network.host(1), "nova", &noting(root, "nova")).await;
    // Agents of a peer are known with its record, which may come after its first sign of life.
    for (node, to) in [(&atlas, "@note.node:nova"), (&nova, "@note.node:atlas")] {
        let receipt = node.ask(to, "first", None).await;
        node.ended(&receipt).await;
    }
    (atlas, nova)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_arrives_once_however_often_both_ends_are_killed() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (mut atlas, mut nova) = pair(&network, root.path()).await;
    let (mut answered, mut interrupted) = (0, 0);
    for number in 0..rounds() {
        let round = Round::begin(number, &atlas, &nova);
        // At other moments in every round, and in turn the one or the other first.
        let first = 1 + number * 11 % (REQUESTS_IN_A_ROUND / 2);
        round.reached(first).await;
        let (one, other) = if number % 2 == 0 { (&mut nova, &mut atlas) } else { (&mut atlas, &mut nova) };
        one.kill();
        one.start().await;
        round.reached(first + 6).await;
        other.kill();
        other.start().await;
        let (done, cut) = round.settle(root.path(), &atlas, &nova).await;
        // At most the run that was at work at each kill.
        assert!(cut <= 2, "round {number}: {cut}");
        (answered, interrupted) = (answered + done, interrupted + cut);
    }
    eprintln!("{} kills: {answered} asks answered, {interrupted} interrupted and said so", 2 * rounds());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_arrives_once_however_often_the_link_breaks() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, nova) = pair(&network, root.path()).await;
    let mut answered = 0;
    for number in 0..rounds() {
        let round = Round::begin(number, &atlas, &nova);
        for flap in 0..3_u64 {
            round.reached(1 + usize::try_from(flap).unwrap() * 8).await;
            network.cut(&nova.host).unwrap();
            // From a hiccup to longer than a probe waits.
            sleep(Duration::from_millis(50 + 400 * flap * (1 + u64::try_from(number % 3).unwrap()))).await;
            network.heal(&nova.host).unwrap();
        }
        let (done, cut) = round.settle(root.path(), &atlas, &nova).await;
        assert_eq!(cut, 0, "round {number}: nobody was restarted");
        answered += done;
    }
    eprintln!("{} cuts: {answered} asks answered", 3 * rounds());
}

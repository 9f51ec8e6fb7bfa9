//! Hosts that do not reach each other and both reach a third: the third carries their packets, and knows nothing of them.

use std::path::{Path, PathBuf};

use mesh_protocol::api::ask::Receipt;
use mesh_protocol::api::mesh::{RouteView, TriedView};
use mesh_protocol::api::node::PeerStatus;
use mesh_protocol::flight::FlightOutcome;
use mesh_tests::network::Network;

use crate::node::{NO_JOBS, Node, agent, lines, succeeded};

/// Asks that are under way when the relay is killed.
const ASKS: usize = 30;

/// An agent that notes each task in a file of its node's before it answers with it.
fn noting(root: &Path, name: &str) -> String {
    let (agents, file) = (NO_JOBS, ran(root, name));
    let file = file.display();
    format!("{agents}{}", agent(name, &format!("tee -a {file}; echo >> {file}")))
}

/// The tasks an agent got, a line each.
fn ran(root: &Path, name: &str) -> PathBuf {
    root.join(format!("{name}.ran"))
}

/// Atlas reaches everybody; nova and vega reach only atlas, and have an agent each.
async fn walled(network: &Network, root: &Path) -> (Node, Node, Node) {
    network.part(&network.host(1), &network.host(2)).unwrap();
    let atlas = Node::found(root, network.host(0), "atlas", NO_JOBS).await;
    let nova = atlas.join(root, network.host(1), "nova", &noting(root, "nova")).await;
    let vega = atlas.join(root, network.host(2), "vega", &noting(root, "vega")).await;
    (atlas, nova, vega)
}

fn is_relayed(peer: &PeerStatus, via: &str) -> bool {
    peer.state == "alive" && peer.path.as_deref() == Some(&format!("relayed via {via}"))
}

async fn relayed(node: &Node, peer: &str, via: &str) -> PeerStatus {
    node.peer_when(peer, &format!("relayed via {via}"), |peer| is_relayed(peer, via)).await
}

fn answer(text: &str) -> Option<FlightOutcome> {
    Some(FlightOutcome::Completed { reply: text.to_owned() })
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_reach_only_a_third_ask_each_other_through_it_and_go_direct_once_they_can() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    // The narrowest path there is for IPv6 (RFC 8200, section 5).
    network.narrow(&network.host(0), 1_280).unwrap();
    let (atlas, nova, vega) = walled(&network, root.path()).await;
    let seen = relayed(&vega, "nova", "atlas").await;
    assert!(seen.rtt_us.is_some());
    relayed(&nova, "vega", "atlas").await;
    let pinged = succeeded(&vega.cli(&["ping", "nova"], ""));
    assert!(pinged.starts_with("nova answered in ") && pinged.ends_with(", relayed via atlas\n"), "{pinged}");

    let long = "a longer task than one packet holds ".repeat(2_000);
    for (from, to, task) in
        [(&vega, "nova", "one way"), (&nova, "vega", "and back"), (&vega, "nova", long.trim())]
    {
        let receipt = from.ask(&format!("@{to}"), task, None).await;
        assert!(receipt.held.is_none(), "{receipt:?}");
        assert_eq!(from.ended(&receipt).await.outcome, answer(task));
    }
    assert_eq!(lines(&ran(root.path(), "vega")), ["and back"], "it ran once");
    assert_eq!(lines(&ran(root.path(), "nova")), ["one way", long.trim()], "each ran once");
    assert!(
        atlas.client.status().await.unwrap().peers.iter().all(|peer| peer
            .path
            .as_ref()
            .unwrap()
            .starts_with("direct"))
    );

    network.unite(&nova.host, &vega.host).unwrap();
    for (node, peer) in [(&vega, &nova), (&nova, &vega)] {
        let direct =
            |status: &PeerStatus| status.path.as_ref().is_some_and(|path| path.starts_with("direct"));
        let status = node.peer_when(&peer.name, "a direct path", direct).await;
        assert_eq!(status.state, "alive");
        assert!(status.path.unwrap().contains(&peer.host.ip().to_string()));
    }
    let receipt = vega.ask("@nova", "directly", None).await;
    assert_eq!(vega.ended(&receipt).await.outcome, answer("directly"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_killed_in_the_middle_loses_nothing_and_repeats_nothing() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (mut atlas, _nova, vega) = walled(&network, root.path()).await;
    relayed(&vega, "nova", "atlas").await;
    // Its agents are known with its record, which may come after its first sign of life.
    let first = vega.ask("@nova", "task 0", None).await;
    vega.ended(&first).await;

    let mut receipts: Vec<Receipt> = Vec::new();
    for number in 1..ASKS {
        receipts.push(vega.ask("@nova", &format!("task {number}"), None).await);
        if number == ASKS / 2 {
            atlas.kill();
        }
    }
    // It lost everybody at once, so it takes itself to be cut off, and judges nobody.
    vega.peer_when("nova", "no way is left", |peer| peer.state != "alive" && peer.path.is_none()).await;
    let held = vega.ask("@nova", &format!("task {ASKS}"), None).await;
    assert_eq!(
        held.held.as_ref().map(|held| held.queued > 0),
        Some(true),
        "the receipt says that it is held"
    );
    receipts.push(held);

    atlas.start().await;
    relayed(&vega, "nova", "atlas").await;
    for (number, receipt) in receipts.iter().enumerate() {
        assert_eq!(vega.ended(receipt).await.outcome, answer(&format!("task {}", number + 1)));
    }
    let mut tasks = lines(&ran(root.path(), "nova"));
    assert_eq!(tasks.len(), ASKS + 1, "each ran once: {tasks:?}");
    tasks.sort();
    tasks.dedup();
    assert_eq!(tasks.len(), ASKS + 1, "and none twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_relay_goes_another_carries() {
    let Some(network) = Network::new(4).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (mut atlas, _nova, vega) = walled(&network, root.path()).await;
    relayed(&vega, "nova", "atlas").await;
    let orion = atlas.join(root.path(), network.host(3), "orion", NO_JOBS).await;
    for peer in ["nova", "vega"] {
        orion.peer_when(peer, "linked", |peer| peer.path.is_some()).await;
    }
    // Members that joined before it grant what they were told to grant to every member.
    atlas.kill();
    relayed(&vega, "nova", "orion").await;
    let receipt = vega.ask("@nova", "another way", None).await;
    assert_eq!(vega.ended(&receipt).await.outcome, answer("another way"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_relays_for_whom_its_operator_lets_and_for_nobody_else() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, _nova, vega) = walled(&network, root.path()).await;
    relayed(&vega, "nova", "atlas").await;

    for peer in ["nova", "vega"] {
        succeeded(&atlas.cli(&["deny", peer, "relay"], ""));
    }
    vega.peer_when("nova", "no way is left", |peer| peer.state == "unreachable" && peer.path.is_none()).await;
    let pinged = vega.cli(&["ping", "nova"], "");
    assert_eq!(pinged.status.code(), Some(3), "it fails at once: {pinged:?}");
    let said = String::from_utf8(pinged.stderr).unwrap();
    assert!(said.contains("nova is unreachable for ") && said.contains("mesh-cli explain nova"), "{said}");

    let route: RouteView = vega.client.route("nova").await.unwrap();
    assert_eq!((route.state.as_str(), route.path.as_ref()), ("unreachable", None));
    assert!(route.since_ms.is_some() && route.cause.is_some() && route.last_error.is_some(), "{route:?}");
    assert!(route.next_try_in_ms.is_some(), "it is dialled for ever");
    let [seen] = &route.seen_by[..] else { panic!("atlas alone is linked: {route:?}") };
    assert!(seen.name == "atlas" && seen.answered && seen.alive && seen.direct && !seen.carries, "{seen:?}");
    let direct =
        |tried: &TriedView| tried.way.as_ref().is_some_and(|way| way.starts_with("direct 10.77.0.2"));
    assert!(route.tried.iter().any(direct), "{route:?}");
    assert_eq!(route.next, "on node atlas: `mesh-cli allow vega relay` lets it carry for this node");
    let page = succeeded(&vega.cli(&["explain", "nova"], ""));
    assert!(page.contains(&route.next) && page.contains("Asked just now who reaches it"), "{page}");

    succeeded(&atlas.cli(&["allow", "vega", "relay"], ""));
    relayed(&vega, "nova", "atlas").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_works_one_way_only_is_replaced_by_a_relayed_one_and_its_failure_is_shown() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), network.host(0), "atlas", NO_JOBS).await;
    let nova = atlas.join(root.path(), network.host(1), "nova", NO_JOBS).await;
    let vega = atlas.join(root.path(), network.host(2), "vega", NO_JOBS).await;
    vega.peer_when("nova", "linked directly", |peer| {
        peer.path.as_ref().is_some_and(|p| p.starts_with("direct"))
    })
    .await;

    network.silence(&nova.host, &vega.host).unwrap();
    let seen = relayed(&vega, "nova", "atlas").await;
    assert!(seen.last_error.is_some(), "what went wrong is kept: {seen:?}");
    relayed(&nova, "vega", "atlas").await;
}

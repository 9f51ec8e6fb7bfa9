//! Asks between hosts.

use mesh_protocol::flight::FlightOutcome;
use mesh_tests::network::Network;

use crate::node::{NO_JOBS, Node, agent};

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_crosses_hosts_and_its_answer_comes_back() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let echo = format!("{NO_JOBS}{}", agent("echo", "cat"));
    let atlas = Node::found(root.path(), network.host(0), "atlas", NO_JOBS).await;
    let nova = atlas.join(root.path(), network.host(1), "nova", &echo).await;
    let vega = atlas.join(root.path(), network.host(2), "vega", NO_JOBS).await;

    // Nobody told vega of nova but the mesh.
    let seen = vega.peer_when("nova", "linked", |peer| peer.path.is_some()).await;
    assert!(seen.path.unwrap().contains(&nova.host.ip().to_string()), "over its own address");
    for node in [&atlas, &vega] {
        let receipt = node.ask("@echo", "say this back", None).await;
        assert!(receipt.held.is_none());
        let flight = node.ended(&receipt).await;
        assert_eq!(flight.outcome, Some(FlightOutcome::Completed { reply: "say this back".into() }));
        assert_eq!(flight.target_node, nova.client.status().await.unwrap().node);
    }
}

//! Asks and messages between hosts.

use mesh_node::service::MessageFilter;
use mesh_protocol::api::ask::{SendBatch, SendRequest, Sent};
use mesh_protocol::flight::FlightOutcome;
use mesh_protocol::limits::SEND_BATCH_MAX;
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

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_one_request_arrive_in_their_order_each_for_itself() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let echo = format!("{NO_JOBS}{}", agent("echo", "cat"));
    let atlas = Node::found(root.path(), network.host(0), "atlas", NO_JOBS).await;
    let nova = atlas.join(root.path(), network.host(1), "nova", &echo).await;
    atlas.peer_when("nova", "linked", |peer| peer.path.is_some()).await;

    let message = |number: usize| {
        let to = if number == 3 { "@nobody" } else { "@echo" };
        SendRequest { to: to.into(), body: format!("{number}"), request_id: Some(format!("r{number}")) }
    };
    let batch = SendBatch { messages: (0..SEND_BATCH_MAX).map(message).collect() };
    let sent = atlas.client.send_batch(&batch, 30).await.unwrap().messages;
    assert_eq!(sent.len(), SEND_BATCH_MAX);
    for (number, one) in sent.iter().enumerate() {
        match one {
            Sent::Receipt(receipt) => assert_eq!((receipt.state.as_str(), number != 3), ("delivered", true)),
            Sent::Error(error) => assert_eq!((error.code.as_str(), number), ("unknown_target", 3)),
        }
    }
    // The same request again is the same messages.
    let again = atlas.client.send_batch(&batch, 0).await.unwrap().messages;
    assert!(
        again
            .iter()
            .all(|one| matches!(one, Sent::Error(_)) || matches!(one, Sent::Receipt(it) if it.replayed))
    );
    let got = nova.client.messages(&MessageFilter::default(), 500).await.unwrap();
    let bodies: Vec<String> = got.into_iter().rev().map(|message| message.body).collect();
    let expected: Vec<String> =
        (0..SEND_BATCH_MAX).filter(|number| *number != 3).map(|it| it.to_string()).collect();
    assert_eq!(bodies, expected);

    for size in [0, SEND_BATCH_MAX + 1] {
        let batch = SendBatch { messages: (0..size).map(message).collect() };
        let refused = atlas.client.send_batch(&batch, 0).await.unwrap_err();
        assert!(refused.to_string().contains("expected 1 to 256 messages"), "{refused}");
    }
}

//! Tickets between hosts: what `join` says and how it ends.

use std::process::Output;

use mesh_protocol::api::mesh::InviteRequest;
use mesh_protocol::policy::Trust;
use mesh_tests::network::Network;

use crate::node::{NO_JOBS, Node, PORT, succeeded, until};

/// The exit code, and standard error.
fn ending(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_works_for_one_node_and_that_node_may_repeat() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), network.host(0), "atlas", NO_JOBS).await;
    let ticket = succeeded(&atlas.cli(&["invite", "--quiet"], ""));
    let mut nova = Node::prepare(root.path(), network.host(1), "nova", NO_JOBS);
    let vega = Node::prepare(root.path(), network.host(2), "vega", NO_JOBS);
    succeeded(&nova.cli(&["join", "-"], &ticket));

    let (code, said) = ending(&vega.cli(&["join", "-"], &ticket));
    assert_eq!(code, 4, "{said}");
    assert!(
        said.contains("the ticket was used by another node") && said.contains("mesh-cli invite"),
        "{said}"
    );

    // The first node, as a crash between being let in and writing that down leaves it: its key without its name.
    std::fs::rename(nova.home.join("node.key"), nova.home.join("node.unnamed.key")).unwrap();
    std::fs::remove_file(nova.home.join("mesh.redb")).unwrap();
    succeeded(&nova.cli(&["join", "-"], &ticket));
    nova.start().await;
    atlas.sees("nova", "alive").await;
    let peers = atlas.client.status().await.unwrap().peers;
    assert_eq!(peers.len(), 1, "it is one node: {peers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_ticket_is_refused_as_expired() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), network.host(0), "atlas", NO_JOBS).await;
    let keeps_the_port_open = InviteRequest { ttl_seconds: 600, trust: Trust::None };
    atlas.client.invite(&keeps_the_port_open).await.unwrap();
    let brief = atlas.client.invite(&InviteRequest { ttl_seconds: 1, trust: Trust::None }).await.unwrap();
    atlas.status_when("it has expired", |status| status.open_tickets == 1).await;

    let nova = Node::prepare(root.path(), network.host(1), "nova", NO_JOBS);
    let (code, said) = ending(&nova.cli(&["join", "-"], &brief.ticket));
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("the ticket has expired") && said.contains("mesh-cli invite"), "{said}");
    assert!(!nova.home.join("node.key").exists(), "it is no member");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_ticket_is_no_ticket_and_a_forged_one_proves_nothing() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), network.host(0), "atlas", NO_JOBS).await;
    let line = succeeded(&atlas.cli(&["invite", "--quiet"], ""));
    let nova = Node::prepare(root.path(), network.host(1), "nova", NO_JOBS);

    let mut changed = line.trim().to_owned();
    let middle = changed.len() / 2;
    let other = if changed.as_bytes()[middle] == b'a' { "b" } else { "a" };
    changed.replace_range(middle..=middle, other);
    let (code, said) = ending(&nova.cli(&["join", "-"], &changed));
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("damaged") && said.contains("copy the whole line again"), "{said}");

    // A forger can mend the checksum, and not the proof: the expiry is part of what the secret is made from.
    let mut forged: mesh_protocol::ticket::Ticket = line.parse().unwrap();
    forged.expires_wall_ms += 3_600_000;
    let (code, said) = ending(&nova.cli(&["join", "-"], &forged.to_line()));
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("does not accept the ticket"), "{said}");
    assert!(!said.contains(line.trim()), "no ticket is repeated in an error");

    succeeded(&nova.cli(&["join", "-"], &line));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_join_port_exists_only_while_a_ticket_is_out() {
    let Some(network) = Network::new(1).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), network.host(0), "atlas", NO_JOBS).await;
    // Who can bind the port knows that nobody else has it.
    let closed = || atlas.host.bind(PORT + 1).is_ok();
    assert!(closed());
    atlas.client.invite(&InviteRequest { ttl_seconds: 6, trust: Trust::None }).await.unwrap();
    assert!(!closed());
    until("it closes when the ticket has expired", closed).await;
}

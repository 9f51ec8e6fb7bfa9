//! Who is let in, and what they may do then.

use mesh_protocol::api::ask::AskCommand;
use mesh_protocol::api::mesh::{ExpelRequest, GrantRequest};
use mesh_protocol::api::node::Status;
use mesh_protocol::flight::{FailureCode, FlightOutcome};
use mesh_protocol::policy::{Permission, Trust};

use crate::mesh::{ECHO, Node};

fn ask() -> AskCommand {
    AskCommand { to: "@echo".into(), task: "hello".into(), request_id: None, deadline_seconds: None }
}

async fn outcome(node: &Node) -> FlightOutcome {
    let receipt = node.client.ask(&ask()).await.unwrap();
    let id = receipt.flight_id.unwrap().to_string();
    node.client.flight(&id, 20).await.unwrap().outcome.expect("it ends in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_may_do_nothing_until_it_is_allowed() {
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), "atlas", "", Trust::None).await;
    let nova = atlas.join(root.path(), "nova", ECHO, Trust::None).await;
    atlas.sees("nova", "alive").await;
    nova.sees("atlas", "alive").await;
    match outcome(&atlas).await {
        FlightOutcome::Failed {
            code: FailureCode::Refused,
            remediation: Some(remedy),
            may_have_run: false,
            ..
        } => {
            assert!(remedy.contains("mesh-cli allow atlas ask"), "{remedy}");
        }
        other => panic!("{other:?}"),
    }
    let allow = GrantRequest {
        peer: "atlas".into(),
        trust: Some(Trust::Team),
        allow: vec![Permission::Ask],
        deny: Vec::new(),
        agents: None,
    };
    nova.client.grant(&allow).await.unwrap();
    assert_eq!(outcome(&atlas).await, FlightOutcome::Completed { reply: "hello".into() });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_member_is_cut_off_everywhere() {
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), "atlas", "", Trust::Mine).await;
    let nova = atlas.join(root.path(), "nova", ECHO, Trust::Mine).await;
    let vega = atlas.join(root.path(), "vega", "", Trust::Mine).await;
    vega.sees("nova", "alive").await;
    atlas.sees("nova", "alive").await;
    let expel = ExpelRequest { peer: "nova".into(), reason: "stolen".into() };
    let expelled = atlas.client.revoke(&expel).await.unwrap();
    assert!(!expelled.already);
    atlas.sees("nova", "revoked").await;
    vega.sees("nova", "revoked").await;
    nova.status_when("it has no link left", |s| s.peers.iter().all(|p| p.path.is_none())).await;
    assert!(vega.client.revoke(&expel).await.is_err(), "only the root's node can revoke");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_peer_is_cut_off_here_alone() {
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), "atlas", "", Trust::Mine).await;
    let nova = atlas.join(root.path(), "nova", ECHO, Trust::Mine).await;
    let vega = atlas.join(root.path(), "vega", "", Trust::Mine).await;
    vega.sees("nova", "alive").await;
    vega.client.block(&ExpelRequest { peer: "nova".into(), reason: String::new() }).await.unwrap();
    vega.sees("nova", "blocked").await;
    atlas.sees("nova", "alive").await;
    vega.client.unblock("nova").await.unwrap();
    vega.sees("nova", "alive").await;
    drop(nova);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_revocations_at_once_both_stay_in_force() {
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), "atlas", "", Trust::Mine).await;
    let names = ["nova", "vega", "rigel", "deneb"];
    let mut members = Vec::new();
    for name in names {
        members.push(atlas.join(root.path(), name, "", Trust::Mine).await);
        atlas.sees(name, "alive").await;
    }
    let expel = |name: &str| ExpelRequest { peer: name.into(), reason: String::new() };
    let requests = names.map(expel);
    let [a, b, c, d] = requests.each_ref().map(|request| atlas.client.revoke(request));
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    assert!([a, b, c, d].iter().all(Result::is_ok));
    let atlas = Node::start(atlas.stop().await).await;
    let all = |status: &Status| {
        status.peers.len() == names.len() && status.peers.iter().all(|p| p.state == "revoked")
    };
    atlas.status_when("all are revoked, also after a restart", all).await;
}

/// A disk from before a revocation does not lift it: the first peer that is met says so again.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_does_not_take_a_revocation_back() {
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), "atlas", "", Trust::Mine).await;
    let nova = atlas.join(root.path(), "nova", ECHO, Trust::Mine).await;
    let vega = atlas.join(root.path(), "vega", "", Trust::Mine).await;
    vega.sees("nova", "alive").await;
    let home = vega.stop().await;
    let (database, backup) = (home.join("mesh.redb"), root.path().join("backup"));
    std::fs::copy(&database, &backup).unwrap();

    let vega = Node::start(home).await;
    atlas.client.revoke(&ExpelRequest { peer: "nova".into(), reason: "stolen".into() }).await.unwrap();
    vega.sees("nova", "revoked").await;
    let home = vega.stop().await;
    std::fs::copy(&backup, &database).unwrap();

    let vega = Node::start(home).await;
    vega.sees("nova", "revoked").await;
    atlas.sees("nova", "revoked").await;
    // And it is kept: the next start knows it without meeting anybody, if not by name.
    atlas.stop().await;
    let vega = Node::start(vega.stop().await).await;
    let revoked = |status: &Status| status.peers.iter().any(|peer| peer.state == "revoked");
    vega.status_when("the revocation is known", revoked).await;
    drop(nova);
}

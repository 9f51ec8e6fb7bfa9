//! Shutting a node out between processes: how fast, behind a partition, over a restored disk.

use std::path::Path;
use std::time::{Duration, Instant};

use mesh_node::identity::NodeKey;
use mesh_protocol::api::mesh::ExpelRequest;
use mesh_tests::network::Network;

use crate::impostor::{Impostor, alert, certificate_of, dial, greet};
use crate::node::{NO_JOBS, Node};

/// TLS alert `certificate_revoked` (RFC 8446, section 6).
const CERTIFICATE_REVOKED: u64 = 44;

/// What needs no timer is done by then, on a machine that does much else.
const AT_ONCE: Duration = Duration::from_secs(10);

async fn three(network: &Network, root: &Path) -> (Node, Node, Node) {
    let atlas = Node::found(root, network.host(0), "atlas", NO_JOBS).await;
    let vega = atlas.join(root, network.host(1), "vega", NO_JOBS).await;
    let nova = atlas.join(root, network.host(2), "nova", NO_JOBS).await;
    for (one, other) in [(&vega, "nova"), (&nova, "vega")] {
        one.peer_when(other, "linked", |peer| peer.path.is_some()).await;
    }
    (atlas, vega, nova)
}

async fn revoke(atlas: &Node, peer: &str) -> Instant {
    let began = Instant::now();
    atlas.client.revoke(&ExpelRequest { peer: peer.into(), reason: "stolen".into() }).await.unwrap();
    began
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_node_is_cut_at_once_and_refused_when_it_comes_again() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, vega, mut nova) = three(&network, root.path()).await;
    let mesh = atlas.client.status().await.unwrap().mesh.unwrap();
    let elsewhere = network.host(2);
    let leaf = certificate_of(&Impostor::stranger().endpoint(&elsewhere, 0), &nova).await;
    nova.kill();
    let owner = NodeKey::load(&nova.home.join("node.key")).unwrap();
    let endpoint = Impostor::new(leaf, owner.clone()).endpoint(&elsewhere, 0);
    let (at_atlas, at_vega) = (dial(&endpoint, &atlas).await.unwrap(), dial(&endpoint, &vega).await.unwrap());
    for link in [&at_atlas, &at_vega] {
        greet(link, mesh, &owner).await.unwrap();
    }

    let began = revoke(&atlas, "nova").await;
    at_atlas.closed().await;
    let here = began.elapsed();
    at_vega.closed().await;
    let there = began.elapsed();
    eprintln!("cut after {here:?} where it was revoked, {there:?} at the other");
    // Some tens of milliseconds, on a machine that does nothing else.
    assert!(here <= AT_ONCE && there <= AT_ONCE, "{here:?}, {there:?}");
    for node in [&atlas, &vega] {
        let ended = dial(&endpoint, node).await.unwrap().closed().await;
        assert_eq!(alert(&ended), CERTIFICATE_REVOKED);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_that_was_cut_off_hears_of_a_revocation_and_a_restored_disk_does_not_take_it_back() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (mut atlas, mut vega, nova) = three(&network, root.path()).await;

    // Copies of two homes as they were before.
    const FILES: [&str; 2] = ["mesh.redb", "mesh.journal"];
    let backup = |node: &Node, file: &str| root.path().join(format!("{}.{file}", node.name));
    for node in [&mut vega, &mut atlas] {
        node.kill();
        for file in FILES {
            std::fs::copy(node.home.join(file), backup(node, file)).unwrap();
        }
        node.start().await;
    }
    for peer in ["nova", "atlas"] {
        vega.peer_when(peer, "linked", |peer| peer.path.is_some()).await;
    }

    // Vega cannot hear it; cut off from the founder it still talks to nova.
    network.cut(&atlas.host).unwrap();
    vega.sees("atlas", "unreachable").await;
    revoke(&atlas, "nova").await;
    assert!(vega.peer_when("nova", "linked", |peer| peer.path.is_some()).await.path.is_some());
    network.heal(&atlas.host).unwrap();
    let linked = vega.peer_when("atlas", "linked again", |peer| peer.path.is_some());
    linked.await;
    let healed = Instant::now();
    vega.sees("nova", "revoked").await;
    let heard = healed.elapsed();
    eprintln!("heard {heard:?} after the first link");
    assert!(heard <= Duration::from_secs(5), "{heard:?}");

    // A disk is set back to before, the founder's too: it trusts nova until its first link to another member and no
    // longer, and takes nothing back there.
    for restored in 0..2 {
        let (node, other) = if restored == 0 { (&mut vega, &atlas) } else { (&mut atlas, &vega) };
        node.kill();
        for file in FILES {
            std::fs::copy(backup(node, file), node.home.join(file)).unwrap();
        }
        node.start().await;
        node.peer_when(&other.name, "linked", |peer| peer.path.is_some()).await;
        node.sees("nova", "revoked").await;
        let shown = other.sees("nova", "revoked").await;
        assert!(shown.path.is_none(), "{shown:?}");
    }
    // The founder shuts out the next one with a list that is newer than the one it had forgotten.
    let vega_id = vega.client.status().await.unwrap().node;
    revoke(&atlas, "vega").await;
    assert_eq!(atlas.sees("vega", "revoked").await.node, vega_id);
    atlas.sees("nova", "revoked").await;
    drop(nova);
}

//! Who is not let in, and how status shows it.

use std::path::Path;

use mesh_node::identity::NodeKey;
use mesh_protocol::api::mesh::ExpelRequest;
use mesh_tests::network::Network;

use crate::impostor::{Impostor, alert, certificate_of, dial, greet};
use crate::node::{NO_JOBS, Node};

/// TLS alerts (RFC 8446, section 6).
const HANDSHAKE_FAILURE: u64 = 40;
const CERTIFICATE_REVOKED: u64 = 44;
const UNKNOWN_CA: u64 = 48;
const DECRYPT_ERROR: u64 = 51;

async fn pair(network: &Network, root: &Path) -> (Node, Node) {
    let atlas = Node::found(root, network.host(0), "atlas", NO_JOBS).await;
    let nova = atlas.join(root, network.host(1), "nova", NO_JOBS).await;
    (atlas, nova)
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_thieves_and_the_revoked_are_refused_in_the_handshake() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, mut nova) = pair(&network, root.path()).await;
    let mesh = atlas.client.status().await.unwrap().mesh.unwrap();
    let elsewhere = network.host(2);

    let stranger = Impostor::stranger();
    let endpoint = stranger.endpoint(&elsewhere, 0);
    let ended = dial(&endpoint, &atlas).await.unwrap().closed().await;
    assert_eq!(alert(&ended), UNKNOWN_CA);

    let stolen = certificate_of(&endpoint, &nova).await;
    let thief = Impostor::new(stolen.clone(), NodeKey::generate().unwrap());
    let ended = dial(&thief.endpoint(&elsewhere, 0), &atlas).await.unwrap().closed().await;
    assert_eq!(alert(&ended), DECRYPT_ERROR, "the signature is not the owner's");

    nova.kill();
    let owner = NodeKey::load(&nova.home.join("node.key")).unwrap();
    let weak = Impostor::new(stolen.clone(), owner.clone()).only_x25519();
    let ended = dial(&weak.endpoint(&elsewhere, 0), &atlas).await.unwrap_err();
    assert_eq!(alert(&ended), HANDSHAKE_FAILURE);

    // The checks bite: the same certificate with its own key and the right key exchange is let in, until it is revoked.
    let owned = Impostor::new(stolen, owner.clone()).endpoint(&elsewhere, 0);
    let connection = dial(&owned, &atlas).await.unwrap();
    let ack = greet(&connection, mesh, &owner).await.unwrap();
    assert_eq!(ack.node, atlas.client.status().await.unwrap().node);
    let expel = ExpelRequest { peer: "nova".into(), reason: "stolen".into() };
    atlas.client.revoke(&expel).await.unwrap();
    connection.closed().await;
    let ended = dial(&owned, &atlas).await.unwrap().closed().await;
    assert_eq!(alert(&ended), CERTIFICATE_REVOKED);

    let shown = atlas.sees("nova", "revoked").await;
    assert!(shown.path.is_none() && shown.cause.is_some(), "{shown:?}");
    assert_eq!(atlas.client.status().await.unwrap().peers.len(), 1, "who was refused is no peer");
}

/// What the first node makes of an impostor at the address of the second, which was killed.
async fn shown_of(
    disguise: impl FnOnce(&Node, mesh_node::identity::Leaf) -> Impostor,
    error: &str,
    state: &str,
) {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, mut nova) = pair(&network, root.path()).await;
    let leaf = certificate_of(&Impostor::stranger().endpoint(&network.host(2), 0), &nova).await;
    nova.kill();
    let impostor = disguise(&nova, leaf).answer(&nova.host);
    let shown = atlas.peer_when("nova", error, |peer| {
        peer.state == state && peer.last_error.as_ref().is_some_and(|last| last.contains(error))
    });
    let shown = shown.await;
    assert!(shown.path.is_none(), "{shown:?}");
    assert!(shown.last_error.unwrap().contains(&nova.host.ip().to_string()), "it says where");

    // The one who belongs there is back, and needs no help to be seen again.
    impostor.close(0_u32.into(), b"");
    impostor.wait_idle().await;
    drop(impostor);
    nova.start().await;
    atlas.sees("nova", "alive").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thief_at_a_members_address_is_shown_as_not_the_owner_of_its_certificate() {
    let thief = |_: &Node, leaf| Impostor::new(leaf, NodeKey::generate().unwrap());
    shown_of(
        thief,
        "refused here: not a member of this mesh (its signature is not by its key)",
        "unreachable",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_at_a_members_address_is_shown_as_not_a_member() {
    shown_of(|_, _| Impostor::stranger(), "refused here: not a member of this mesh", "unreachable").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_only_x25519_is_shown_as_incompatible() {
    let weak = |nova: &Node, leaf| {
        let key = NodeKey::load(&nova.home.join("node.key")).unwrap();
        Impostor::new(leaf, key).only_x25519()
    };
    shown_of(weak, "no common protocol version or key exchange", "incompatible").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_member_is_shown_as_revoked_everywhere_and_learns_it() {
    let Some(network) = Network::new(3).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let (atlas, nova) = pair(&network, root.path()).await;
    let vega = atlas.join(root.path(), network.host(2), "vega", NO_JOBS).await;
    vega.peer_when("nova", "linked", |peer| peer.path.is_some()).await;

    let revoked = atlas.cli(&["revoke", "nova", "--reason", "stolen", "--yes"], "");
    assert!(revoked.status.success(), "{revoked:?}");
    for node in [&atlas, &vega] {
        let shown = node.sees("nova", "revoked").await;
        assert!(shown.path.is_none(), "{}: {shown:?}", node.name);
    }
    nova.status_when("it has no link and knows why", |status| {
        let told = |error: &String| error.contains("this node is revoked");
        let peers = &status.peers;
        peers.iter().all(|peer| peer.path.is_none())
            && peers.iter().any(|peer| peer.last_error.as_ref().is_some_and(told))
    })
    .await;
}

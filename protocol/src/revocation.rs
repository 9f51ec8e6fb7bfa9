//! Who was shut out of a mesh: one signed list that only ever gets newer.
//!
//! Certificates live long, so revocation is the control. The list is signed by the root, or by the revoker the root
//! named, and spreads from node to node; the highest version wins and nothing older is taken back. The revoker can
//! only add: a list it signed that misses a node of the known list is refused, so only the root can lift a
//! revocation.
//!
//! Two lists of one version never replace each other. Both keys belong to the founder, who numbers them in one row.

use ed25519_dalek::{Signer, SigningKey};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteArray;
use thiserror::Error;

use crate::codec::{self, DecodeError};
use crate::id::{MeshId, NodeId};
use crate::root::{self, RevokerGrant, RootKey, SignatureError};

/// Nodes one list may name. A list of them all, each with a full reason, stays under half a question frame.
pub const REVOCATIONS_MAX: usize = 4_096;
/// Bytes of the reason an operator may give.
pub const REASON_BYTES_MAX: usize = 64;
/// Bytes of an encoded list: [`REVOCATIONS_MAX`] entries of 32 bytes of id, the reason and their integers.
pub const LIST_BYTES_MAX: usize = 512 * 1024;

/// Separates a list from everything else these keys sign.
const LIST_PREFIX: &[u8] = b"mesh-revocations/1";

/// One node that was shut out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// Whose certificates no longer count, issued before or after.
    pub node: NodeId,
    /// What the operator said, at most [`REASON_BYTES_MAX`] bytes; for people.
    pub reason: String,
    /// When, by the signer's wall clock, in milliseconds since 1970; for people.
    pub at_wall_ms: u64,
}

/// Whose key signed a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signatory {
    /// The mesh's root.
    Root,
    /// The key the root named for this.
    Revoker(RevokerGrant),
}

/// What is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Body {
    mesh: MeshId,
    ver: u64,
    entries: Vec<Revocation>,
}

/// A list whose signature was checked: there is no way to hold another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevocationList {
    body: Body,
    bytes: Vec<u8>,
}

/// As it travels and is stored: the exact bytes that were signed, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Envelope {
    #[serde(with = "serde_bytes")]
    body: Vec<u8>,
    signatory: Signatory,
    signature: ByteArray<64>,
}

/// Why a list was not taken. The known list stays.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum RevocationError {
    /// The bytes are no list.
    #[error("cannot read the revocation list")]
    Decode(#[from] DecodeError),
    /// Neither the root nor a revoker of it signed this.
    #[error("the revocation list is not signed for this mesh")]
    Signature(#[from] SignatureError),
    /// Signed for another mesh.
    #[error("the revocation list is of another mesh")]
    OtherMesh,
    /// Over a bound of this module, or not sorted by node.
    #[error("the revocation list is not in order: {what}")]
    Disorder {
        /// What is wrong.
        what: &'static str,
    },
    /// Not newer than the known one.
    #[error("revocation list {offered} is not newer than the known {known}")]
    NotNewer {
        /// The version that was offered.
        offered: u64,
        /// The version that is known.
        known: u64,
    },
    /// A revoker tried to lift a revocation, which only the root can.
    #[error("only the root can lift the revocation of {node}")]
    Lifted {
        /// Whose revocation is missing.
        node: NodeId,
    },
}

/// What a founder signs with.
#[derive(Debug)]
pub enum RevocationKey<'a> {
    /// The root's own key.
    Root(&'a SigningKey),
    /// The revoker's key and the root's grant for it.
    Revoker(&'a SigningKey, &'a RevokerGrant),
}

impl RevocationList {
    /// Signs a list. Entries are sorted by node, the first of several for one node stays.
    ///
    /// # Errors
    /// [`RevocationError::Disorder`] when a bound of this module is passed.
    pub fn sign(
        key: &RevocationKey<'_>,
        mesh: MeshId,
        ver: u64,
        mut entries: Vec<Revocation>,
    ) -> Result<Self, RevocationError> {
        entries.sort_by_key(|entry| entry.node);
        entries.dedup_by_key(|entry| entry.node);
        let body = Body { mesh, ver, entries };
        check_order(&body)?;
        let signed = codec::encode(&body);
        let message = [LIST_PREFIX, &signed].concat();
        let (signatory, signature) = match key {
            RevocationKey::Root(root) => (Signatory::Root, root.sign(&message)),
            RevocationKey::Revoker(key, grant) => {
                (Signatory::Revoker(RevokerGrant::clone(grant)), key.sign(&message))
            }
        };
        let envelope = Envelope { body: signed, signatory, signature: ByteArray::new(signature.to_bytes()) };
        Ok(Self { body, bytes: codec::encode(&envelope) })
    }

    /// Reads a list and checks that this mesh's root, or its revoker, signed it. Does not compare it with a known
    /// one: for a list from our own disk, or the first one.
    ///
    /// # Errors
    /// [`RevocationError`] when it is not such a list.
    pub fn verify(bytes: &[u8], root: &RootKey) -> Result<Self, RevocationError> {
        Ok(Self::open(bytes, root)?.0)
    }

    /// Takes a list a peer offers, if it is newer than the known one.
    ///
    /// # Errors
    /// [`RevocationError`] when it is not, or lifts what it may not; the known list stays.
    pub fn succeed(bytes: &[u8], root: &RootKey, known: Option<&Self>) -> Result<Self, RevocationError> {
        let (list, signatory) = Self::open(bytes, root)?;
        let Some(known) = known else { return Ok(list) };
        if list.ver() <= known.ver() {
            return Err(RevocationError::NotNewer { offered: list.ver(), known: known.ver() });
        }
        if let Signatory::Revoker(_) = signatory
            && let Some(missing) = known.entries().iter().find(|entry| !list.names(entry.node))
        {
            return Err(RevocationError::Lifted { node: missing.node });
        }
        Ok(list)
    }

    fn open(bytes: &[u8], root: &RootKey) -> Result<(Self, Signatory), RevocationError> {
        if bytes.len() > LIST_BYTES_MAX {
            return Err(RevocationError::Disorder { what: "too many bytes" });
        }
        let envelope: Envelope = codec::decode(bytes)?;
        let key = match &envelope.signatory {
            Signatory::Root => *root.as_bytes(),
            Signatory::Revoker(grant) => {
                grant.verify(root)?;
                grant.revoker
            }
        };
        root::verify(&key, &[LIST_PREFIX, &envelope.body].concat(), &envelope.signature)?;
        let body: Body = codec::decode(&envelope.body)?;
        if body.mesh != root.mesh() {
            return Err(RevocationError::OtherMesh);
        }
        check_order(&body)?;
        Ok((Self { body, bytes: bytes.to_vec() }, envelope.signatory))
    }

    /// Raised by one with every list.
    #[must_use]
    pub const fn ver(&self) -> u64 {
        self.body.ver
    }

    /// The version that bytes from our own disk say they are, without a check of who signed them; `None` when they are
    /// no list.
    #[must_use]
    pub fn ver_of(bytes: &[u8]) -> Option<u64> {
        let envelope: Envelope = codec::decode(bytes).ok()?;
        codec::decode::<Body>(&envelope.body).ok().map(|body| body.ver)
    }

    /// Who is shut out, by node.
    #[must_use]
    pub fn entries(&self) -> &[Revocation] {
        &self.body.entries
    }

    /// Whether this node is shut out.
    #[must_use]
    pub fn names(&self, node: NodeId) -> bool {
        self.body.entries.binary_search_by_key(&node, |entry| entry.node).is_ok()
    }

    /// The bytes to send on and to store; [`Self::verify`] reads them back.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bounds, and one entry a node in order of node, so that lookups can search.
fn check_order(body: &Body) -> Result<(), RevocationError> {
    let disorder = |what| Err(RevocationError::Disorder { what });
    if body.entries.len() > REVOCATIONS_MAX {
        return disorder("too many nodes");
    }
    if body.entries.iter().any(|entry| entry.reason.len() > REASON_BYTES_MAX) {
        return disorder("a reason is too long");
    }
    if !body.entries.is_sorted_by(|a, b| a.node < b.node) {
        return disorder("nodes are not sorted");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Founder {
        root: SigningKey,
        revoker: SigningKey,
        grant: RevokerGrant,
    }

    impl Founder {
        fn new(seed: u8) -> Self {
            let root = SigningKey::from_bytes(&[seed; 32]);
            let revoker = SigningKey::from_bytes(&[seed.wrapping_add(100); 32]);
            let grant = RevokerGrant::sign(&root, revoker.verifying_key().to_bytes());
            Self { root, revoker, grant }
        }

        fn key(&self) -> RootKey {
            RootKey::from_bytes(self.root.verifying_key().to_bytes())
        }

        fn by_root(&self, ver: u64, nodes: &[u8]) -> RevocationList {
            RevocationList::sign(&RevocationKey::Root(&self.root), self.key().mesh(), ver, entries(nodes))
                .unwrap()
        }

        fn by_revoker(&self, ver: u64, nodes: &[u8]) -> RevocationList {
            let key = RevocationKey::Revoker(&self.revoker, &self.grant);
            RevocationList::sign(&key, self.key().mesh(), ver, entries(nodes)).unwrap()
        }
    }

    fn node(seed: u8) -> NodeId {
        NodeId::from_bytes([seed; 32])
    }

    fn entries(nodes: &[u8]) -> Vec<Revocation> {
        let entry = |seed: &u8| Revocation { node: node(*seed), reason: "lost".into(), at_wall_ms: 5 };
        nodes.iter().map(entry).collect()
    }

    #[test]
    fn a_list_of_the_root_or_its_revoker_is_taken() {
        let founder = Founder::new(1);
        let first =
            RevocationList::succeed(founder.by_root(1, &[4]).as_bytes(), &founder.key(), None).unwrap();
        assert!(first.names(node(4)) && !first.names(node(5)));
        let second = founder.by_revoker(2, &[5, 4]);
        let second = RevocationList::succeed(second.as_bytes(), &founder.key(), Some(&first)).unwrap();
        assert!(second.names(node(5)));
    }

    #[test]
    fn an_older_or_equal_list_is_refused() {
        let founder = Founder::new(1);
        let known = founder.by_root(5, &[4]);
        for ver in [4, 5] {
            let offered = founder.by_root(ver, &[]);
            let error =
                RevocationList::succeed(offered.as_bytes(), &founder.key(), Some(&known)).unwrap_err();
            assert_eq!(error, RevocationError::NotNewer { offered: ver, known: 5 });
        }
    }

    /// A node whose disk went back shows an older list and is shown a newer one: only one way leads on.
    #[test]
    fn a_restored_node_takes_the_newer_list_and_gives_nobody_its_older_one() {
        let founder = Founder::new(1);
        let before = founder.by_root(1, &[4]);
        let now = founder.by_root(3, &[4, 5]);
        let restored = RevocationList::succeed(now.as_bytes(), &founder.key(), Some(&before)).unwrap();
        assert!(restored.names(node(5)));
        let refused = RevocationList::succeed(before.as_bytes(), &founder.key(), Some(&now));
        assert!(matches!(refused, Err(RevocationError::NotNewer { .. })), "{refused:?}");
        // A disk from before the first list takes the newest at once.
        assert_eq!(RevocationList::succeed(now.as_bytes(), &founder.key(), None).unwrap().ver(), 3);
    }

    #[test]
    fn a_revoker_can_only_add_and_the_root_can_lift() {
        let founder = Founder::new(1);
        let known = founder.by_revoker(1, &[4, 5]);
        let lifting = founder.by_revoker(2, &[5]);
        let error = RevocationList::succeed(lifting.as_bytes(), &founder.key(), Some(&known)).unwrap_err();
        assert_eq!(error, RevocationError::Lifted { node: node(4) });
        let lifted = founder.by_root(2, &[5]);
        assert!(RevocationList::succeed(lifted.as_bytes(), &founder.key(), Some(&known)).is_ok());
    }

    #[test]
    fn a_list_of_another_mesh_or_a_self_made_revoker_is_refused() {
        let (founder, stranger) = (Founder::new(1), Founder::new(2));
        let foreign = stranger.by_root(9, &[4]);
        assert_eq!(
            RevocationList::verify(foreign.as_bytes(), &founder.key()),
            Err(RevocationError::Signature(SignatureError))
        );
        let own_grant = stranger.by_revoker(9, &[4]);
        assert_eq!(
            RevocationList::verify(own_grant.as_bytes(), &founder.key()),
            Err(RevocationError::Signature(SignatureError))
        );
    }

    #[test]
    fn a_reason_over_its_bound_is_not_signed() {
        let founder = Founder::new(1);
        let long = Revocation { node: node(1), reason: "x".repeat(REASON_BYTES_MAX + 1), at_wall_ms: 0 };
        let key = RevocationKey::Root(&founder.root);
        let error = RevocationList::sign(&key, founder.key().mesh(), 1, vec![long]).unwrap_err();
        assert_eq!(error, RevocationError::Disorder { what: "a reason is too long" });
    }

    proptest! {
        #[test]
        fn no_changed_byte_goes_unnoticed(at in any::<prop::sample::Index>(), flip in 1_u8..) {
            let founder = Founder::new(1);
            let mut bytes = founder.by_revoker(3, &[1, 2]).as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(RevocationList::verify(&bytes, &founder.key()).is_err());
        }
    }
}

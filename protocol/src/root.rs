//! The trust root of a mesh, as everyone but its founder sees it.
//!
//! A mesh is named by its root: the [`MeshId`] is the beginning of the root key's fingerprint, so nobody can claim a
//! mesh id without the key behind it. The root's certificate is X.509 and lives with the node's identity; here is
//! only what signatures over records need.
//!
//! A root may name one **revoker**: a key whose only power is to sign revocation lists, so that the root itself can
//! be kept offline while stolen machines can still be shut out.

use std::fmt;

use data_encoding::BASE32_NOPAD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteArray;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::id::MeshId;

/// Separates fingerprints from every other hash of the same bytes.
const FINGERPRINT_PREFIX: &[u8] = b"mesh-root/1";
/// Separates a grant from everything else the root signs. An X.509 certificate begins with another byte.
const GRANT_PREFIX: &[u8] = b"mesh-revoker/1";

/// A signature that the named key did not make over these bytes, or a key that is no valid point.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("the signature does not verify")]
pub struct SignatureError;

/// Checks an Ed25519 signature with the strict rules of RFC 8032, so that no second signature fits the same bytes.
///
/// # Errors
/// [`SignatureError`] when it does not verify.
pub fn verify(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> Result<(), SignatureError> {
    let key = VerifyingKey::from_bytes(key).map_err(|_| SignatureError)?;
    key.verify_strict(message, &Signature::from_bytes(signature)).map_err(|_| SignatureError)
}

/// The Ed25519 public key of a mesh's root.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RootKey([u8; 32]);

impl RootKey {
    /// The root with this public key.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The public key.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What a ticket carries so that a joiner can tell this root from any other.
    #[must_use]
    pub fn fingerprint(&self) -> RootFingerprint {
        let mut hash = Sha256::new();
        hash.update(FINGERPRINT_PREFIX);
        hash.update(self.0);
        RootFingerprint(hash.finalize().into())
    }

    /// The mesh under this root.
    #[must_use]
    pub fn mesh(&self) -> MeshId {
        self.fingerprint().mesh()
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKey({})", self.fingerprint())
    }
}

/// SHA-256 over a fixed prefix and the root's public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RootFingerprint([u8; 32]);

impl RootFingerprint {
    /// The mesh under the root with this fingerprint: its first 16 bytes.
    #[must_use]
    pub fn mesh(&self) -> MeshId {
        let mut first = [0; 16];
        first.iter_mut().zip(self.0).for_each(|(to, from)| *to = from);
        MeshId::from_bytes(first)
    }
}

impl fmt::Display for RootFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32_NOPAD.encode(&self.0).to_lowercase())
    }
}

impl fmt::Debug for RootFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootFingerprint({self})")
    }
}

/// The root's word that a key may sign revocation lists. Travels with every list that key signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokerGrant {
    /// The revoker's Ed25519 public key.
    pub revoker: [u8; 32],
    /// The root's signature over a prefix, the mesh and that key.
    pub signature: ByteArray<64>,
}

impl RevokerGrant {
    /// Names a revoker. Only the founder, who holds the root's private key, can.
    #[must_use]
    pub fn sign(root: &SigningKey, revoker: [u8; 32]) -> Self {
        let mesh = RootKey(root.verifying_key().to_bytes()).mesh();
        let signature = ByteArray::new(root.sign(&grant_message(mesh, &revoker)).to_bytes());
        Self { revoker, signature }
    }

    /// Checks that this root gave the grant.
    ///
    /// # Errors
    /// [`SignatureError`] when another root gave it, or none.
    pub fn verify(&self, root: &RootKey) -> Result<(), SignatureError> {
        verify(&root.0, &grant_message(root.mesh(), &self.revoker), &self.signature)
    }
}

fn grant_message(mesh: MeshId, revoker: &[u8; 32]) -> Vec<u8> {
    [GRANT_PREFIX, mesh.as_bytes(), revoker].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(seed: u8) -> (SigningKey, RootKey) {
        let key = SigningKey::from_bytes(&[seed; 32]);
        let public = RootKey::from_bytes(key.verifying_key().to_bytes());
        (key, public)
    }

    #[test]
    fn a_mesh_is_named_by_its_root() {
        let ((_, one), (_, two)) = (root(1), root(2));
        assert_ne!(one.mesh(), two.mesh());
        assert_eq!(one.mesh(), one.fingerprint().mesh());
    }

    #[test]
    fn a_grant_holds_for_its_root_and_its_key_alone() {
        let ((key, public), (_, other)) = (root(1), root(2));
        let grant = RevokerGrant::sign(&key, [7; 32]);
        assert_eq!(grant.verify(&public), Ok(()));
        assert_eq!(grant.verify(&other), Err(SignatureError));
        let forged = RevokerGrant { revoker: [8; 32], ..grant };
        assert_eq!(forged.verify(&public), Err(SignatureError));
    }
}

//! X.509 as the mesh uses it: how a node id, a public key and a name in a certificate are one and the same.
//!
//! A node's name is `<32 hex>.<32 hex>.mesh.invalid`: its 64 hex digits do not fit into one label of a DNS name
//! (RFC 1035, section 2.3.4), and `.invalid` is nobody's (RFC 6761). The public key is compared as a whole
//! SubjectPublicKeyInfo (RFC 8410): twelve fixed bytes and the 32 of the key.

use std::fmt;

use data_encoding::HEXLOWER;
use mesh_protocol::id::NodeId;
use rustls::pki_types::{CertificateDer, ServerName};
use thiserror::Error;
use webpki::EndEntityCert;

use super::{NodeKey, RootCertificate};

/// SubjectPublicKeyInfo of an Ed25519 key, up to the key itself (RFC 8410, section 4).
const ED25519_SPKI_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Bytes that are no certificate of a node.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum CertificateError {
    /// Not X.509.
    #[error("malformed certificate")]
    Malformed,
    /// Its public key is not Ed25519, exactly encoded.
    #[error("the certificate's key is not Ed25519")]
    NotEd25519,
}

/// A certificate of a node, not yet checked against a root.
#[derive(Clone, PartialEq, Eq)]
pub struct Leaf(CertificateDer<'static>);

impl Leaf {
    /// Takes DER as it is; whoever uses it checks it.
    #[must_use]
    pub fn from_der(der: Vec<u8>) -> Self {
        Self(CertificateDer::from(der))
    }

    /// The DER.
    #[must_use]
    pub fn as_der(&self) -> &[u8] {
        &self.0
    }

    /// Whose key it is for.
    ///
    /// # Errors
    /// [`CertificateError`] when it is not for any node.
    pub fn node(&self) -> Result<NodeId, CertificateError> {
        node_of_leaf(&self.0)
    }

    pub(super) fn to_chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.0.clone()]
    }
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leaf({:?})", self.node())
    }
}

/// What a member needs to be believed: its key, the certificate for it, and the root that both ends trust.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The node's key.
    pub key: NodeKey,
    /// The root's certificate for it.
    pub leaf: Leaf,
    /// The mesh's root.
    pub root: RootCertificate,
}

/// The node whose key a certificate is for. Says nothing about who issued it.
///
/// # Errors
/// [`CertificateError`] when the bytes are no certificate, or its key is not Ed25519.
pub fn node_of_leaf(der: &CertificateDer<'_>) -> Result<NodeId, CertificateError> {
    let leaf = EndEntityCert::try_from(der).map_err(|_| CertificateError::Malformed)?;
    node_of(&leaf)
}

pub(super) fn node_of(leaf: &EndEntityCert<'_>) -> Result<NodeId, CertificateError> {
    node_of_spki(&leaf.subject_public_key_info())
}

fn node_of_spki(spki: &[u8]) -> Result<NodeId, CertificateError> {
    let key = spki.strip_prefix(&ED25519_SPKI_PREFIX).ok_or(CertificateError::NotEd25519)?;
    Ok(NodeId::from_bytes(key.try_into().map_err(|_| CertificateError::NotEd25519)?))
}

/// The name in a node's certificate.
pub(crate) fn name_of(node: NodeId) -> String {
    let (left, right) = node.as_bytes().split_at(16);
    format!("{}.{}.mesh.invalid", HEXLOWER.encode(left), HEXLOWER.encode(right))
}

/// The same name as TLS takes it.
pub(super) fn server_name_of(node: NodeId) -> Result<ServerName<'static>, CertificateError> {
    ServerName::try_from(name_of(node)).map_err(|_| CertificateError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_into_dns_labels() {
        let name = name_of(NodeId::from_bytes([0xab; 32]));
        assert!(name.split('.').all(|label| label.len() <= 63));
        assert!(server_name_of(NodeId::from_bytes([0xab; 32])).is_ok());
    }

    #[test]
    fn the_right_key_behind_the_wrong_prefix_is_refused() {
        let mut spki = [ED25519_SPKI_PREFIX.as_slice(), &[9; 32]].concat();
        assert_eq!(node_of_spki(&spki), Ok(NodeId::from_bytes([9; 32])));
        // X25519 (1.3.101.110) instead of Ed25519 (1.3.101.112).
        spki[8] = 0x6e;
        assert_eq!(node_of_spki(&spki), Err(CertificateError::NotEd25519));
        let longer = [ED25519_SPKI_PREFIX.as_slice(), &[9; 33]].concat();
        assert_eq!(node_of_spki(&longer), Err(CertificateError::NotEd25519));
    }
}

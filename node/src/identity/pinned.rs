//! How the two ends of a join believe each other, before they share a mesh.
//!
//! The joiner knows the issuer by the key in its ticket and no root yet, so it pins that key: [`PinnedNode`]. The issuer
//! knows nothing of the joiner but what it signs in the handshake: [`AnyNode`] takes every Ed25519 key and says whose it
//! is; who may join is decided by the ticket. Both check the handshake's signature as members do.

use mesh_protocol::id::NodeId;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error};

use super::certificate::node_of_leaf;
use super::handshake::PeerCheck;

/// Takes one node, by its key, whoever certified it.
#[derive(Debug)]
pub(super) struct PinnedNode(pub(super) NodeId);

/// Takes the owner of any Ed25519 key.
#[derive(Debug)]
pub(super) struct AnyNode;

fn only_node(leaf: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) -> Result<NodeId, Error> {
    if !intermediates.is_empty() {
        return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
    }
    node_of_leaf(leaf).map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))
}

impl PeerCheck for PinnedNode {
    fn check_certificate(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<(), Error> {
        if only_node(leaf, intermediates)? == self.0 {
            Ok(())
        } else {
            Err(Error::InvalidCertificate(CertificateError::NotValidForName))
        }
    }
}

impl PeerCheck for AnyNode {
    fn check_certificate(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<(), Error> {
        only_node(leaf, intermediates).map(|_| ())
    }
}

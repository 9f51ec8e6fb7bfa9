//! How the two ends of a join believe each other, before they share a mesh.
//!
//! The joiner knows the issuer by the key in its ticket and no root yet, so it pins that key: [`PinnedNode`]. The issuer
//! knows nothing of the joiner but what it signs in the handshake: [`AnyNode`] takes every Ed25519 key and says whose it
//! is; who may join is decided by the ticket. Both check the handshake's signature as members do.

use mesh_protocol::id::NodeId;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme,
};

use super::certificate::node_of_leaf;
use super::verifier::verify_ed25519;

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

impl ServerCertVerifier for PinnedNode {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if only_node(leaf, intermediates)? == self.0 {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::NotValidForName))
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_ed25519(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

impl ClientCertVerifier for AnyNode {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        only_node(leaf, intermediates).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_ed25519(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

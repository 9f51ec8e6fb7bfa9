//! The one shape of a handshake's checks: what is asked of a peer's certificate, as the TLS library wants it at either
//! end.
//!
//! What is asked differs, and is a [`PeerCheck`]. What does not differ stands here once: TLS 1.3 alone (RFC 9001,
//! section 4.2), Ed25519 alone, and nothing about the mesh told to strangers. Signatures are checked by the library
//! alone: an own "valid" here would let anyone in who copied a certificate.

use std::fmt::Debug;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme};

/// The one signature algorithm of a mesh.
pub(super) static ED25519_ONLY: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[webpki::aws_lc_rs::ED25519],
    mapping: &[(SignatureScheme::ED25519, &[webpki::aws_lc_rs::ED25519])],
};

/// What is asked of a peer.
pub(crate) trait PeerCheck: Debug + Send + Sync {
    /// Judges the certificate, but not that its owner is there.
    fn check_certificate(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error>;

    /// The same of whoever answered a dial.
    fn check_answerer(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        self.check_certificate(leaf, intermediates, now)
    }

    /// Hears that the handshake was not signed by the certificate's key.
    fn signature_refused(&self) {}
}

/// A check, at either end of a handshake.
#[derive(Debug)]
pub(crate) struct Handshake<C>(pub(crate) C);

impl<C: PeerCheck> Handshake<C> {
    fn check_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_ed25519(message, leaf, signature).inspect_err(|_| self.0.signature_refused())
    }
}

/// The library's check of a TLS 1.3 handshake signature, for Ed25519 alone.
fn verify_ed25519(
    message: &[u8],
    leaf: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    if signature.scheme != SignatureScheme::ED25519 {
        return Err(PeerIncompatible::NoSignatureSchemesInCommon.into());
    }
    rustls::crypto::verify_tls13_signature(message, leaf, signature, &ED25519_ONLY)
}

impl<C: PeerCheck> ServerCertVerifier for Handshake<C> {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.check_answerer(leaf, intermediates, now).map(|()| ServerCertVerified::assertion())
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
        self.check_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

impl<C: PeerCheck> ClientCertVerifier for Handshake<C> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A listener does not tell strangers which mesh it is of.
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.check_certificate(leaf, intermediates, now).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ServerCertVerifier::supported_verify_schemes(self)
    }
}

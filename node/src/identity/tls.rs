//! TLS as both ends of every connection speak it: 1.3, one key exchange, no memory of earlier sessions.
//!
//! The key exchange is the hybrid X25519MLKEM768, so that what is recorded today stays closed to a quantum computer
//! of tomorrow; a peer that offers only X25519 is refused. No session tickets, no session cache, no early data, no
//! server name in the clear. The provider is passed in everywhere: nothing depends on the process's default.

use std::sync::Arc;
use std::time::Duration;

use mesh_protocol::id::NodeId;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::UnixTime;
use rustls::server::NoServerSessionStorage;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ServerConfig};
use thiserror::Error;

use super::handshake::{ED25519_ONLY, Handshake};
use super::pinned::{AnyNode, PinnedNode};
use super::root::self_signed;
use super::{CertificateError, Credentials, KeyError, MemberVerifier, NodeKey, RootError};
use crate::clock::Clock;

/// Member to member, major version 1 (RFC 7301).
const ALPN_MESH: &[u8] = b"mesh/1";
/// Member to member, for packets of other connections only. A protocol of its own, so that both ends know from the first
/// moment what a connection is for, and a node that relays nothing refuses it in TLS.
pub(crate) const ALPN_CARRIER: &[u8] = b"mesh-carrier/1";
/// Joiner to issuer, on a port of its own.
const ALPN_JOIN: &[u8] = b"mesh-join/1";

/// The node's wall clock, by which the dates of certificates are checked.
#[derive(Debug)]
struct WallTime(Arc<dyn Clock>);

impl TimeProvider for WallTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(self.0.now().wall_ms)))
    }
}

/// Why no TLS configuration came out of these credentials.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The key cannot be encoded.
    #[error("cannot use the node's key")]
    Key(#[from] KeyError),
    /// The leaf or the root is no certificate.
    #[error("cannot use the node's certificate")]
    Certificate(#[from] CertificateError),
    /// A joiner cannot sign a certificate for itself.
    #[error("cannot sign a certificate for this node")]
    SelfSigned(#[from] RootError),
    /// Key and certificate do not fit together, or the provider lacks something.
    #[error("cannot set up TLS")]
    Setup(#[from] rustls::Error),
    /// The certificate is for another node's key.
    #[error("the certificate is for another node's key")]
    OtherKey,
}

/// What a member listens with.
pub(crate) fn member_server(
    credentials: &Credentials,
    verifier: MemberVerifier,
    clock: Arc<dyn Clock>,
) -> Result<ServerConfig, TlsError> {
    check_own_leaf(credentials)?;
    let config = ServerConfig::builder_with_details(provider(), Arc::new(WallTime(clock)))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(Handshake(verifier)))
        .with_single_cert(credentials.leaf.to_chain(), credentials.key.to_pkcs8()?)?;
    Ok(forgetful_server(config, ALPN_MESH))
}

/// What a member dials with. The verifier must be one for the dialled node.
pub(crate) fn member_client(
    credentials: &Credentials,
    verifier: MemberVerifier,
    clock: Arc<dyn Clock>,
) -> Result<ClientConfig, TlsError> {
    check_own_leaf(credentials)?;
    let config = ClientConfig::builder_with_details(provider(), Arc::new(WallTime(clock)))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Handshake(verifier)))
        .with_client_auth_cert(credentials.leaf.to_chain(), credentials.key.to_pkcs8()?)?;
    Ok(forgetful_client(config, ALPN_MESH))
}

/// What an issuer listens for joiners with: it shows its member's certificate and takes any key.
pub(crate) fn join_server(credentials: &Credentials) -> Result<ServerConfig, TlsError> {
    check_own_leaf(credentials)?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(Handshake(AnyNode)))
        .with_single_cert(credentials.leaf.to_chain(), credentials.key.to_pkcs8()?)?;
    Ok(forgetful_server(config, ALPN_JOIN))
}

/// What a joiner dials its issuer with: it shows a certificate it signed itself.
pub(crate) fn join_client(key: &NodeKey, issuer: NodeId) -> Result<ClientConfig, TlsError> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Handshake(PinnedNode(issuer))))
        .with_client_auth_cert(self_signed(key)?.to_chain(), key.to_pkcs8()?)?;
    Ok(forgetful_client(config, ALPN_JOIN))
}

fn check_own_leaf(credentials: &Credentials) -> Result<(), TlsError> {
    if credentials.leaf.node()? == credentials.key.node() { Ok(()) } else { Err(TlsError::OtherKey) }
}

fn provider() -> Arc<CryptoProvider> {
    use aws_lc_rs::cipher_suite::{
        TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    Arc::new(CryptoProvider {
        // QUIC protects its first packets with AES-128-GCM (RFC 9001, section 5.2), so it has to be here.
        cipher_suites: vec![
            TLS13_AES_256_GCM_SHA384,
            TLS13_AES_128_GCM_SHA256,
            TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![aws_lc_rs::kx_group::X25519MLKEM768],
        signature_verification_algorithms: ED25519_ONLY,
        ..aws_lc_rs::default_provider()
    })
}

fn forgetful_server(mut config: ServerConfig, alpn: &[u8]) -> ServerConfig {
    config.alpn_protocols = vec![alpn.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    config
}

fn forgetful_client(mut config: ClientConfig, alpn: &[u8]) -> ClientConfig {
    config.alpn_protocols = vec![alpn.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config.enable_sni = false;
    config
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::NodeClock;
    use crate::identity::{Admission, MeshRoot};
    use rustls::client::danger::ServerCertVerifier;
    use rustls::internal::msgs::codec::Codec;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::server::danger::ClientCertVerifier;
    use rustls::{DigitallySignedStruct, ProtocolVersion, SignatureScheme};

    fn member() -> (Credentials, MemberVerifier, Arc<dyn Clock>) {
        let root = MeshRoot::from_seed(&[1; 32], 1_750_000_000_000).unwrap();
        let key = NodeKey::from_seed(&[2; 32]);
        let leaf = root.issue(key.node(), 1_750_000_000_000).unwrap();
        let credentials = Credentials { key, leaf, root: root.certificate().clone() };
        let verifier = MemberVerifier::new(&credentials.root, Arc::new(Admission::default())).unwrap();
        (credentials, verifier, Arc::new(NodeClock::start(None).unwrap()))
    }

    /// A ClientHello of TLS 1.2 (RFC 5246, section 7.4.1.2): two suites, no extensions.
    fn hello_of_tls12() -> Vec<u8> {
        let body = [&[3, 3][..], &[7; 32], &[0, 0, 4, 0xc0, 0x2f, 0xc0, 0x2b, 1, 0]].concat();
        let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
        let handshake = [&[1, 0][..], &length(&body), &body].concat();
        [&[22, 3, 1][..], &length(&handshake), &handshake].concat()
    }

    #[test]
    fn a_peer_that_speaks_only_tls_1_2_is_refused() {
        let (credentials, verifier, clock) = member();
        let server = Arc::new(member_server(&credentials, verifier, clock).unwrap());
        let mut connection = rustls::ServerConnection::new(server).unwrap();
        connection.read_tls(&mut hello_of_tls12().as_slice()).unwrap();
        let error = connection.process_new_packets().unwrap_err();
        assert!(matches!(error, rustls::Error::PeerIncompatible(_)), "{error:?}");
    }

    #[test]
    fn a_signature_of_tls_1_2_or_of_another_scheme_is_no_signature() {
        let (credentials, verifier, _) = member();
        let verifier = Handshake(verifier);
        let leaf = CertificateDer::from(credentials.leaf.as_der().to_vec());
        let signed = |scheme: SignatureScheme| {
            let scheme = u16::from(scheme).to_be_bytes();
            DigitallySignedStruct::read_bytes(&[scheme.as_slice(), &[0, 2, 1, 1]].concat()).unwrap()
        };
        let ed25519 = signed(SignatureScheme::ED25519);
        assert!(ServerCertVerifier::verify_tls12_signature(&verifier, b"", &leaf, &ed25519).is_err());
        assert!(ClientCertVerifier::verify_tls12_signature(&verifier, b"", &leaf, &ed25519).is_err());
        let other = signed(SignatureScheme::ECDSA_NISTP256_SHA256);
        assert!(ServerCertVerifier::verify_tls13_signature(&verifier, b"", &leaf, &other).is_err());
        assert_eq!(ServerCertVerifier::supported_verify_schemes(&verifier), [SignatureScheme::ED25519]);
        assert_eq!(ClientCertVerifier::supported_verify_schemes(&verifier), [SignatureScheme::ED25519]);
    }

    #[test]
    fn a_dial_that_names_no_node_takes_nobodys_answer() {
        let (credentials, verifier, clock) = member();
        let leaf = CertificateDer::from(credentials.leaf.as_der().to_vec());
        let name = ServerName::try_from("any.invalid").unwrap();
        let now = WallTime(clock).current_time().unwrap();
        let dialling = Handshake(verifier.dialling(credentials.key.node()));
        assert!(dialling.verify_server_cert(&leaf, &[], &name, &[], now).is_ok());
        let nameless = Handshake(verifier);
        assert!(nameless.verify_client_cert(&leaf, &[], now).is_ok(), "it is a good verifier for a listener");
        assert!(nameless.verify_server_cert(&leaf, &[], &name, &[], now).is_err());
    }

    #[test]
    fn nothing_is_kept_between_sessions_and_nothing_is_offered_but_the_hybrid() {
        let (credentials, verifier, clock) = member();
        let server = member_server(&credentials, verifier.clone(), Arc::clone(&clock)).unwrap();
        assert_eq!((server.send_tls13_tickets, server.max_early_data_size), (0, 0));
        assert!(!server.session_storage.can_cache() && !server.ticketer.enabled());
        let client = member_client(&credentials, verifier, clock).unwrap();
        assert!(!client.enable_early_data && !client.enable_sni);
        let groups: Vec<_> = provider().kx_groups.iter().map(|group| group.name()).collect();
        assert_eq!(groups, [rustls::NamedGroup::X25519MLKEM768]);
        let versions: Vec<_> = provider().cipher_suites.iter().map(|suite| suite.version().version).collect();
        assert!(versions.iter().all(|version| *version == ProtocolVersion::TLSv1_3));
    }
}

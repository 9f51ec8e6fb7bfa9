//! Peers that do not keep to the rules: QUIC and TLS by hand.

use std::net::SocketAddr;
use std::sync::Arc;

use mesh_node::identity::{Credentials, Leaf, NodeKey};
use mesh_protocol::codec;
use mesh_protocol::hello::{Features, Hello, HelloAck, MINORS};
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::BootId;
use mesh_protocol::record::RecordVersion;
use mesh_protocol::stream::StreamKind;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig};

use super::fixture::{loopback_socket, soon};
use super::gullible::{Gullible, pkcs8};

/// What a hand-made peer shows and offers.
pub(crate) struct Costume {
    pub(crate) leaf: Leaf,
    pub(crate) key: NodeKey,
    pub(crate) alpn: &'static [u8],
    pub(crate) provider: CryptoProvider,
}

impl Costume {
    /// Keeps to the rules so far.
    pub(crate) fn of(credentials: &Credentials) -> Self {
        Self {
            leaf: credentials.leaf.clone(),
            key: credentials.key.clone(),
            alpn: b"mesh/1",
            provider: aws_lc_rs::default_provider(),
        }
    }

    /// Shows another's certificate and signs with its own key.
    pub(crate) fn stolen(victim: &Credentials, thief: &NodeKey) -> Self {
        Self { key: thief.clone(), ..Self::of(victim) }
    }

    pub(crate) fn only_x25519(mut self) -> Self {
        self.provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
        self
    }

    pub(crate) fn speaking(mut self, alpn: &'static [u8]) -> Self {
        self.alpn = alpn;
        self
    }

    /// Any certificate with any key, which the ordinary builders would refuse.
    fn certified(&self) -> CertifiedKey {
        let key = self.provider.key_provider.load_private_key(pkcs8(&self.key)).unwrap();
        CertifiedKey::new(vec![CertificateDer::from(self.leaf.as_der().to_vec())], key)
    }

    pub(crate) fn client(&self) -> quinn::ClientConfig {
        let mut config = ClientConfig::builder_with_provider(Arc::new(self.provider.clone()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Gullible))
            .with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(self.certified())));
        config.alpn_protocols = vec![self.alpn.to_vec()];
        config.enable_early_data = true;
        quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()))
    }

    pub(crate) fn server(&self) -> quinn::ServerConfig {
        let mut config = ServerConfig::builder_with_provider(Arc::new(self.provider.clone()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(Arc::new(Gullible))
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(self.certified())));
        config.alpn_protocols = vec![self.alpn.to_vec()];
        quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config).unwrap()))
    }

    /// An endpoint that listens and dials in this costume.
    pub(crate) fn endpoint(&self) -> quinn::Endpoint {
        let config = quinn::EndpointConfig::default();
        let runtime = Arc::new(quinn::TokioRuntime);
        let socket = loopback_socket();
        let mut endpoint = quinn::Endpoint::new(config, Some(self.server()), socket, runtime).unwrap();
        endpoint.set_default_client_config(self.client());
        endpoint
    }
}

pub(crate) async fn connect_raw(endpoint: &quinn::Endpoint, address: SocketAddr) -> quinn::Connection {
    soon(endpoint.connect(address, "any.invalid").unwrap()).await.unwrap()
}

pub(crate) fn hello(node: NodeId, mesh: &super::fixture::Mesh) -> Hello {
    Hello {
        minors: MINORS,
        features: Features::default(),
        mesh: mesh.root.certificate().key().mesh(),
        node,
        boot: BootId(1),
        dial: 1,
        record: RecordVersion::default(),
        frame_bytes_max: 1_000_000,
    }
}

/// Says this Hello, and returns what comes back.
pub(crate) async fn say_hello(
    connection: &quinn::Connection,
    hello: &Hello,
) -> Result<HelloAck, quinn::ConnectionError> {
    let (mut send, mut receive) = connection.open_bi().await?;
    let frame = codec::frame(&codec::encode(hello), 65_536).unwrap();
    send.write_all(&[&[StreamKind::Control.byte()], frame.as_slice()].concat()).await.unwrap();
    match soon(receive.read_to_end(65_536)).await {
        Ok(bytes) => Ok(codec::decode(&bytes[4..]).unwrap()),
        Err(_) => Err(connection.closed().await),
    }
}

/// The code and whether the application or QUIC closed the connection, as this end was told.
pub(crate) async fn closed_with(connection: &quinn::Connection) -> (u64, bool) {
    match soon(connection.closed()).await {
        quinn::ConnectionError::ApplicationClosed(close) => (close.error_code.into_inner(), true),
        quinn::ConnectionError::ConnectionClosed(close) => (close.error_code.into(), false),
        other => panic!("closed otherwise: {other}"),
    }
}

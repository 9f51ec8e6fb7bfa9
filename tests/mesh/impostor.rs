//! Peers that are not what they show: QUIC and TLS by hand.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mesh_node::identity::{Leaf, MeshRoot, NodeKey};
use mesh_protocol::codec;
use mesh_protocol::hello::{Features, Hello, HelloAck, MINORS};
use mesh_protocol::id::MeshId;
use mesh_protocol::peer::BootId;
use mesh_protocol::record::RecordVersion;
use mesh_protocol::stream::StreamKind;
use mesh_tests::network::Host;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ServerConfig};

use crate::gullible::{Gullible, pkcs8};
use crate::node::{Node, PORT, WITHIN};

/// Bytes of the longest frame these peers read.
const FRAME_BYTES_MAX: usize = 64 * 1024;

/// What a peer by hand shows and offers.
pub(crate) struct Impostor {
    pub(crate) leaf: Leaf,
    pub(crate) key: NodeKey,
    pub(crate) provider: CryptoProvider,
}

impl Impostor {
    /// Shows this certificate and signs with this key.
    pub(crate) fn new(leaf: Leaf, key: NodeKey) -> Self {
        Self { leaf, key, provider: aws_lc_rs::default_provider() }
    }

    /// A node of another mesh.
    pub(crate) fn stranger() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let wall_ms = u64::try_from(since.as_millis()).unwrap();
        let root = MeshRoot::from_seed(&[9; 32], wall_ms).unwrap();
        let key = NodeKey::generate().unwrap();
        Self::new(root.issue(key.node(), wall_ms).unwrap(), key)
    }

    /// Offers no post-quantum key exchange.
    pub(crate) fn only_x25519(mut self) -> Self {
        self.provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
        self
    }

    /// An endpoint on a host that listens and dials.
    pub(crate) fn endpoint(&self, host: &Host, port: u16) -> quinn::Endpoint {
        let (config, runtime) = (quinn::EndpointConfig::default(), Arc::new(quinn::TokioRuntime));
        let socket = host.bind(port).unwrap();
        let mut endpoint = quinn::Endpoint::new(config, Some(self.server()), socket, runtime).unwrap();
        endpoint.set_default_client_config(self.client());
        endpoint
    }

    /// Answers at a host in the place of its node until the endpoint is dropped.
    pub(crate) fn answer(&self, host: &Host) -> quinn::Endpoint {
        let endpoint = self.endpoint(host, PORT);
        let listening = endpoint.clone();
        tokio::spawn(async move {
            while let Some(incoming) = listening.accept().await {
                let _ = incoming.await;
            }
        });
        endpoint
    }

    /// Any certificate with any key, which the ordinary builders would refuse.
    fn certified(&self) -> Arc<SingleCertAndKey> {
        let key = self.provider.key_provider.load_private_key(pkcs8(&self.key)).unwrap();
        let chain = vec![CertificateDer::from(self.leaf.as_der().to_vec())];
        Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key)))
    }

    fn client(&self) -> quinn::ClientConfig {
        let mut config = ClientConfig::builder_with_provider(Arc::new(self.provider.clone()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Gullible))
            .with_client_cert_resolver(self.certified());
        config.alpn_protocols = vec![b"mesh/1".to_vec()];
        quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()))
    }

    fn server(&self) -> quinn::ServerConfig {
        let mut config = ServerConfig::builder_with_provider(Arc::new(self.provider.clone()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(Arc::new(Gullible))
            .with_cert_resolver(self.certified());
        config.alpn_protocols = vec![b"mesh/1".to_vec()];
        quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(config).unwrap()))
    }
}

/// Dials a node: its answer to TLS, before it has judged ours.
pub(crate) async fn dial(
    endpoint: &quinn::Endpoint,
    node: &Node,
) -> Result<quinn::Connection, quinn::ConnectionError> {
    let connecting = endpoint.connect(node.host.at(PORT), "any.invalid").unwrap();
    tokio::time::timeout(WITHIN, connecting).await.expect("TLS ends in time")
}

/// The certificate a node shows to whoever dials it: no secret.
pub(crate) async fn certificate_of(endpoint: &quinn::Endpoint, node: &Node) -> Leaf {
    let connection = dial(endpoint, node).await.unwrap();
    let chain = connection.peer_identity().unwrap().downcast::<Vec<CertificateDer<'static>>>().unwrap();
    Leaf::from_der(chain[0].to_vec())
}

/// Says Hello as the owner of a key, and returns what comes back.
pub(crate) async fn greet(
    connection: &quinn::Connection,
    mesh: MeshId,
    key: &NodeKey,
) -> Result<HelloAck, quinn::ConnectionError> {
    greet_as(connection, mesh, key, 1).await
}

/// The same in a dial of this number.
pub(crate) async fn greet_as(
    connection: &quinn::Connection,
    mesh: MeshId,
    key: &NodeKey,
    number: u64,
) -> Result<HelloAck, quinn::ConnectionError> {
    let hello = Hello {
        minors: MINORS,
        features: Features::default(),
        mesh,
        node: key.node(),
        boot: BootId(1),
        dial: number,
        record: RecordVersion::default(),
        frame_bytes_max: 1_000_000,
    };
    let (mut send, mut receive) = connection.open_bi().await?;
    let frame = codec::frame(&codec::encode(&hello), FRAME_BYTES_MAX).unwrap();
    // Refused in between, the connection says why.
    let _ = send.write_all(&[&[StreamKind::Control.byte()], frame.as_slice()].concat()).await;
    let mut length = [0; 4];
    if receive.read_exact(&mut length).await.is_err() {
        return Err(connection.closed().await);
    }
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap().min(FRAME_BYTES_MAX)];
    receive.read_exact(&mut body).await.unwrap();
    Ok(codec::decode(&body).unwrap())
}

/// The TLS alert (RFC 8446, section 6.2) a connection was ended with, as QUIC carries it (RFC 9001, section 4.8).
pub(crate) fn alert(ended: &quinn::ConnectionError) -> u64 {
    match ended {
        quinn::ConnectionError::ConnectionClosed(close) => u64::from(close.error_code) - 0x100,
        other => panic!("ended otherwise: {other}"),
    }
}

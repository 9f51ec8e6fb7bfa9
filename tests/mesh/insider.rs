//! A member that does as it likes: a node's key and certificate behind QUIC by hand, let in like any other.

use std::time::Duration;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::DecodePrivateKey as _;
use mesh_node::identity::{Leaf, NodeKey};
use mesh_protocol::certificate::Certificate;
use mesh_protocol::codec::{decode, encode, frame};
use mesh_protocol::delivery::{Content, Epoch, Open, Parcel, ToReceiver, ToSender};
use mesh_protocol::id::{MeshId, MessageId, NodeId};
use mesh_protocol::message::PeerMessage;
use mesh_protocol::probe::{Probe, Standing};
use mesh_protocol::record::{NodeRecord, RecordVersion, SignedRecord};
use mesh_protocol::stream::StreamKind;
use mesh_protocol::sync::SyncFrame;
use mesh_tests::network::Host;

use crate::gullible::pkcs8;
use crate::impostor::{Impostor, certificate_of, dial, greet, greet_as};
use crate::node::{Node, WITHIN};

/// Bytes of the longest frame an insider sends or reads.
const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A member's link to one node.
pub(crate) struct Insider {
    pub(crate) key: NodeKey,
    pub(crate) mesh: MeshId,
    pub(crate) certificate: Certificate,
    pub(crate) link: quinn::Connection,
    host: Host,
    identity: Impostor,
    _endpoint: quinn::Endpoint,
}

/// A stream of either end's making.
pub(crate) type Stream = (quinn::SendStream, quinn::RecvStream);

impl Insider {
    /// Takes the place of a node that runs, and links to another.
    pub(crate) async fn replace(mut node: Node, target: &Node) -> Self {
        let key = NodeKey::load(&node.home.join("node.key")).unwrap();
        let anybody = Impostor::stranger();
        let leaf = certificate_of(&anybody.endpoint(&target.host, 0), &node).await;
        node.kill();
        let mesh = target.client.status().await.unwrap().mesh.unwrap();
        let certificate = Certificate::from_der(leaf.as_der().to_vec());
        let identity = Impostor::new(leaf, key.clone());
        let endpoint = identity.endpoint(&node.host, 0);
        let link = dial(&endpoint, target).await.unwrap();
        greet(&link, mesh, &key).await.unwrap();
        tokio::spawn(answer_probes(link.clone()));
        Self { key, mesh, certificate, link, host: node.host.clone(), identity, _endpoint: endpoint }
    }

    /// The same member on a newer link.
    pub(crate) async fn link_anew(&self, target: &Node) -> Self {
        let identity = Impostor::new(Leaf::from_der(self.certificate.as_der().to_vec()), self.key.clone());
        let endpoint = identity.endpoint(&self.host, 0);
        let link = dial(&endpoint, target).await.unwrap();
        greet_as(&link, self.mesh, &self.key, 2).await.unwrap();
        tokio::spawn(answer_probes(link.clone()));
        let (key, certificate, host) = (self.key.clone(), self.certificate.clone(), self.host.clone());
        Self { key, mesh: self.mesh, certificate, link, host, identity, _endpoint: endpoint }
    }

    pub(crate) fn host(&self) -> Host {
        self.host.clone()
    }

    pub(crate) fn id(&self) -> NodeId {
        self.key.node()
    }

    /// Whether the link is still up.
    pub(crate) fn is_linked(&self) -> bool {
        self.link.close_reason().is_none()
    }

    /// One more connection of the same member, under the number of the one it has, which no honest dialler gives twice.
    pub(crate) async fn connect_again(&self, target: &Node) -> Result<(), quinn::ConnectionError> {
        let endpoint = self.identity.endpoint(&self.host, 0);
        let link = dial(&endpoint, target).await?;
        greet(&link, self.mesh, &self.key).await.map(drop)
    }

    /// A stream of this kind with these bytes on it.
    pub(crate) async fn open(
        &self,
        kind: StreamKind,
        bytes: &[u8],
    ) -> Result<Stream, quinn::ConnectionError> {
        let (mut send, receive) = self.link.open_bi().await?;
        // Refused already, reading says so.
        let _ = send.write_all(&[&[kind.byte()], bytes].concat()).await;
        Ok((send, receive))
    }

    /// Offers records as the one end of a comparison, and waits until the other has read them.
    pub(crate) async fn offer(&self, records: Vec<SignedRecord>) -> Result<(), quinn::ConnectionError> {
        let offer = SyncFrame::Offer { wanted: Vec::new(), records, last: true };
        let frames = [SyncFrame::Root([7; 16]), offer].map(|sent| framed(&sent.encode()));
        let (mut send, mut receive) = self.open(StreamKind::Sync, &frames.concat()).await?;
        // Given up, it has ended too.
        let _ = send.finish();
        let _ = receive.read_to_end(FRAME_BYTES_MAX).await;
        Ok(())
    }

    /// A record with this node's key under it, whatever it says.
    pub(crate) fn sign(&self, record: &NodeRecord) -> SignedRecord {
        let key = pkcs8(&self.key);
        record.sign(&SigningKey::from_pkcs8_der(key.secret_der()).unwrap()).unwrap()
    }

    /// A sending session to the node, opened and answered.
    pub(crate) async fn deliver(&self) -> Delivery {
        let epoch = Epoch(*MessageId::mint(1, fresh()).as_bytes());
        let open = ToReceiver::Open(Open { epoch, next: 1, acked: 0, session: u64::from_be_bytes(fresh()) });
        let (send, mut receive) = self.open(StreamKind::Outbox, &framed(&encode(&open))).await.unwrap();
        let answered: ToSender = decode(&next_frame(&mut receive).await.expect("it is answered")).unwrap();
        assert!(matches!(answered, ToSender::Resume(resume) if resume.mark == 0), "{answered:?}");
        Delivery { send, receive, next: 1 }
    }
}

/// Whoever answers no probe is soon taken for dead, and closed.
async fn answer_probes(link: quinn::Connection) {
    while let Ok(bytes) = link.read_datagram().await {
        if let Ok(Probe::Ping { seq, .. }) = Probe::decode(&bytes) {
            let standing = Standing { version: RecordVersion::default(), accusations: Vec::new() };
            let _ = link.send_datagram(Probe::Ack { seq, standing }.encode().into());
        }
    }
}

/// A session of an insider's.
pub(crate) struct Delivery {
    send: quinn::SendStream,
    receive: quinn::RecvStream,
    next: u64,
}

impl Delivery {
    /// Sends a parcel with any body; waits only for room on the stream.
    pub(crate) async fn send(&mut self, body: Vec<u8>) -> Result<(), quinn::WriteError> {
        let message = MessageId::mint(self.next, fresh());
        let parcel = Parcel { seq: self.next, acked: 0, message, content: Content::Body(body) };
        self.next += 1;
        self.send.write_all(&framed(&encode(&ToReceiver::Parcel(parcel)))).await
    }

    pub(crate) async fn post(&mut self, message: &PeerMessage) {
        self.send(encode(message)).await.unwrap();
    }

    /// Waits until everything is acknowledged; `None` when the node ends the session.
    pub(crate) async fn acknowledged(&mut self) -> Option<()> {
        loop {
            match decode(&next_frame(&mut self.receive).await?).unwrap() {
                ToSender::Ack(ack) if ack.mark + 1 == self.next => return Some(()),
                _ => {}
            }
        }
    }
}

/// Random bytes.
fn fresh<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let seed = NodeKey::generate().unwrap();
    bytes.iter_mut().zip(seed.node().as_bytes()).for_each(|(to, from)| *to = *from);
    bytes
}

pub(crate) fn framed(body: &[u8]) -> Vec<u8> {
    frame(body, FRAME_BYTES_MAX).unwrap()
}

/// The next frame a node sends; `None` when it ends the stream.
async fn next_frame(receive: &mut quinn::RecvStream) -> Option<Vec<u8>> {
    let read = async {
        let mut length = [0; 4];
        receive.read_exact(&mut length).await.ok()?;
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap().min(FRAME_BYTES_MAX)];
        receive.read_exact(&mut body).await.ok()?;
        Some(body)
    };
    tokio::time::timeout(WITHIN, read).await.expect("it says something or ends the stream")
}

/// How a node ends a stream on which it was sent something it does not take: within moments, and with a code.
pub(crate) async fn ended((_send, mut receive): Stream) -> Option<u64> {
    match tokio::time::timeout(Duration::from_secs(20), receive.read_to_end(FRAME_BYTES_MAX)).await {
        Ok(Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code)))) => Some(code.into_inner()),
        Ok(_) => None,
        Err(_) => panic!("the stream is still open"),
    }
}

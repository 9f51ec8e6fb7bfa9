//! What carries packets: a UDP socket of the system, or anything that moves packets like one.
//!
//! [`PacketSocket`] is the seam for packets that travel otherwise: over an in-memory network in a simulation, or within
//! a connection to a member that relays them.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hmac::{Hmac, KeyInit, Mac};
use quinn::crypto::{CryptoError, HmacKey};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, ConnectionId, ConnectionIdGenerator, EndpointConfig, Runtime, UdpPoller};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::Paths;
use crate::identity::NodeKey;

/// Bytes of a connection id.
const CONNECTION_ID_BYTES: usize = 8;
/// Bytes of a stateless reset's signature.
const RESET_SIGNATURE_BYTES: usize = 32;

/// Moves single packets to and from addresses, without promises: they may be lost, doubled and reordered.
pub trait PacketSocket: fmt::Debug + Send + Sync + 'static {
    /// Where packets to us are sent.
    ///
    /// # Errors
    /// When there is no such address any more.
    fn local_address(&self) -> io::Result<SocketAddr>;

    /// Sends one packet now.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room; then [`Self::poll_writable`] wakes. Any other error is for good: a packet
    /// that is merely lost is no error.
    fn try_send(&self, to: SocketAddr, packet: &[u8]) -> io::Result<()>;

    /// Ready when there may be room again. Must wake every task that waits. A socket that never says `WouldBlock` needs
    /// no other than this.
    fn poll_writable(&self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Puts the next packet into the buffer, and says how long it is and where it is from.
    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>>;
}

/// What an endpoint is bound to.
#[derive(Debug)]
pub enum Socket {
    /// A bound UDP socket of the system.
    Udp(std::net::UdpSocket),
    /// Anything else.
    Packets(Arc<dyn PacketSocket>),
    /// Paths through other members: connections over it are relayed ones.
    Paths(Arc<Paths>),
}

impl Socket {
    pub(crate) fn into_quic(self, runtime: &dyn Runtime) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        match self {
            Self::Udp(socket) => runtime.wrap_udp_socket(socket),
            Self::Packets(socket) => Ok(Arc::new(Adapter(socket))),
            Self::Paths(paths) => Ok(Arc::new(Adapter(paths))),
        }
    }
}

/// A [`PacketSocket`] as the library takes it: one packet at a time, and none larger than every path carries, since
/// nothing is known about the way.
#[derive(Debug, Clone)]
struct Adapter(Arc<dyn PacketSocket>);

impl AsyncUdpSocket for Adapter {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Self::clone(&self))
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.0.try_send(transmit.destination, transmit.contents)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let (Some(buffer), Some(meta)) = (buffers.first_mut(), metas.first_mut()) else {
            return Poll::Ready(Ok(0));
        };
        self.0.poll_receive(context, buffer).map_ok(|(len, addr)| {
            *meta = RecvMeta { addr, len, stride: len, ecn: None, dst_ip: None };
            1
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_address()
    }
}

impl UdpPoller for Adapter {
    fn poll_writable(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_writable(context)
    }
}

/// The endpoint's own secrets and randomness.
///
/// The key of stateless resets (RFC 9000, section 10.3) comes from the node's key, so that after a restart old
/// connections of peers end at their next packet instead of at their idle timeout.
pub(crate) fn endpoint_config(key: &NodeKey, seed: Option<[u8; 32]>) -> EndpointConfig {
    let mut config = EndpointConfig::new(Arc::new(ResetKey(key.derive_secret(b"quic-reset/1"))));
    config.rng_seed(seed);
    config.cid_generator(move || {
        let random = seed.map_or_else(rand::make_rng, StdRng::from_seed);
        Box::new(RandomIds(random))
    });
    config
}

struct ResetKey(Zeroizing<[u8; 32]>);

impl ResetKey {
    fn mac(&self, message: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_ref()).ok()?;
        mac.update(message);
        Some(mac)
    }
}

impl HmacKey for ResetKey {
    fn sign(&self, message: &[u8], signature: &mut [u8]) {
        if let Some(mac) = self.mac(message) {
            let made = mac.finalize().into_bytes();
            signature.iter_mut().zip(made).for_each(|(to, from)| *to = from);
        }
    }

    fn signature_len(&self) -> usize {
        RESET_SIGNATURE_BYTES
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mac = self.mac(message).ok_or(CryptoError)?;
        mac.verify_slice(signature).map_err(|_| CryptoError)
    }
}

/// Connection ids that any later process may have made as well: resets are then sent for the ids of an earlier one.
struct RandomIds(StdRng);

impl ConnectionIdGenerator for RandomIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; CONNECTION_ID_BYTES];
        self.0.fill_bytes(&mut bytes);
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

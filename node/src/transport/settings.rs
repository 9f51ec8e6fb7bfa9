//! How connections behave: their times, their windows, their limits.

use std::time::Duration;

use mesh_protocol::hello::Features;
use mesh_protocol::limits::PARCEL_FRAME_BYTES_MAX;
use mesh_protocol::peer::BootId;
use quinn::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

/// Bytes a peer may send on one connection before we read them: two of the longest frames.
const RECEIVE_WINDOW: u32 = 8 * 1024 * 1024;
/// The same for one stream: keeps a path of 100 Mbit/s and 80 ms full.
const STREAM_RECEIVE_WINDOW: u32 = 1024 * 1024;
/// Bytes we keep for sending on one connection.
const SEND_WINDOW: u64 = 8 * 1024 * 1024;
/// Streams a peer may have open on one link: its questions, comparisons and what it delivers at once, and again as many.
/// The library sets each aside when a connection begins, which costs every link time and memory.
const LINK_STREAMS_MAX: u16 = 64;
/// The same on a carrier: every pair its member carries.
pub(super) const CARRIER_STREAMS_MAX: u16 = 256;
/// Bytes of datagrams kept in each direction; older ones are dropped first, as probes may be.
const DATAGRAM_BUFFER: usize = 1024 * 1024;
/// Handshakes that may wait for us before more are refused. The library's own default is 65,536.
pub(super) const INCOMING_MAX: usize = 256;
/// Bytes of early packets held for all of those.
pub(super) const INCOMING_BUFFER_TOTAL: u64 = 8 * 1024 * 1024;
/// Connections of one endpoint, at about 50 KB each.
const CONNECTIONS_MAX: usize = 1_024;
/// Unfinished handshakes from which on a new peer must first prove its address (RFC 9000, section 8.1.2).
const RETRY_FROM: usize = 32;
/// How long TLS, Hello and HelloAck may take together.
const GREETING: Duration = Duration::from_secs(5);

/// When a silent connection counts as dead, and how long its packets may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// How often a quiet connection sends something, so that it and the address mappings on its path live on.
    pub keep_alive: Duration,
    /// After how long without a packet it ends.
    pub idle: Duration,
    /// The longest payload of UDP that is tried and taken, in bytes. What a path really carries is found out (RFC 8899).
    pub packet_bytes: u16,
}

impl Profile {
    /// For any network: mappings of a NAT often last 30 s.
    pub const WIDE: Self = Self {
        keep_alive: Duration::from_secs(5),
        idle: Duration::from_secs(15),
        packet_bytes: RELAYED_PACKET_BYTES,
    };
    /// For one machine, where silence means more and packets may be long: most of what a short one costs is the way
    /// through the kernel. Ten of them, as many as the library hands over at once, fit into the 64 KiB of one call (udp(7),
    /// `UDP_SEGMENT`).
    pub const LOCAL: Self =
        Self { keep_alive: Duration::from_secs(1), idle: Duration::from_secs(3), packet_bytes: 6 * 1024 };
}

/// How an endpoint behaves. [`Settings::new`] is what a node uses; tests and simulations change single fields.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This process, told to every peer.
    pub boot: BootId,
    /// What this node can do, told to every peer.
    pub features: Features,
    /// Times of a connection.
    pub profile: Profile,
    /// How long TLS, Hello and HelloAck may take together.
    pub greeting: Duration,
    /// Connections this endpoint holds, in both directions; more are refused.
    pub connections_max: usize,
    /// Unfinished handshakes from which on a new peer must first prove its address.
    pub retry_from: usize,
    /// Bytes of the longest frame this node takes.
    pub frame_bytes_max: u32,
    /// Where connection ids, packet numbers and the like come from: a seed makes a simulated run repeatable. Keys
    /// are always drawn from the system.
    pub seed: Option<[u8; 32]>,
}

impl Settings {
    /// A node's settings in this process.
    #[must_use]
    pub fn new(boot: BootId) -> Self {
        Self {
            boot,
            features: Features::RELAY,
            profile: Profile::WIDE,
            greeting: GREETING,
            connections_max: CONNECTIONS_MAX,
            retry_from: RETRY_FROM,
            frame_bytes_max: u32::try_from(PARCEL_FRAME_BYTES_MAX).unwrap_or(u32::MAX),
            seed: None,
        }
    }
}

/// Bytes of the packets of a relayed connection. No path has to carry them in one piece, so they are as long as any end
/// takes; the library's own guess would be 1,200.
pub(super) const RELAYED_PACKET_BYTES: u16 = 1_452;
/// Bytes kept for sending on a carrier. What waits there delays every packet behind it, probes included, and on a slow
/// line a window made for bodies would hold seconds of them.
pub(super) const CARRIER_SEND_WINDOW: u64 = 512 * 1024;

/// The library's settings for connections with these times.
pub(super) fn transport_config(profile: Profile) -> TransportConfig {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(profile.packet_bytes);
    let mut config = TransportConfig::default();
    config
        .keep_alive_interval(Some(profile.keep_alive))
        // An idle time beyond what the library can hold is none at all.
        .max_idle_timeout(IdleTimeout::try_from(profile.idle).ok())
        .mtu_discovery_config(Some(discovery))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .stream_receive_window(VarInt::from_u32(STREAM_RECEIVE_WINDOW))
        .send_window(SEND_WINDOW)
        .max_concurrent_bidi_streams(VarInt::from_u32(u32::from(LINK_STREAMS_MAX)))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER))
        .datagram_send_buffer_size(DATAGRAM_BUFFER);
    config
}

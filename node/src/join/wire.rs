//! What both ends of a join share: limits, times, one frame each way.

use std::time::Duration;

use mesh_protocol::codec;
use mesh_protocol::join::EXPORTER_LABEL;
use quinn::{
    Connection, IdleTimeout, ReadExactError, RecvStream, SendStream, TransportConfig, VarInt, WriteError,
};
use thiserror::Error;

/// How long a join may take, from the first packet to the reply. The issuer's commit is in it.
pub(super) const JOIN_WITHIN: Duration = Duration::from_secs(10);
/// Bytes in flight in each direction: a reply with a full revocation list.
const WINDOW: u32 = 1024 * 1024;

/// Why a frame was not exchanged.
#[derive(Debug, Error)]
pub(super) enum WireError {
    #[error("cannot send")]
    Send(#[from] WriteError),
    #[error("cannot receive")]
    Receive(#[from] ReadExactError),
    #[error("what came is not a frame of this protocol")]
    Frame(#[from] codec::DecodeError),
    #[error("TLS exports no keying material")]
    Exporter,
}

pub(super) fn transport_config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .max_idle_timeout(IdleTimeout::try_from(JOIN_WITHIN).ok())
        .receive_window(VarInt::from_u32(WINDOW))
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    config
}

/// The value that names this TLS connection and no other (RFC 8446, section 7.5).
pub(super) fn exporter(connection: &Connection) -> Result<[u8; 32], WireError> {
    let mut value = [0; 32];
    connection.export_keying_material(&mut value, EXPORTER_LABEL, b"").map_err(|_| WireError::Exporter)?;
    Ok(value)
}

pub(super) async fn send(stream: &mut SendStream, body: &[u8], limit: usize) -> Result<(), WireError> {
    stream.write_all(&codec::frame(body, limit)?).await?;
    // Fails only when the stream is closed already.
    let _ = stream.finish();
    Ok(())
}

/// One frame. Its length is checked first; only the issuer, whom the joiner pinned, may send a long one.
pub(super) async fn receive(stream: &mut RecvStream, limit: usize) -> Result<Vec<u8>, WireError> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).await?;
    let mut body = vec![0; codec::frame_length(header, limit)?];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

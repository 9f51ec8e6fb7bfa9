//! Packets on a byte stream, each with its length in two bytes before it: what a relayed connection travels in.
//!
//! Any byte stream will do that an asynchronous reader and writer exist for: a stream of a connection to a member, a
//! TCP connection, the two pipes of a program. It must be reliable and in order; nothing else is asked of it, and what
//! comes out of it is hostile.

use bytes::{Buf as _, Bytes, BytesMut};
use mesh_protocol::relay::PACKET_BYTES_MAX;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// Bytes read or written at once: some fifty packets, so that a busy path is not slowed down by single ones.
const CHUNK_BYTES: usize = 64 * 1024;

/// Why no more packets come out of a stream.
#[derive(Debug, Error)]
pub enum PacketError {
    /// The length is nothing a packet has.
    #[error("a packet of {0} bytes")]
    Length(usize),
    /// It ended in the middle of one.
    #[error("the stream ended within a packet")]
    Truncated,
    /// The stream broke.
    #[error("the stream broke")]
    Broken(#[from] std::io::Error),
}

/// Takes packets out of a byte stream.
#[derive(Debug)]
pub struct PacketReader<R> {
    read: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> PacketReader<R> {
    /// From the beginning of a packet on.
    pub fn new(read: R) -> Self {
        Self { read, buffer: BytesMut::new() }
    }

    /// The next packet; `None` at the end. Given up while it waits, it has lost nothing.
    ///
    /// # Errors
    /// [`PacketError`]; then the stream is of no more use.
    pub async fn next(&mut self) -> Result<Option<Bytes>, PacketError> {
        loop {
            if let Some(packet) = self.take()? {
                return Ok(Some(packet));
            }
            // At most one packet is left over, so the buffer stays small.
            self.buffer.reserve(CHUNK_BYTES);
            if self.read.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(PacketError::Truncated) };
            }
        }
    }

    /// A packet that is here whole. It is copied: a few waiting bytes must not keep a whole chunk in memory.
    fn take(&mut self) -> Result<Option<Bytes>, PacketError> {
        let Some(header) = self.buffer.first_chunk::<2>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(*header));
        if !(1..=PACKET_BYTES_MAX).contains(&length) {
            return Err(PacketError::Length(length));
        }
        let Some(packet) = self.buffer.get(2..length.saturating_add(2)) else { return Ok(None) };
        let packet = Bytes::copy_from_slice(packet);
        self.buffer.advance(length.saturating_add(2));
        Ok(Some(packet))
    }
}

/// Puts packets into a byte stream as they come, as many at once as wait, until the queue's last sender is gone.
///
/// # Errors
/// When the stream breaks.
pub async fn send_packets<W: AsyncWrite + Unpin>(
    mut write: W,
    mut queue: mpsc::Receiver<Bytes>,
) -> std::io::Result<()> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    while let Some(first) = queue.recv().await {
        let mut next = Some(first);
        while let Some(packet) = next {
            // Our own library makes no longer ones; at the other end one would break the stream.
            if let Some(length) =
                u16::try_from(packet.len()).ok().filter(|_| packet.len() <= PACKET_BYTES_MAX)
            {
                chunk.extend_from_slice(&length.to_be_bytes());
                chunk.extend_from_slice(&packet);
            }
            let full = chunk.len().saturating_add(PACKET_BYTES_MAX).saturating_add(2) > CHUNK_BYTES;
            next = if full { None } else { queue.try_recv().ok() };
        }
        write.write_all(&chunk).await?;
        chunk.clear();
    }
    write.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(bytes: &[u8]) -> (Vec<usize>, Result<Option<Bytes>, PacketError>) {
        let mut reader = PacketReader::new(bytes);
        let mut lengths = Vec::new();
        loop {
            match reader.next().await {
                Ok(Some(packet)) => lengths.push(packet.len()),
                end => return (lengths, end),
            }
        }
    }

    #[tokio::test]
    async fn packets_come_out_as_they_went_in_over_any_byte_stream() {
        // Smaller than a packet, so that every packet is cut somewhere.
        let (near, far) = tokio::io::duplex(700);
        let (queue, waiting) = mpsc::channel(64);
        let send = tokio::spawn(send_packets(near, waiting));
        let feed = tokio::spawn(async move {
            for length in 1..=PACKET_BYTES_MAX {
                queue.send(Bytes::from(vec![length.to_be_bytes()[7]; length])).await.unwrap();
            }
        });
        let mut reader = PacketReader::new(far);
        for length in 1..=PACKET_BYTES_MAX {
            let packet = reader.next().await.unwrap().unwrap();
            assert_eq!(packet, vec![length.to_be_bytes()[7]; length]);
        }
        assert!(reader.next().await.unwrap().is_none());
        feed.await.unwrap();
        send.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_length_that_no_packet_has_and_a_packet_cut_short_are_refused() {
        assert!(matches!(read_all(&[0, 1, 7, 0, 0]).await, (got, Err(PacketError::Length(0))) if got == [1]));
        let long = u16::try_from(PACKET_BYTES_MAX + 1).unwrap().to_be_bytes();
        assert!(matches!(read_all(&long).await, (_, Err(PacketError::Length(1_501)))));
        assert!(matches!(read_all(&[0, 9, 1, 2]).await, (_, Err(PacketError::Truncated))));
        assert!(matches!(read_all(&[0]).await, (_, Err(PacketError::Truncated))));
        assert!(matches!(read_all(&[]).await, (_, Ok(None))));
    }
}

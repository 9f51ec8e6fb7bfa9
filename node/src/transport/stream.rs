//! The two halves of a stream: frames out, frames in.
//!
//! A half that is dropped before its end is given up with [`StopCode::Cancelled`], so whoever works at the other end
//! notices; to end well, [`Sender::finish`]. A frame over its limit is refused at the sender before a byte is sent and
//! at the receiver before a byte is kept; memory grows with the bytes that came, not with the length that was
//! announced.

use std::fmt;
use std::sync::Arc;

use mesh_protocol::codec::{self, DecodeError};
use mesh_protocol::stream::StopCode;
use quinn::{ReadError, VarInt, WriteError};
use thiserror::Error;

use super::CloseReason;
use super::line::{Line, Mark};

/// Why a stream does not go on. Its connection does, unless the cause is [`StreamError::Lost`].
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum StreamError {
    /// A frame is over its limit. Ours was not sent; theirs was not kept, and the stream is given up.
    #[error("frame over its limit")]
    TooLong(#[from] DecodeError),
    /// The other end gave the stream up; `None` when its code is not known here.
    #[error("the peer gave the stream up ({0:?})")]
    GivenUp(Option<StopCode>),
    /// It ended in the middle of a frame.
    #[error("the stream ended within a frame")]
    Truncated,
    /// This half is closed already.
    #[error("the stream is closed")]
    Closed,
    /// The connection ended.
    #[error("the connection ended")]
    Lost(#[source] CloseReason),
}

/// Both halves of a stream.
pub(super) fn halves(
    line: &Arc<Line>,
    (send, receive): (quinn::SendStream, quinn::RecvStream),
    frame_bytes_max: usize,
) -> (Sender, Receiver) {
    let mark = Arc::new(line.mark());
    let sender = Sender { stream: send, frame_bytes_max, ended: false, mark: Arc::clone(&mark) };
    (sender, Receiver { stream: receive, ended: false, mark })
}

/// The half that sends.
pub struct Sender {
    stream: quinn::SendStream,
    /// The longest frame the peer said it takes.
    frame_bytes_max: usize,
    ended: bool,
    mark: Arc<Mark>,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender({})", self.stream.id())
    }
}

impl Sender {
    /// Sends one frame of at most `limit` bytes, and at most what the peer takes. Waits while the peer does not read.
    /// Given up while it waits, the stream holds a part of a frame and is of no more use.
    ///
    /// # Errors
    /// [`StreamError`] when the frame is too long or the stream does not go on.
    pub async fn send_frame(&mut self, body: &[u8], limit: usize) -> Result<(), StreamError> {
        let framed = codec::frame(body, limit.min(self.frame_bytes_max))?;
        self.send_raw(&framed).await
    }

    /// Ends this half: the peer reads what was sent, and then the end.
    ///
    /// # Errors
    /// [`StreamError::Closed`] when it was closed already.
    pub fn finish(&mut self) -> Result<(), StreamError> {
        self.ended = true;
        self.stream.finish().map_err(|_| StreamError::Closed)
    }

    /// Waits until the peer's machine has everything, or gave the stream up. What the peer's node made of it is for
    /// the protocol above to say.
    ///
    /// # Errors
    /// [`StreamError`] when it was given up or the connection ended.
    pub async fn finished(&mut self) -> Result<(), StreamError> {
        match self.stream.stopped().await {
            Ok(None) => Ok(()),
            Ok(Some(code)) => Err(StreamError::GivenUp(StopCode::from_number(code.into_inner()))),
            Err(error) => Err(self.write_error(error.into())),
        }
    }

    /// Gives this half up. Bytes on the way may be lost.
    pub fn give_up(&mut self, code: StopCode) {
        self.ended = true;
        // Fails only when this half is closed already.
        let _ = self.stream.reset(VarInt::from_u32(code.number()));
    }

    pub(super) const fn stream_mut(&mut self) -> &mut quinn::SendStream {
        &mut self.stream
    }

    /// Sends bytes that are no frame: the kind byte.
    pub(super) async fn send_raw(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        let written = self.stream.write_all(bytes).await;
        written.map_err(|error| self.write_error(error))
    }

    fn write_error(&self, error: WriteError) -> StreamError {
        match error {
            WriteError::Stopped(code) => StreamError::GivenUp(StopCode::from_number(code.into_inner())),
            WriteError::ConnectionLost(error) => StreamError::Lost(self.mark.0.reason(&error)),
            WriteError::ClosedStream | WriteError::ZeroRttRejected => StreamError::Closed,
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.ended {
            self.give_up(StopCode::Cancelled);
        }
    }
}

/// The half that receives.
pub struct Receiver {
    stream: quinn::RecvStream,
    ended: bool,
    mark: Arc<Mark>,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiver({})", self.stream.id())
    }
}

impl Receiver {
    /// The next frame, of at most `limit` bytes; `None` at the end. Given up while it waits, the stream is in the
    /// middle of a frame and of no more use.
    ///
    /// # Errors
    /// [`StreamError`]; on [`StreamError::TooLong`] the stream is given up with [`StopCode::FrameTooLong`].
    pub async fn receive_frame(&mut self, limit: usize) -> Result<Option<Vec<u8>>, StreamError> {
        let header = self.receive_raw(4).await?;
        let header = match <[u8; 4]>::try_from(header.as_slice()) {
            Ok(header) => header,
            Err(_) if header.is_empty() => return Ok(None),
            Err(_) => return Err(StreamError::Truncated),
        };
        let length =
            codec::frame_length(header, limit).inspect_err(|_| self.give_up(StopCode::FrameTooLong))?;
        let body = self.receive_raw(length).await?;
        if body.len() == length { Ok(Some(body)) } else { Err(StreamError::Truncated) }
    }

    /// Asks the peer to send no more.
    pub fn give_up(&mut self, code: StopCode) {
        self.ended = true;
        // Fails only when this half is closed already.
        let _ = self.stream.stop(VarInt::from_u32(code.number()));
    }

    pub(super) const fn stream_mut(&mut self) -> &mut quinn::RecvStream {
        &mut self.stream
    }

    /// The end was read as bytes: there is nothing left to give up.
    pub(super) const fn note_end(&mut self) {
        self.ended = true;
    }

    /// That many bytes; fewer only at the end of the stream.
    pub(super) async fn receive_raw(&mut self, length: usize) -> Result<Vec<u8>, StreamError> {
        let mut bytes = Vec::new();
        while let Some(missing) = length.checked_sub(bytes.len()).filter(|missing| *missing > 0) {
            match self.stream.read_chunk(missing, true).await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    self.ended = true;
                    break;
                }
                Err(error) => return Err(self.read_error(error)),
            }
        }
        Ok(bytes)
    }

    fn read_error(&mut self, error: ReadError) -> StreamError {
        match error {
            ReadError::Reset(code) => {
                self.ended = true;
                StreamError::GivenUp(StopCode::from_number(code.into_inner()))
            }
            ReadError::ConnectionLost(error) => StreamError::Lost(self.mark.0.reason(&error)),
            ReadError::ClosedStream | ReadError::IllegalOrderedRead | ReadError::ZeroRttRejected => {
                StreamError::Closed
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if !self.ended {
            self.give_up(StopCode::Cancelled);
        }
    }
}

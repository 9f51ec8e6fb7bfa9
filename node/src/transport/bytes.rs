//! A stream's halves as plain bytes, for what is no frame: packets of a relayed connection.
//!
//! Not to be mixed with frames half way: who reads bytes has read the frames before them whole.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Receiver, Sender};

impl AsyncRead for Receiver {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(AsyncRead::poll_read(Pin::new(self.stream_mut()), context, buffer))?;
        if buffer.filled().len() == before && buffer.remaining() > 0 {
            self.note_end();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Sender {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(self.stream_mut()), context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(self.stream_mut()), context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Fails only when it was closed already.
        let _ = self.finish();
        Poll::Ready(Ok(()))
    }
}

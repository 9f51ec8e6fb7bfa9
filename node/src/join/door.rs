//! The join listener's door: open exactly while somebody may come.
//!
//! ```text
//!          keep(true) / bind                keep(false) / unbind
//!   closed ────────────────> open ─────────────────────────────> closed
//! ```
//! The node says after every change of its tickets, and when the last one's time is over, whether anyone may come
//! ([`mesh_node_core::joining::open_until`]).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use thiserror::Error;

use super::{Issuer, JoinCounts, JoinListener, Redeem};
use crate::transport::{BindError, Socket};

/// Why the door does not open. It is tried again at the next change.
#[derive(Debug, Error)]
pub enum DoorError {
    /// There is no socket.
    #[error("cannot bind the join port")]
    Socket(#[source] io::Error),
    /// The listener cannot use it.
    #[error("cannot listen for joiners")]
    Listen(#[from] BindError),
}

/// Opens and closes one join listener.
pub struct Door<R> {
    issuer: Arc<Issuer<R>>,
    bind: Box<dyn Fn() -> io::Result<Socket> + Send + Sync>,
    open: Option<JoinListener>,
}

impl<R> std::fmt::Debug for Door<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.open.is_some() { "Door(open)" } else { "Door(closed)" })
    }
}

impl<R: Redeem> Door<R> {
    /// A closed door. `bind` gives a fresh socket each time it opens.
    pub fn new(
        issuer: Arc<Issuer<R>>,
        bind: impl Fn() -> io::Result<Socket> + Send + Sync + 'static,
    ) -> Self {
        Self { issuer, bind: Box::new(bind), open: None }
    }

    /// Opens or closes it; does nothing when it is as wanted.
    ///
    /// # Errors
    /// [`DoorError`] when it cannot be opened.
    pub fn keep(&mut self, open: bool) -> Result<(), DoorError> {
        match (open, &self.open) {
            (true, None) => {
                let socket = (self.bind)().map_err(DoorError::Socket)?;
                self.open = Some(JoinListener::open(socket, Arc::clone(&self.issuer))?);
            }
            (false, Some(_)) => self.open = None,
            (true, Some(_)) | (false, None) => {}
        }
        Ok(())
    }

    /// Where it is open; `None` while it is closed.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.open.as_ref().and_then(|listener| listener.local_address().ok())
    }

    /// What happened since it was opened last; zeros while it is closed.
    #[must_use]
    pub fn counts(&self) -> JoinCounts {
        self.open.as_ref().map(JoinListener::counts).unwrap_or_default()
    }
}

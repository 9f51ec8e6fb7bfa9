//! Where local programs reach a node and whose credentials are good there: its Unix socket, and a TCP port where the
//! operator wants one.

use std::sync::Arc;

use axum::Router;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::NodeError;
use crate::api::limits::Limits;
use crate::api::tokens::{Token, Tokens};
use crate::api::v1::keys::file::KeyFile;
use crate::api::v1::keys::{Authority, Operator};
use crate::api::v1::metrics::MetricsToken;
use crate::api::{self, Hosts, listener, v1};
use crate::home::{Home, HttpSection};
use crate::local::Local;

/// The doors of one node, closed.
pub(super) struct Doors {
    pub(super) tokens: Arc<Tokens>,
    /// Knows the tenants.
    keys: Arc<dyn Authority>,
    metrics_token: Option<MetricsToken>,
    port: Option<TcpListener>,
    limits: v1::limits::Limits,
}

impl Doors {
    /// Reads the credentials, and takes the port before anything is done that a taken one would waste.
    pub(super) fn of(home: &Home, http: &HttpSection) -> Result<Self, NodeError> {
        let tokens = Tokens::new(&Token::read_or_create(&home.tokens().join("operator"))?);
        let (credentials, pepper) = http.key_files(home);
        let keys = match &http.credentials {
            Some(_) => KeyFile::read(&credentials, &pepper)?,
            None => KeyFile::read_if_there(&credentials, &pepper)?,
        };
        let metrics_token = http.metrics_token.as_deref().map(MetricsToken::read).transpose()?;
        let bind =
            |address| listener::bind_tcp(address).map_err(|source| NodeError::Socket { address, source });
        let port = http.listen.map(bind).transpose()?;
        let mut limits = v1::limits::Limits::default();
        if let Some(given) = http.requests_per_minute {
            limits.requests_per_minute = given;
        }
        Ok(Self { tokens, keys: Arc::new(keys), metrics_token, port, limits })
    }

    /// Answers on the socket until `stopping` is cancelled. The port stays open until `closing` is: a tenant whose job was
    /// taken in is told so again, and every other that the node stops.
    pub(super) fn open(
        self,
        local: Arc<Local>,
        socket: UnixListener,
        (stopping, closing): (&CancellationToken, &CancellationToken),
    ) -> Result<JoinHandle<()>, NodeError> {
        let operator: Arc<dyn Authority> = Arc::new(Operator(Arc::clone(&self.tokens)));
        let jobs = |authorities, hosts| {
            let surface = v1::Surface {
                authorities,
                metrics_token: self.metrics_token.clone(),
                hosts,
                limits: self.limits,
                stopping: stopping.clone(),
            };
            v1::router(Arc::clone(&local), surface)
        };
        let here = vec![Arc::clone(&self.keys), operator];
        let here = v1::beside(self.node(&local, stopping), jobs(here, Hosts::named(v1::UNIX_HOST)));
        let port = match self.port {
            None => None,
            Some(port) => {
                let number = port.local_addr().map_err(NodeError::System)?.port();
                let there = jobs(vec![Arc::clone(&self.keys)], Hosts::loopback(number));
                Some(listener::serve_tcp(port, there, closing.clone()))
            }
        };
        let stopping = stopping.clone();
        Ok(tokio::spawn(async move {
            let socket = listener::serve(socket, here, stopping);
            match port {
                None => socket.await,
                Some(port) => drop(tokio::join!(socket, port)),
            }
        }))
    }

    /// The node's own API.
    fn node(&self, local: &Arc<Local>, stopping: &CancellationToken) -> Router {
        let surface = api::Surface {
            tokens: Arc::clone(&self.tokens),
            hosts: Hosts::unix(),
            limits: Limits::default(),
            stopping: stopping.clone(),
        };
        api::router(Arc::clone(local), surface)
    }
}

//! The node behind the adapter: where its socket is and which credential opens it.
//!
//! Nothing is connected before a call needs it, and the operator's token file is read for each call: so the adapter
//! starts and lists its tools while the node is down, and finds it when it comes up.

use std::io;
use std::path::PathBuf;

use mesh_protocol::api::error::{ApiError, ErrorKind};

use crate::api::tokens::{Token, TokenError};
use crate::client::{Client, Endpoint};

/// With what the adapter speaks to the node.
#[derive(Debug, Clone)]
pub enum Credential {
    /// This token: the one an agent was given for its run.
    Token(Token),
    /// The operator's token, in this file.
    File(PathBuf),
}

/// The node of this machine, as the adapter's environment names it. A tool's arguments cannot change it.
#[derive(Debug, Clone)]
pub struct Daemon {
    /// Its home; looked at only to say why nobody answers.
    pub home: PathBuf,
    /// Its lock file; looked at likewise.
    pub lock: PathBuf,
    /// Its socket.
    pub socket: PathBuf,
    /// What opens it.
    pub credential: Credential,
}

impl Daemon {
    /// A client for one call.
    pub(crate) fn client(&self) -> Result<Client, ApiError> {
        let token = self.token().map_err(|error| {
            let hints = error.hints();
            let refusal = ApiError::new(ErrorKind::Refused, "credential_unusable", error.to_string());
            hints.into_iter().fold(refusal, ApiError::hint)
        })?;
        let (home, lock, socket) = (self.home.clone(), self.lock.clone(), self.socket.clone());
        Ok(Client::new(Endpoint { home, lock, socket, token }))
    }

    /// No file means no node ever started here; connecting will find that out and say it better.
    fn token(&self) -> Result<Option<Token>, TokenError> {
        match &self.credential {
            Credential::Token(token) => Ok(Some(token.clone())),
            Credential::File(path) => match Token::read(path) {
                Err(TokenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
                read => read.map(Some),
            },
        }
    }
}

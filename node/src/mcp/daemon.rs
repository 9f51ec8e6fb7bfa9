//! The node behind the adapter: which home it lives in and which credential opens it.
//!
//! Nothing is looked at or connected to before a call needs it. So the adapter starts and lists its tools while the
//! node is down or not even made, and finds it when it comes up.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use mesh_protocol::api::error::{ApiError, ErrorKind};

use crate::api::tokens::{Token, TokenError};
use crate::client::{Client, Endpoint};
use crate::home::{Home, HomeError};

/// The node of this machine, as the adapter's environment names it. A tool's arguments cannot change it.
#[derive(Debug, Clone)]
pub struct Daemon {
    /// Its home, which need not exist yet.
    pub home: PathBuf,
    /// `XDG_RUNTIME_DIR`, where the socket of a home with a long path is.
    pub runtime_directory: Option<OsString>,
    /// The token an agent was given for its run; without one, the operator's is read from the home.
    pub token: Option<Token>,
}

impl Daemon {
    /// A client for one call.
    pub(crate) fn client(&self) -> Result<Client, ApiError> {
        // A home that is not there is not made by looking for it.
        if !self.home.exists() {
            return Ok(self.client_at(self.home.join("run/mesh.sock"), None));
        }
        let home = Home::open(&self.home).map_err(|error| home_unusable(&error))?;
        let runtime = |_: &str| self.runtime_directory.clone();
        let socket = home.socket(runtime).map_err(|error| home_unusable(&error))?;
        let token = self.credential(&home).map_err(|error| credential_unusable(&error))?;
        Ok(self.client_at(socket, token))
    }

    fn client_at(&self, socket: PathBuf, token: Option<Token>) -> Client {
        let (home, lock) = (self.home.clone(), self.home.join("mesh.lock"));
        Client::new(Endpoint { home, lock, socket, token })
    }

    /// No file means no node ever started here; connecting will find that out and say it better.
    fn credential(&self, home: &Home) -> Result<Option<Token>, TokenError> {
        if self.token.is_some() {
            return Ok(self.token.clone());
        }
        match Token::read(&home.tokens().join("operator")) {
            Err(TokenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }
}

fn home_unusable(error: &HomeError) -> ApiError {
    ApiError::new(ErrorKind::Refused, "home_unusable", error.to_string()).hint(error.hint())
}

fn credential_unusable(error: &TokenError) -> ApiError {
    let refusal = ApiError::new(ErrorKind::Refused, "credential_unusable", error.to_string());
    error.hints().into_iter().fold(refusal, ApiError::hint)
}

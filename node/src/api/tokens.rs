//! The credentials of one machine: the operator's token in a file, and a token for each run of an agent.
//!
//! A token is 32 random bytes in base32, sent as a bearer token (RFC 6750). In memory there are only SHA-256 digests
//! of tokens, and they are compared in constant time or looked up by digest, so neither a dump nor a clock gives one
//! away. Programs of the same user can read each other's files: this keeps other users out, and keeps an agent to its
//! own rights as long as it does not go looking.
//!
//! Invariants: a session's token is gone when its [`Session`] is dropped; no token is in a `Debug` text.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use data_encoding::BASE32_NOPAD;
use mesh_protocol::address::Name;
use mesh_protocol::id::FlightId;
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

use super::limits::{SESSIONS_MAX, TOKEN_FILE_BYTES_MAX};
use crate::service::Principal;

/// Characters of a token: 32 bytes in base32 without padding.
const TOKEN_CHARS: usize = 52;

/// Why there is no token.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The file could not be read or written.
    #[error("cannot use the token file {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Someone else can read it, so it may not be a secret any more.
    #[error("the token file {} can be read by others (mode {mode:03o})", path.display())]
    Exposed {
        /// Which.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It belongs to another user, or is not a plain file.
    #[error("the token file {} is not a plain file of this user", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
    },
    /// It does not hold a token.
    #[error("the token file {} does not hold a token", path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
    },
    /// The text given is not a token.
    #[error("the text is not a token")]
    NotAToken,
    /// The system gave no random bytes.
    #[error("the system gives no random bytes")]
    Random(#[source] rand::rngs::SysError),
    /// [`SESSIONS_MAX`] runs have one.
    #[error("{SESSIONS_MAX} session tokens are in use")]
    Full,
}

impl TokenError {
    /// What to do about it, most likely first.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Exposed { path, .. } => vec![
                format!("`rm {0}` and restart the node: it makes a new token", path.display()),
                format!("`chmod 600 {0}` if nobody else can have read it", path.display()),
            ],
            Self::Malformed { path } | Self::Foreign { path } => {
                vec![format!("`rm {}` and restart the node: it makes a new token", path.display())]
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                vec!["run this as the user the node runs as".to_owned()]
            }
            Self::File { .. } => vec!["`mesh-cli up` makes it when the node starts".to_owned()],
            Self::NotAToken => vec!["`MESH_TOKEN` must hold the token and nothing else".to_owned()],
            Self::Random(_) | Self::Full => Vec::new(),
        }
    }
}

/// A bearer token. Wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Zeroizing<String>);

impl Token {
    /// A new one.
    pub(crate) fn random() -> Result<Self, TokenError> {
        let mut bytes = Zeroizing::new([0; 32]);
        SysRng.try_fill_bytes(bytes.as_mut()).map_err(TokenError::Random)?;
        let mut upper = BASE32_NOPAD.encode(bytes.as_ref());
        let token = Self(Zeroizing::new(upper.to_ascii_lowercase()));
        upper.zeroize();
        Ok(token)
    }

    /// The token in a text, such as the value of `MESH_TOKEN`.
    ///
    /// # Errors
    /// [`TokenError::NotAToken`], without the text.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let base32 = text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7'));
        if text.len() != TOKEN_CHARS || !base32 {
            return Err(TokenError::NotAToken);
        }
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

    /// The operator's token, from its file.
    ///
    /// # Errors
    /// When the file is not there, is not only this user's, or holds something else.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::File { path: path.to_owned(), source };
        let no_follow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(no_follow.bits()).unwrap_or(0);
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() || metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(TokenError::Foreign { path: path.to_owned() });
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TokenError::Exposed { path: path.to_owned(), mode });
        }
        let mut text = Zeroizing::new(String::new());
        file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        Self::parse(&text).map_err(|_| TokenError::Malformed { path: path.to_owned() })
    }

    /// The operator's token, from its file; made, with its folder, when there is none yet.
    ///
    /// # Errors
    /// As [`Token::read`], and when the file cannot be written.
    pub fn read_or_create(path: &Path) -> Result<Self, TokenError> {
        match Self::read(path) {
            Err(TokenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            known => return known,
        }
        let token = Self::random()?;
        token.write(path).map_err(|source| TokenError::File { path: path.to_owned(), source })?;
        Ok(token)
    }

    /// Writes the token under a temporary name and renames it, so that a crash leaves a whole file or none.
    fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let temporary = path.with_extension("new");
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(self.0.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(folder)?.sync_all()
    }

    /// The token itself, to be sent or handed to the agent's environment, and nowhere else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What is kept of a token.
pub(super) type Fingerprint = [u8; 32];

pub(super) fn fingerprint(token: &str) -> Fingerprint {
    Sha256::digest(token.as_bytes()).into()
}

/// Every credential this node knows.
pub struct Tokens {
    operator: Fingerprint,
    sessions: Mutex<HashMap<Fingerprint, Principal>>,
}

impl Tokens {
    /// The operator's token and no session.
    #[must_use]
    pub fn new(operator: &Token) -> Arc<Self> {
        let operator = fingerprint(operator.expose());
        Arc::new(Self { operator, sessions: Mutex::new(HashMap::new()) })
    }

    /// A token for one run of an agent, good until the [`Session`] is dropped.
    ///
    /// # Errors
    /// [`TokenError::Full`] when [`SESSIONS_MAX`] runs have one.
    pub fn mint(self: &Arc<Self>, agent: Name, flight: Option<FlightId>) -> Result<Session, TokenError> {
        let token = Token::random()?;
        let mut sessions = self.sessions();
        if sessions.len() >= SESSIONS_MAX {
            return Err(TokenError::Full);
        }
        sessions.insert(fingerprint(token.expose()), Principal::Agent { name: agent, flight });
        drop(sessions);
        Ok(Session { token, tokens: Arc::clone(self) })
    }

    /// Whose token this is.
    #[must_use]
    pub fn principal(&self, token: &str) -> Option<Principal> {
        let given = fingerprint(token);
        if bool::from(given.ct_eq(&self.operator)) {
            return Some(Principal::Operator);
        }
        self.sessions().get(&given).cloned()
    }

    /// The table is whole between any two statements, so a panic elsewhere has not broken it.
    fn sessions(&self) -> MutexGuard<'_, HashMap<Fingerprint, Principal>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("sessions", &self.sessions().len()).finish_non_exhaustive()
    }
}

/// The token of one run. Dropping it revokes the token.
#[derive(Debug)]
pub struct Session {
    token: Token,
    tokens: Arc<Tokens>,
}

impl Session {
    /// The token, for the agent's environment.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.tokens.sessions().remove(&fingerprint(self.token.expose()));
    }
}

//! The operator's side of a credentials file: makes keys and ends them, for a node that may be running.
//!
//! A key is returned once, when it is made; what is written is its digest. The file is replaced whole, so that a node
//! reads either version and no half of one. Two of these take turns by holding the folder the file is in.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use zeroize::Zeroizing;

use super::credential::{self, Credential, Pepper, is_key_id, is_name, is_tenant};
use super::private::{self, KeysError};
use crate::api::tokens::{Token, TokenError};
use crate::api::v1::limits::{CREDENTIALS_BYTES_MAX, CREDENTIALS_MAX};
use crate::api::v1::scope::Scope;

/// What every key made here begins with, so that a scanner for leaked secrets finds it.
const PREFIX: &str = "mesh";

/// Characters of a key id that is made up here.
const KEY_ID_CHARS: usize = 10;

/// Why the keys are as they were.
#[derive(Debug, Error)]
pub enum BookError {
    /// A file cannot be used.
    #[error(transparent)]
    Files(#[from] KeysError),
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There are keys, and nothing to check them with.
    #[error("{} is not there, and the keys in {} are good with it only", pepper.display(), credentials.display())]
    NoPepper {
        /// The file that is not there.
        pepper: PathBuf,
        /// The file that is.
        credentials: PathBuf,
    },
    /// A name that is none.
    #[error("`{text:.80}` is no {what}")]
    Name {
        /// What it was to name.
        what: &'static str,
        /// What was given.
        text: String,
    },
    /// Another key has the name.
    #[error("there is a key `{key_id}` already")]
    Taken {
        /// The name.
        key_id: String,
    },
    /// No key has the name.
    #[error("there is no key `{key_id:.80}`")]
    Unknown {
        /// What was asked for.
        key_id: String,
    },
    /// There is no room for another.
    #[error("the file has {CREDENTIALS_MAX} keys, or {CREDENTIALS_BYTES_MAX} bytes, as many as it may")]
    Full,
    /// The system gave no random bytes.
    #[error("the system gives no random bytes")]
    Random(#[source] rand::rngs::SysError),
    /// No secret could be made.
    #[error("cannot make a secret")]
    Secret(#[source] TokenError),
    /// The keys cannot be written as JSON.
    #[error("the keys cannot be written as JSON")]
    Encode(#[source] serde_json::Error),
}

impl BookError {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Files(error) => error.hint(),
            Self::Write { .. } => "run this as the user the node runs as".to_owned(),
            Self::NoPepper { credentials, .. } => {
                format!("put it back, or move {} away and make every key anew", credentials.display())
            }
            Self::Name { .. } => {
                "letters, digits, `-`, and in names of tenants `_` and `.`, 64 at most".to_owned()
            }
            Self::Taken { .. } => "choose another with `--id`; one that was revoked keeps its own".to_owned(),
            Self::Unknown { .. } => "`mesh-cli keys list` lists them".to_owned(),
            Self::Full => "take keys that were revoked out of the file".to_owned(),
            Self::Random(_) | Self::Secret(_) | Self::Encode(_) => return None,
        })
    }
}

/// A key that is to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Whose jobs it is about.
    pub tenant: String,
    /// Who will have it; its own id when not set.
    pub principal: Option<String>,
    /// Its id; made up when not set.
    pub id: Option<String>,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// When it ends, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
}

/// A key that was made. Wiped when dropped.
pub struct Key {
    /// What is kept of it.
    pub credential: Credential,
    text: Zeroizing<String>,
}

impl Key {
    /// The key itself, to be shown once.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, ..)", self.credential.key_id)
    }
}

/// A credentials file, held: nobody else changes it meanwhile.
pub struct KeyBook {
    path: PathBuf,
    pepper_path: PathBuf,
    /// Nothing before the first key.
    pepper: Option<Pepper>,
    credentials: Vec<Credential>,
    _held: File,
}

impl fmt::Debug for KeyBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBook({})", self.path.display())
    }
}

impl KeyBook {
    /// Opens the files, which need not be there. Waits for whoever else holds them; blocks.
    ///
    /// # Errors
    /// [`BookError`].
    pub fn open(credentials: &Path, pepper: &Path) -> Result<Self, BookError> {
        let unwritable = |source| BookError::Write { path: credentials.to_owned(), source };
        let held = private::hold_folder(credentials).map_err(unwritable)?;
        let known = match private::read(credentials, CREDENTIALS_BYTES_MAX) {
            Ok(text) => {
                credential::parse(&text).map_err(|reason| KeysError::malformed(credentials, reason))?
            }
            Err(error) if error.is_absence() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let secret = match Pepper::read(pepper) {
            Ok(secret) => Some(secret),
            Err(error) if error.is_absence() && known.is_empty() => None,
            Err(error) if error.is_absence() => {
                let (pepper, credentials) = (pepper.to_owned(), credentials.to_owned());
                return Err(BookError::NoPepper { pepper, credentials });
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            path: credentials.to_owned(),
            pepper_path: pepper.to_owned(),
            pepper: secret,
            credentials: known,
            _held: held,
        })
    }

    /// The keys, in the order they were made.
    #[must_use]
    pub fn credentials(&self) -> &[Credential] {
        &self.credentials
    }

    /// Makes a key.
    ///
    /// # Errors
    /// [`BookError`]; there is no new key then.
    pub fn add(&mut self, wanted: NewKey, now_ms: u64) -> Result<Key, BookError> {
        let NewKey { tenant, principal, id, scopes, expires_at_ms } = wanted;
        let secret = Token::random().map_err(BookError::Secret)?;
        let id = id.map_or_else(made_up, Ok)?;
        check("tenant", &tenant, is_tenant)?;
        check("key id", &id, is_key_id)?;
        let principal = principal.unwrap_or_else(|| id.clone());
        check("principal", &principal, is_name)?;
        if self.credentials.iter().any(|known| known.key_id == id) {
            return Err(BookError::Taken { key_id: id });
        }
        let text = Zeroizing::new(format!("{PREFIX}_{id}_{}", secret.expose()));
        let tag = self.pepper()?.tag(&text);
        let mut credential = Credential::new((id, tenant, principal), &tag, now_ms);
        credential.scopes = scopes;
        credential.expires_at_ms = expires_at_ms;
        self.write(self.credentials.iter().cloned().chain([credential.clone()]).collect())?;
        Ok(Key { credential, text })
    }

    /// Ends a key, from now on. One that was revoked before stays so from then on.
    ///
    /// # Errors
    /// [`BookError`]; the key is as it was then.
    pub fn revoke(&mut self, key_id: &str, now_ms: u64) -> Result<Credential, BookError> {
        let mut credentials = self.credentials.clone();
        let known = credentials.iter_mut().find(|known| known.key_id == key_id);
        let known = known.ok_or_else(|| BookError::Unknown { key_id: key_id.to_owned() })?;
        known.revoked_at_ms = Some(known.revoked_at_ms.unwrap_or(now_ms));
        let revoked = known.clone();
        self.write(credentials)?;
        Ok(revoked)
    }

    /// The pepper; a new one is written before any key that needs it.
    fn pepper(&mut self) -> Result<&Pepper, BookError> {
        let pepper = match self.pepper.take() {
            Some(pepper) => pepper,
            None => {
                let made = Pepper::random().map_err(BookError::Random)?;
                let written = private::write(&self.pepper_path, made.written().as_bytes());
                written.map_err(|source| BookError::Write { path: self.pepper_path.clone(), source })?;
                made
            }
        };
        Ok(self.pepper.insert(pepper))
    }

    fn write(&mut self, credentials: Vec<Credential>) -> Result<(), BookError> {
        let bytes = credential::written(&credentials).map_err(BookError::Encode)?;
        let too_long = u64::try_from(bytes.len()).is_ok_and(|length| length > CREDENTIALS_BYTES_MAX);
        if credentials.len() > CREDENTIALS_MAX || too_long {
            return Err(BookError::Full);
        }
        private::write(&self.path, &bytes)
            .map_err(|source| BookError::Write { path: self.path.clone(), source })?;
        self.credentials = credentials;
        Ok(())
    }
}

/// An id for a key that was given none.
fn made_up() -> Result<String, BookError> {
    let random = Token::random().map_err(BookError::Secret)?;
    Ok(random.expose().chars().take(KEY_ID_CHARS).collect())
}

fn check(what: &'static str, text: &str, is_one: fn(&str) -> bool) -> Result<(), BookError> {
    if is_one(text) { Ok(()) } else { Err(BookError::Name { what, text: text.to_owned() }) }
}

//! Tenants' keys, in a file that holds only digests of them.
//!
//! ```json
//! {"version": 1, "credentials": [{"key_id": "ci", "tenant_id": "acme", "principal_id": "ci", "scopes": ["jobs:submit"],
//!   "digest_hmac_sha256": "<hex>", "created_at_ms": 0, "expires_at_ms": null, "revoked_at_ms": null}]}
//! ```
//! A key is `<prefix>_<key_id>_<secret>`, the secret of at least [`SECRET_CHARS_MIN`] characters; its digest is the
//! HMAC-SHA256 of the whole key under a pepper of 32 bytes, which is in a file of its own: one file without the other
//! is of no use for guessing. A key id that is not there is compared with a digest that nothing has, so that the time
//! an answer takes does not tell which ids exist.
//!
//! Both files must be this user's (or root's) alone, plain, and under directories nobody else can change.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use data_encoding::HEXLOWER_PERMISSIVE;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

use super::{Authority, Known, Tenancy};
use crate::api::v1::limits::{
    CREDENTIALS_BYTES_MAX, CREDENTIALS_MAX, NAME_CHARS_MAX, PEPPER_FILE_BYTES_MAX, SECRET_CHARS_MIN,
};
use crate::api::v1::scope::Scope;
use crate::service::Principal;

/// Why there are no keys. A node does not start with half of them.
#[derive(Debug, Error)]
pub enum KeysError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is not a plain file of this user or of root, or lies in a directory of another.
    #[error("{} is not a plain file or a directory of this user", path.display())]
    Foreign {
        /// The file or directory.
        path: PathBuf,
    },
    /// Others can read the file, or change the directory.
    #[error("{} is open to others (mode {mode:03o})", path.display())]
    Exposed {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is larger than it can be.
    #[error("{} has more than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// What is allowed.
        limit: u64,
    },
    /// Not what it should be.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, without any of the secret.
        reason: String,
    },
}

impl KeysError {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Exposed { path, .. } => format!("close {} to others with `chmod`", path.display()),
            Self::Foreign { path } => format!("give {} to the user the node runs as", path.display()),
            Self::Read { .. } => "name a file in `[http]` that is there".to_owned(),
            Self::TooLong { .. } | Self::Malformed { .. } => "`docs/http-api.md` has the format".to_owned(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u64,
    credentials: Vec<Credential>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credential {
    key_id: String,
    tenant_id: String,
    principal_id: String,
    digest_hmac_sha256: String,
    scopes: Vec<Scope>,
    #[serde(rename = "created_at_ms")]
    _created_at_ms: u64,
    #[serde(default)]
    expires_at_ms: Option<u64>,
    #[serde(default)]
    revoked_at_ms: Option<u64>,
}

type Tag = [u8; 32];

/// The keys of a credentials file, as it is now: it is read again when it or the pepper's has changed.
pub struct KeyFile {
    credentials: PathBuf,
    pepper: PathBuf,
    loaded: RwLock<Loaded>,
}

/// What the files held, and when.
struct Loaded {
    stamp: [Stamp; 2],
    pepper: Zeroizing<Tag>,
    keys: HashMap<String, (Tag, Credential)>,
}

/// What tells one version of a file from another: inode, length, and when it was last written.
type Stamp = Option<(u64, u64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFile({})", self.credentials.display())
    }
}

impl KeyFile {
    /// Reads both files.
    ///
    /// # Errors
    /// [`KeysError`], which names the file.
    pub fn read(credentials: &Path, pepper: &Path) -> Result<Self, KeysError> {
        let loaded = RwLock::new(Loaded::read(credentials, pepper)?);
        Ok(Self { credentials: credentials.to_owned(), pepper: pepper.to_owned(), loaded })
    }

    /// The keys as they are now. A version that cannot be used leaves those of the last one that could, and is said in
    /// the log: half of a file that is being written must not shut everybody out.
    fn current(&self) -> RwLockReadGuard<'_, Loaded> {
        let stamps = [stamp(&self.credentials), stamp(&self.pepper)];
        let known = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        if known.stamp == stamps {
            return known;
        }
        drop(known);
        let read = Loaded::read(&self.credentials, &self.pepper);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(new) => *loaded = new,
            Err(error) => {
                tracing::error!(%error, "the changed keys cannot be used; those from before are");
                loaded.stamp = stamps;
            }
        }
        drop(loaded);
        self.loaded.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loaded {
    fn read(credentials: &Path, pepper: &Path) -> Result<Self, KeysError> {
        // Taken first: what is written while we read is another version.
        let stamp = [stamp(credentials), stamp(pepper)];
        let text = read_private(pepper, PEPPER_FILE_BYTES_MAX)?;
        let wrong = || malformed(pepper, "it does not hold 32 bytes in hexadecimal");
        let bytes = Zeroizing::new(HEXLOWER_PERMISSIVE.decode(text.trim_ascii()).map_err(|_| wrong())?);
        let secret = Zeroizing::new(Tag::try_from(bytes.as_slice()).map_err(|_| wrong())?);
        let text = read_private(credentials, CREDENTIALS_BYTES_MAX)?;
        let keys = parse(&text).map_err(|reason| malformed(credentials, reason))?;
        Ok(Self { stamp, pepper: secret, keys })
    }

    /// Whether the key's tag is this one. The comparison takes the same time wherever they differ.
    fn matches(&self, token: &str, tag: &Tag) -> bool {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.pepper.as_slice()) else { return false };
        mac.update(token.as_bytes());
        let computed: Tag = mac.finalize().into_bytes().into();
        computed.ct_eq(tag).into()
    }
}

/// The public part of a key.
fn key_id(token: &str) -> Option<&str> {
    let (front, secret) = token.rsplit_once('_')?;
    let (prefix, id) = front.rsplit_once('_')?;
    let plain = prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (plain && !prefix.is_empty() && is_key_id(id) && secret.len() >= SECRET_CHARS_MIN).then_some(id)
}

impl Authority for KeyFile {
    fn look_up(&self, token: &str, now_ms: u64) -> Known {
        const NOBODY: Tag = [0; 32];
        let Some(id) = key_id(token) else { return Known::NotOurs };
        let loaded = self.current();
        let found = loaded.keys.get(id);
        let good = loaded.matches(token, found.map_or(&NOBODY, |(tag, _)| tag));
        let Some((_, key)) = found.filter(|_| good) else { return Known::Refused };
        let over = |end: Option<u64>| end.is_some_and(|end| end <= now_ms);
        if over(key.expires_at_ms) || over(key.revoked_at_ms) {
            return Known::Refused;
        }
        let (tenant, principal) = (key.tenant_id.clone(), key.principal_id.clone());
        Known::Tenancy(Tenancy {
            who: Principal::Tenant { tenant: tenant.clone(), principal: principal.clone() },
            tenant,
            principal_id: principal,
            credential_id: key.key_id.clone(),
            method: "api_key",
            scopes: key.scopes.clone(),
            expires_at_ms: key.expires_at_ms,
            rated: true,
        })
    }
}

fn parse(text: &[u8]) -> Result<HashMap<String, (Tag, Credential)>, String> {
    let document: Document = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if document.version != 1 {
        return Err(format!("version {}, where 1 is known", document.version));
    }
    if document.credentials.len() > CREDENTIALS_MAX {
        return Err(format!("more than {CREDENTIALS_MAX} credentials"));
    }
    let mut keys = HashMap::new();
    for (at, credential) in document.credentials.into_iter().enumerate() {
        let wrong = |member: &str| format!("credential {at}: `{member}` cannot be used");
        if !is_key_id(&credential.key_id) {
            return Err(wrong("key_id"));
        }
        if !is_name(&credential.tenant_id) || credential.tenant_id == "operator" {
            return Err(wrong("tenant_id"));
        }
        if !is_name(&credential.principal_id) {
            return Err(wrong("principal_id"));
        }
        let tag = HEXLOWER_PERMISSIVE.decode(credential.digest_hmac_sha256.as_bytes()).ok();
        let tag =
            tag.and_then(|bytes| Tag::try_from(bytes).ok()).ok_or_else(|| wrong("digest_hmac_sha256"))?;
        if keys.insert(credential.key_id.clone(), (tag, credential)).is_some() {
            return Err(format!("credential {at}: its `key_id` is there twice"));
        }
    }
    Ok(keys)
}

fn is_key_id(text: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A name of a tenant or a principal: never one of an agent, which begins with `@`.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(plain)
}

fn malformed(path: &Path, reason: impl Into<String>) -> KeysError {
    KeysError::Malformed { path: path.to_owned(), reason: reason.into() }
}

/// The bytes of a file that is nobody else's.
pub(in crate::api::v1) fn read_private(path: &Path, limit: u64) -> Result<Zeroizing<Vec<u8>>, KeysError> {
    let failed = |source| KeysError::Read { path: path.to_owned(), source };
    for directory in path.ancestors().skip(1).filter(|directory| !directory.as_os_str().is_empty()) {
        check_directory(directory)?;
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() || !is_trusted(metadata.uid()) {
        return Err(KeysError::Foreign { path: path.to_owned() });
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeysError::Exposed { path: path.to_owned(), mode });
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > limit) {
        return Err(KeysError::TooLong { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// A directory that others can change could hold another file tomorrow; one with the sticky bit could not.
fn check_directory(path: &Path) -> Result<(), KeysError> {
    let metadata =
        fs::symlink_metadata(path).map_err(|source| KeysError::Read { path: path.to_owned(), source })?;
    if !metadata.is_dir() || !is_trusted(metadata.uid()) {
        return Err(KeysError::Foreign { path: path.to_owned() });
    }
    let mode = metadata.mode() & 0o1777;
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        return Err(KeysError::Exposed { path: path.to_owned(), mode: mode & 0o777 });
    }
    Ok(())
}

fn is_trusted(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

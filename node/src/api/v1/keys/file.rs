//! Tenants' keys as a node knows them: those of a credentials file, as it is now.
//!
//! The file is read again when it or the pepper's has changed. A key id that is not there is compared with a digest that
//! nothing has, so that the time an answer takes does not tell which ids exist.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use subtle::ConstantTimeEq;

use super::credential::{self, Credential, Pepper, Tag};
use super::private::{self, KeysError};
use super::{Authority, Known, Tenancy};
use crate::api::v1::limits::CREDENTIALS_BYTES_MAX;
use crate::service::Principal;

/// The keys of a credentials file.
pub struct KeyFile {
    credentials: PathBuf,
    pepper: PathBuf,
    /// Whether a file that is not there holds no keys, and is no error.
    optional: bool,
    loaded: RwLock<Loaded>,
}

/// What the files held, and when.
struct Loaded {
    stamp: [Stamp; 2],
    /// Nothing where there are no keys.
    pepper: Option<Pepper>,
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
        Self::open(credentials, pepper, false)
    }

    /// The same, where there may be no credentials file: nobody has a key until there is one.
    ///
    /// # Errors
    /// [`KeysError`], which names the file.
    pub fn read_if_there(credentials: &Path, pepper: &Path) -> Result<Self, KeysError> {
        Self::open(credentials, pepper, true)
    }

    fn open(credentials: &Path, pepper: &Path, optional: bool) -> Result<Self, KeysError> {
        let loaded = RwLock::new(Loaded::read(credentials, pepper, optional)?);
        Ok(Self { credentials: credentials.to_owned(), pepper: pepper.to_owned(), optional, loaded })
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
        let read = Loaded::read(&self.credentials, &self.pepper, self.optional);
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
    fn read(credentials: &Path, pepper: &Path, optional: bool) -> Result<Self, KeysError> {
        // Taken first: what is written while we read is another version.
        let stamp = [stamp(credentials), stamp(pepper)];
        let text = match private::read(credentials, CREDENTIALS_BYTES_MAX) {
            Err(error) if optional && error.is_absence() => {
                return Ok(Self { stamp, pepper: None, keys: HashMap::new() });
            }
            read => read?,
        };
        let secret = Pepper::read(pepper)?;
        let known = credential::parse(&text).map_err(|reason| KeysError::malformed(credentials, reason))?;
        let keyed = |key: Credential| Some((key.key_id.clone(), (key.tag()?, key)));
        Ok(Self { stamp, pepper: Some(secret), keys: known.into_iter().filter_map(keyed).collect() })
    }

    /// Whether the key's tag is this one. The comparison takes the same time wherever they differ.
    fn matches(&self, token: &str, tag: &Tag) -> bool {
        self.pepper.as_ref().is_some_and(|pepper| pepper.tag(token).ct_eq(tag).into())
    }
}

impl Authority for KeyFile {
    fn look_up(&self, token: &str, now_ms: u64) -> Known {
        const NOBODY: Tag = [0; 32];
        let Some(id) = credential::key_id(token) else { return Known::NotOurs };
        let loaded = self.current();
        let found = loaded.keys.get(id);
        let good = loaded.matches(token, found.map_or(&NOBODY, |(tag, _)| tag));
        let Some((_, key)) = found.filter(|(_, key)| good && key.is_good(now_ms)) else {
            return Known::Refused;
        };
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

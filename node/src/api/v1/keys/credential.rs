//! A tenant's key as it is kept: whom it is for, what it may do, and a digest of it.
//!
//! ```json
//! {"version": 1, "credentials": [{"key_id": "ci", "tenant_id": "acme", "principal_id": "ci", "scopes": ["jobs:submit"],
//!   "digest_hmac_sha256": "<hex>", "created_at_ms": 0, "expires_at_ms": null, "revoked_at_ms": null}]}
//! ```
//! A key is `<prefix>_<key_id>_<secret>`, the secret of at least [`SECRET_CHARS_MIN`] characters; its digest is the
//! HMAC-SHA256 of the whole key under a pepper of 32 bytes, which is in a file of its own: one file without the other
//! is of no use for guessing.

use std::collections::BTreeSet;
use std::path::Path;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, KeyInit, Mac};
use rand::TryRng;
use rand::rngs::{SysError, SysRng};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::private::{self, KeysError};
use crate::api::v1::limits::{CREDENTIALS_MAX, NAME_CHARS_MAX, PEPPER_FILE_BYTES_MAX, SECRET_CHARS_MIN};
use crate::api::v1::scope::Scope;

/// The version of the file that is known.
const VERSION: u64 = 1;

/// The digest of a key.
pub(super) type Tag = [u8; 32];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    version: u64,
    credentials: Vec<Credential>,
}

#[derive(Serialize)]
struct Written<'a> {
    version: u64,
    credentials: &'a [Credential],
}

/// One key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// Its public name: letters, digits and hyphens.
    pub key_id: String,
    /// Whose jobs it is about.
    pub tenant_id: String,
    /// Who has it.
    pub principal_id: String,
    digest_hmac_sha256: String,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// When it ends.
    #[serde(default)]
    pub expires_at_ms: Option<u64>,
    /// When it was ended.
    #[serde(default)]
    pub revoked_at_ms: Option<u64>,
}

impl Credential {
    /// A key that is made now, good for nothing yet.
    pub(super) fn new(
        (key_id, tenant_id, principal_id): (String, String, String),
        tag: &Tag,
        at_ms: u64,
    ) -> Self {
        Self {
            key_id,
            tenant_id,
            principal_id,
            digest_hmac_sha256: HEXLOWER.encode(tag),
            scopes: Vec::new(),
            created_at_ms: at_ms,
            expires_at_ms: None,
            revoked_at_ms: None,
        }
    }

    /// Whether it was neither revoked nor has expired.
    #[must_use]
    pub fn is_good(&self, now_ms: u64) -> bool {
        let over = |end: Option<u64>| end.is_some_and(|end| end <= now_ms);
        !over(self.expires_at_ms) && !over(self.revoked_at_ms)
    }

    /// The digest of the whole key.
    pub(super) fn tag(&self) -> Option<Tag> {
        let bytes = HEXLOWER_PERMISSIVE.decode(self.digest_hmac_sha256.as_bytes()).ok()?;
        Tag::try_from(bytes).ok()
    }

    /// Which of its members cannot be used.
    fn fault(&self) -> Option<&'static str> {
        let members = [
            ("key_id", is_key_id(&self.key_id)),
            ("tenant_id", is_tenant(&self.tenant_id)),
            ("principal_id", is_name(&self.principal_id)),
            ("digest_hmac_sha256", self.tag().is_some()),
        ];
        members.into_iter().find(|(_, usable)| !usable).map(|(member, _)| member)
    }
}

/// The keys in a file.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Credential>, String> {
    let document: Read = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if document.version != VERSION {
        return Err(format!("version {}, where {VERSION} is known", document.version));
    }
    if document.credentials.len() > CREDENTIALS_MAX {
        return Err(format!("more than {CREDENTIALS_MAX} credentials"));
    }
    let mut ids = BTreeSet::new();
    for (at, credential) in document.credentials.iter().enumerate() {
        if let Some(member) = credential.fault() {
            return Err(format!("credential {at}: `{member}` cannot be used"));
        }
        if !ids.insert(&credential.key_id) {
            return Err(format!("credential {at}: its `key_id` is there twice"));
        }
    }
    Ok(document.credentials)
}

/// The file that holds these keys.
pub(super) fn written(credentials: &[Credential]) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(&Written { version: VERSION, credentials })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The public part of a key.
pub(super) fn key_id(token: &str) -> Option<&str> {
    let (front, secret) = token.rsplit_once('_')?;
    let (prefix, id) = front.rsplit_once('_')?;
    let plain = prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (plain && !prefix.is_empty() && is_key_id(id) && secret.len() >= SECRET_CHARS_MIN).then_some(id)
}

pub(super) fn is_key_id(text: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A name of a tenant or a principal: never one of an agent, which begins with `@`.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(plain)
}

/// A name of a tenant: never the operator's.
pub(super) fn is_tenant(text: &str) -> bool {
    is_name(text) && text != "operator"
}

/// What digests are made under. Wiped when dropped.
pub(super) struct Pepper(Zeroizing<Tag>);

impl Pepper {
    /// A new one.
    pub(super) fn random() -> Result<Self, SysError> {
        let mut bytes = Zeroizing::new(Tag::default());
        SysRng.try_fill_bytes(bytes.as_mut())?;
        Ok(Self(bytes))
    }

    /// The one in a file.
    pub(super) fn read(path: &Path) -> Result<Self, KeysError> {
        let text = private::read(path, PEPPER_FILE_BYTES_MAX)?;
        let wrong = || KeysError::malformed(path, "it does not hold 32 bytes in hexadecimal");
        let bytes = Zeroizing::new(HEXLOWER_PERMISSIVE.decode(text.trim_ascii()).map_err(|_| wrong())?);
        Ok(Self(Zeroizing::new(Tag::try_from(bytes.as_slice()).map_err(|_| wrong())?)))
    }

    /// What its file holds.
    pub(super) fn written(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{}\n", HEXLOWER.encode(self.0.as_slice())))
    }

    /// The digest of a key.
    pub(super) fn tag(&self, token: &str) -> Tag {
        // A key of one block is used as it is; a shorter one is one with zeros behind it (RFC 2104, section 2).
        let mut block = Zeroizing::new([0; 64]);
        block.iter_mut().zip(self.0.iter()).for_each(|(into, byte)| *into = *byte);
        let mut mac = Hmac::<Sha256>::new(&(*block).into());
        mac.update(token.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_a_short_secret_is_none() {
        let key = |secret: usize| format!("mesh_ci-1_{}", "s".repeat(secret));
        assert_eq!(key_id(&key(SECRET_CHARS_MIN)), Some("ci-1"));
        assert_eq!(key_id(&key(SECRET_CHARS_MIN - 1)), None);
        for other in
            ["mesh_ci-1", "_ci-1_ssssssssssssssssssssssssssssssss", "mesh__ssssssssssssssssssssssssssssssss"]
        {
            assert_eq!(key_id(other), None, "{other}");
        }
    }

    #[test]
    fn a_digest_is_the_hmac_of_the_whole_key() {
        // As `hmac.new(bytes([3] * 32), b"mesh_ci_x", hashlib.sha256)` in Python has it.
        let pepper = Pepper(Zeroizing::new([3; 32]));
        let expected = "fb5c871e7784eb0db2ca1459d16ff2cb8d626fbe77b82198edd0e265e461f45d";
        assert_eq!(HEXLOWER.encode(&pepper.tag("mesh_ci_x")), expected);
    }
}

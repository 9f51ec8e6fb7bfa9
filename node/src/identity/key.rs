//! The node's own key: Ed25519, in a file of its own that only its owner can read.
//!
//! The file is PKCS #8 in PEM (RFC 5958, RFC 8410), so that other tools can read it. It is created once and never
//! written over: a node that lost its key is another node. A key file that others may read, that is a link, or that
//! belongs to another user is refused rather than used.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use ed25519_dalek::{Signer, SigningKey};
use hmac::{Hmac, KeyInit, Mac};
use mesh_protocol::id::NodeId;
use rand::TryRng;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::Sha256;
use thiserror::Error;
use zeroize::Zeroizing;

/// Bytes of a key file at most; ours have about 170.
const KEY_FILE_BYTES_MAX: u64 = 4_096;
/// Permission bits that must be off: anything for group and others.
const MODE_OF_OTHERS: u32 = 0o077;

/// Why there is no node key. Nothing was written over.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The operating system said no. For a missing file its cause is `NotFound`, for an existing one
    /// `AlreadyExists`.
    #[error("cannot use key file {}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// Someone else could have read it.
    #[error("key file {} can be read by others (mode {mode:o})", path.display())]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another user put it there.
    #[error("key file {} belongs to user {owner}", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// It holds no Ed25519 key.
    #[error("key file {} holds no Ed25519 key", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
    },
    /// The system gave no random numbers.
    #[error("the system gave no random numbers")]
    Random,
    /// The key cannot be written in its format.
    #[error("cannot encode the key")]
    Encode,
}

impl KeyError {
    /// What to do next, when there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::File { .. } => Some("check who owns the file and that the disk is not full".to_owned()),
            Self::Exposed { path, .. } => Some(format!(
                "`chmod 600 {}` if nobody else can have read it; else have this node revoked and join anew",
                path.display()
            )),
            Self::Foreign { .. } => {
                Some("run this as that user, or set MESH_HOME to a home of your own".to_owned())
            }
            Self::Malformed { .. } => {
                Some("put the right file back; without it, move the home away and join anew".to_owned())
            }
            Self::Random | Self::Encode => None,
        }
    }
}

/// The private key of a node. Never shown: `Debug` prints whose it is.
#[derive(Clone)]
pub struct NodeKey(SigningKey);

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.node().short())
    }
}

impl NodeKey {
    /// A new key from the system's random numbers.
    ///
    /// # Errors
    /// [`KeyError::Random`] when there are none.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = Zeroizing::new([0; 32]);
        rand::rngs::SysRng.try_fill_bytes(seed.as_mut()).map_err(|_| KeyError::Random)?;
        Ok(Self::from_seed(&seed))
    }

    /// The key that RFC 8032 derives from these 32 secret bytes.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// [`KeyError`] when there is none, or it must not be used.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let file_error = |source| KeyError::File { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let file = options.open(path).map_err(file_error)?;
        check_owner(path, &file)?;
        let mut pem = Zeroizing::new(String::new());
        file.take(KEY_FILE_BYTES_MAX).read_to_string(&mut pem).map_err(file_error)?;
        let key = SigningKey::from_pkcs8_pem(&pem);
        key.map(Self).map_err(|_| KeyError::Malformed { path: path.to_owned() })
    }

    /// Writes the key into a new file, mode 0600, and makes it durable. The file appears complete or not at all: it is
    /// written beside its place and then linked there, which fails when the place is taken.
    ///
    /// # Errors
    /// [`KeyError::File`] when the file exists already or cannot be written.
    pub fn store(&self, path: &Path) -> Result<(), KeyError> {
        let pem = self.0.to_pkcs8_pem(LineEnding::LF).map_err(|_| KeyError::Encode)?;
        let beside = path.with_extension("new");
        let write = || {
            // What a crash left there was never anybody's key.
            match fs::remove_file(&beside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(pem.as_bytes())?;
            file.sync_all()?;
            let linked = fs::hard_link(&beside, path);
            fs::remove_file(&beside)?;
            linked?;
            // The name is durable only once the folder is.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
        };
        write().map_err(|source| KeyError::File { path: path.to_owned(), source })
    }

    /// Whose key this is.
    #[must_use]
    pub fn node(&self) -> NodeId {
        NodeId::from_bytes(self.0.verifying_key().to_bytes())
    }

    /// The key itself, for formats that sign with their own domain separation: certificates, records and DSSE envelopes.
    pub(crate) const fn signing_key(&self) -> &SigningKey {
        &self.0
    }

    /// Signs bytes that begin with a prefix of their own kind: one key signs handshakes, records and evidence.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }

    /// A secret of this node for one purpose: HMAC-SHA-256 of a label under the key's seed. The same on every call.
    #[must_use]
    pub fn derive_secret(&self, label: &[u8]) -> Zeroizing<[u8; 32]> {
        #[expect(clippy::expect_used, reason = "HMAC takes a key of any length (RFC 2104)")]
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).expect("any key length fits");
        mac.update(label);
        Zeroizing::new(mac.finalize().into_bytes().into())
    }

    /// The key as TLS takes it.
    pub(super) fn to_pkcs8(&self) -> Result<PrivateKeyDer<'static>, KeyError> {
        let der = self.0.to_pkcs8_der().map_err(|_| KeyError::Encode)?;
        Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der.as_bytes().to_vec())))
    }
}

fn check_owner(path: &Path, file: &File) -> Result<(), KeyError> {
    let metadata = file.metadata().map_err(|source| KeyError::File { path: path.to_owned(), source })?;
    let mode = metadata.mode() & 0o777;
    if mode & MODE_OF_OTHERS != 0 {
        return Err(KeyError::Exposed { path: path.to_owned(), mode });
    }
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        return Err(KeyError::Foreign { path: path.to_owned(), owner: metadata.uid() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::os::unix::fs::PermissionsExt;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn cause(error: &KeyError) -> ErrorKind {
        match error {
            KeyError::File { source, .. } => source.kind(),
            other => panic!("not a file error: {other}"),
        }
    }

    #[test]
    fn a_key_reads_back_from_its_file() {
        let folder = folder();
        let path = folder.path().join("node.key");
        let key = NodeKey::generate().unwrap();
        key.store(&path).unwrap();
        assert_eq!(NodeKey::load(&path).unwrap().node(), key.node());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("-----BEGIN PRIVATE KEY-----"));
    }

    #[test]
    fn a_key_file_is_never_written_over() {
        let folder = folder();
        let path = folder.path().join("node.key");
        let first = NodeKey::from_seed(&[1; 32]);
        first.store(&path).unwrap();
        assert_eq!(cause(&NodeKey::from_seed(&[2; 32]).store(&path).unwrap_err()), ErrorKind::AlreadyExists);
        assert_eq!(NodeKey::load(&path).unwrap().node(), first.node());
    }

    #[test]
    fn a_write_that_a_crash_cut_short_stands_in_nobodys_way() {
        let folder = folder();
        let path = folder.path().join("node.key");
        std::fs::write(path.with_extension("new"), "-----BEGIN PRIV").unwrap();
        let key = NodeKey::from_seed(&[1; 32]);
        key.store(&path).unwrap();
        assert_eq!(NodeKey::load(&path).unwrap().node(), key.node());
        assert!(!path.with_extension("new").exists());
    }

    #[test]
    fn a_key_file_that_others_can_read_is_refused() {
        let folder = folder();
        let path = folder.path().join("node.key");
        NodeKey::from_seed(&[1; 32]).store(&path).unwrap();
        for mode in [0o640, 0o604, 0o610] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(
                matches!(NodeKey::load(&path), Err(KeyError::Exposed { mode: found, .. }) if found == mode)
            );
        }
    }

    #[test]
    fn a_link_to_a_key_is_refused() {
        let folder = folder();
        let (path, link) = (folder.path().join("node.key"), folder.path().join("link.key"));
        NodeKey::from_seed(&[1; 32]).store(&path).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = NodeKey::load(&link).unwrap_err();
        let KeyError::File { source, .. } = error else { panic!("not a file error: {error}") };
        assert_eq!(source.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
    }

    #[test]
    fn a_file_without_a_key_is_refused() {
        let folder = folder();
        let path = folder.path().join("node.key");
        assert_eq!(cause(&NodeKey::load(&path).unwrap_err()), ErrorKind::NotFound);
        std::fs::write(&path, "not a key").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(NodeKey::load(&path), Err(KeyError::Malformed { .. })));
    }

    #[test]
    fn a_key_shows_its_id_and_not_itself() {
        let key = NodeKey::from_seed(&[7; 32]);
        assert_eq!(format!("{key:?}"), format!("NodeKey({})", key.node().short()));
        assert_ne!(*key.derive_secret(b"a"), *key.derive_secret(b"b"));
    }
}

//! Whom a verifier trusts: a few Ed25519 keys and how many of them must have signed.

use std::collections::BTreeSet;

use ed25519_dalek::VerifyingKey;
use thiserror::Error;

use crate::id::NodeId;

use super::dsse::{Envelope, key_id, pae};
use super::limits::MAX_TRUSTED_KEYS;

/// Keys that make no trust set.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum TrustError {
    /// No key, or more than [`MAX_TRUSTED_KEYS`].
    #[error("{count} keys, where 1 to {MAX_TRUSTED_KEYS} are allowed")]
    KeyCount {
        /// Given.
        count: usize,
    },
    /// One key twice: it would count twice.
    #[error("a key is given twice")]
    DuplicateKey,
    /// A key of small order, or an id that is no key: anyone could sign for it, or nobody.
    #[error("a key that cannot be trusted to identify anyone")]
    WeakKey,
    /// A threshold of zero, or beyond the number of keys.
    #[error("a threshold of {threshold} with {count} keys")]
    Threshold {
        /// Asked for.
        threshold: usize,
        /// Keys given.
        count: usize,
    },
}

/// Keys, and how many of them must have signed.
#[derive(Debug, Clone)]
pub struct TrustSet {
    keys: Vec<VerifyingKey>,
    threshold: usize,
}

impl TrustSet {
    /// Trusts what `threshold` of these keys sign.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn new(keys: Vec<VerifyingKey>, threshold: usize) -> Result<Self, TrustError> {
        let count = keys.len();
        if !(1..=MAX_TRUSTED_KEYS).contains(&count) {
            return Err(TrustError::KeyCount { count });
        }
        if keys.iter().map(VerifyingKey::as_bytes).collect::<BTreeSet<_>>().len() != count {
            return Err(TrustError::DuplicateKey);
        }
        if keys.iter().any(VerifyingKey::is_weak) {
            return Err(TrustError::WeakKey);
        }
        if !(1..=count).contains(&threshold) {
            return Err(TrustError::Threshold { threshold, count });
        }
        Ok(Self { keys, threshold })
    }

    /// Trusts what this one node signs.
    ///
    /// # Errors
    /// [`TrustError::WeakKey`] when the id is no usable key.
    pub fn node(node: &NodeId) -> Result<Self, TrustError> {
        let key = VerifyingKey::from_bytes(node.as_bytes()).map_err(|_| TrustError::WeakKey)?;
        Self::new(vec![key], 1)
    }

    /// How many must have signed.
    #[must_use]
    pub const fn threshold(&self) -> usize {
        self.threshold
    }

    /// Trusted keys with a valid signature on the envelope, each once, in the order of the signatures, up to the
    /// threshold. A signature's `keyid` decides only which key is tried first.
    #[must_use]
    pub fn signers(&self, envelope: &Envelope) -> Vec<VerifyingKey> {
        let message = pae(&envelope.payload_type, &envelope.payload);
        let mut signers: Vec<VerifyingKey> = Vec::new();
        for signature in &envelope.signatures {
            if signers.len() >= self.threshold {
                break;
            }
            // Of another length it is another algorithm's, and none of our keys made it.
            let Ok(sig) = ed25519_dalek::Signature::from_slice(&signature.sig) else { continue };
            let hinted = |key: &VerifyingKey| signature.keyid.as_deref() == Some(key_id(key).as_str());
            let (first, rest): (Vec<VerifyingKey>, Vec<_>) = self.keys.iter().copied().partition(hinted);
            let mut fresh = first.into_iter().chain(rest).filter(|key| !signers.contains(key));
            if let Some(key) = fresh.find(|key| key.verify_strict(&message, &sig).is_ok()) {
                signers.push(key);
            }
        }
        signers
    }
}

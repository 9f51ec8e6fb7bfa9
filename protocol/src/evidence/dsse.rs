//! The envelope around a signed payload: DSSE, version 1, with Ed25519 (RFC 8032).
//!
//! What is signed is not the payload but its pre-authentication encoding, [`pae`], which also fixes the payload's type
//! and keeps these signatures apart from every other use of the same key. A `keyid` is a hint about which key to try
//! first; nothing is concluded from it. Members unknown to us are ignored, as DSSE asks.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::NodeId;

use super::canonical::{CanonicalError, Value};
use super::digest::Digest;
use super::limits;

/// The payload type of in-toto statements.
pub const IN_TOTO: &str = "application/vnd.in-toto+json";

/// The media type of an envelope.
pub const MEDIA_TYPE: &str = "application/vnd.dsse.envelope.v1+json";

/// Why some bytes are not an envelope.
#[derive(Debug, Error)]
pub enum EnvelopeError {
    /// Not strict JSON within bounds.
    #[error("the envelope is not strict JSON")]
    Document(#[source] CanonicalError),
    /// A member is missing or has another type.
    #[error("the envelope lacks a member or has one of another type")]
    Shape(#[source] CanonicalError),
    /// No signature, or more than [`limits::MAX_SIGNATURES`].
    #[error("{count} signatures, where 1 to {} are allowed", limits::MAX_SIGNATURES)]
    SignatureCount {
        /// Found.
        count: usize,
    },
    /// Neither standard nor URL-safe base64, padded and without stray bits.
    #[error("`{member}` is not base64")]
    Base64 {
        /// `payload` or `sig`.
        member: &'static str,
    },
}

/// A payload and signatures over it, decoded. Holding one proves nothing yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// What the payload is; authenticated with it.
    pub payload_type: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// Signatures over [`pae`] of both.
    pub signatures: Vec<Signature>,
}

/// One signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// A hint about the key, not authenticated.
    pub keyid: Option<String>,
    /// Its bytes; 64 if it is Ed25519.
    pub sig: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    payload: String,
    payload_type: String,
    signatures: Vec<SignatureDocument>,
}

#[derive(Serialize, Deserialize)]
struct SignatureDocument {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    keyid: Option<String>,
    sig: String,
}

impl Envelope {
    /// Signs a payload with one key.
    #[must_use]
    pub fn sign(payload_type: &str, payload: Vec<u8>, key: &SigningKey) -> Self {
        let sig = key.sign(&pae(payload_type, &payload)).to_bytes().to_vec();
        let keyid = Some(key_id(&key.verifying_key()));
        Self { payload_type: payload_type.to_owned(), payload, signatures: vec![Signature { keyid, sig }] }
    }

    /// Reads an envelope and decodes everything in it.
    ///
    /// # Errors
    /// The first [`EnvelopeError`], in their order.
    pub fn parse(text: &[u8]) -> Result<Self, EnvelopeError> {
        let document = Value::parse(text, &limits::ENVELOPE).map_err(EnvelopeError::Document)?;
        let document: Document = document.read().map_err(EnvelopeError::Shape)?;
        let count = document.signatures.len();
        if !(1..=limits::MAX_SIGNATURES).contains(&count) {
            return Err(EnvelopeError::SignatureCount { count });
        }
        let payload = decode("payload", &document.payload)?;
        let signatures = document
            .signatures
            .into_iter()
            .map(|signature| Ok(Signature { sig: decode("sig", &signature.sig)?, keyid: signature.keyid }))
            .collect::<Result<_, EnvelopeError>>()?;
        Ok(Self { payload_type: document.payload_type, payload, signatures })
    }

    /// The envelope as it is stored and sent: canonical JSON.
    ///
    /// # Errors
    /// When it is larger than an envelope may be.
    pub fn to_json(&self) -> Result<String, CanonicalError> {
        let signatures = self.signatures.iter();
        let document = Document {
            payload: STANDARD.encode(&self.payload),
            payload_type: self.payload_type.clone(),
            signatures: signatures
                .map(|signature| SignatureDocument {
                    keyid: signature.keyid.clone(),
                    sig: STANDARD.encode(&signature.sig),
                })
                .collect(),
        };
        Ok(Value::of(&document, &limits::ENVELOPE)?.to_canonical())
    }
}

/// The pre-authentication encoding: `DSSEv1`, the payload type and the payload, each part after a space and each of
/// the latter two after its length in decimal ASCII and a space.
#[must_use]
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

/// The `keyid` of a key: `sha256:` and the SHA-256 of its 32 bytes in lower-case hexadecimal.
#[must_use]
pub fn key_id(key: &VerifyingKey) -> String {
    format!("sha256:{}", Digest::of(key.as_bytes()))
}

/// The `keyid` of a node's key.
#[must_use]
pub fn key_id_of(node: &NodeId) -> String {
    format!("sha256:{}", Digest::of(node.as_bytes()))
}

fn decode(member: &'static str, text: &str) -> Result<Vec<u8>, EnvelopeError> {
    let alphabet = if text.contains(['-', '_']) { URL_SAFE } else { STANDARD };
    alphabet.decode(text).map_err(|_| EnvelopeError::Base64 { member })
}

//! A member's certificate, as far as a directory record needs it: that the root signed it, and for which key.
//!
//! It is the X.509 leaf that the member shows in TLS, so there is one proof of membership and every member has it. A
//! reader of records has no TLS and no clock: it checks the root's signature and the subject's key, and leaves names,
//! dates and extensions to the handshake, without which nobody is talked to anyway.
//!
//! Nothing is searched for: fields are taken by their place (RFC 5280, section 4.1), and those that matter are compared
//! whole. What else the root signs begins with a prefix of its own, and no prefix is the tag of a SEQUENCE.

use std::fmt;

use der::{Reader as _, SliceReader};
use ed25519_dalek::{Signer as _, SigningKey};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::NodeId;
use crate::root::{self, RootKey, SignatureError};

/// Bytes of a certificate in a record. A leaf of this release has about 450; the rest is room for extensions.
pub const CERTIFICATE_BYTES_MAX: usize = 1_024;

/// `[0] EXPLICIT INTEGER 2`: version 3.
const VERSION_3: [u8; 5] = [0xa0, 0x03, 0x02, 0x01, 0x02];
/// AlgorithmIdentifier of Ed25519 (RFC 8410, section 3).
const ED25519: [u8; 7] = [0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];
/// SubjectPublicKeyInfo of an Ed25519 key, up to the key itself (RFC 8410, section 4).
const ED25519_SPKI_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// A BIT STRING of the 64 bytes of a signature, up to those.
const SIGNATURE_PREFIX: [u8; 3] = [0x03, 0x41, 0x00];
/// Serial number, signature algorithm, issuer, validity and subject: between the version and the key.
const FIELDS_BEFORE_THE_KEY: usize = 5;

/// A certificate of some node, not yet checked against a root.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate(#[serde(with = "serde_bytes")] Vec<u8>);

/// Why a certificate proves nothing.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum CertificateError {
    /// Over [`CERTIFICATE_BYTES_MAX`].
    #[error("a certificate over {CERTIFICATE_BYTES_MAX} bytes")]
    Oversize,
    /// Not X.509, or not between Ed25519 keys.
    #[error("a certificate that does not read")]
    Malformed,
    /// Another root signed it, or none.
    #[error("a certificate that the root did not sign")]
    ForeignRoot,
}

impl Certificate {
    /// Takes DER as it is.
    #[must_use]
    pub const fn from_der(der: Vec<u8>) -> Self {
        Self(der)
    }

    /// The DER.
    #[must_use]
    pub fn as_der(&self) -> &[u8] {
        &self.0
    }

    /// A certificate with nothing in it but what [`Self::verify`] looks at: for simulated nodes, which do no TLS.
    #[must_use]
    pub fn bare(root: &SigningKey, node: NodeId) -> Self {
        let (serial, empty) = ([0x02, 0x01, 0x01], sequence(&[]));
        let spki = [ED25519_SPKI_PREFIX.as_slice(), node.as_bytes()].concat();
        let signed = sequence(&[&VERSION_3, &serial, &ED25519, &empty, &empty, &empty, &spki]);
        let signature = [SIGNATURE_PREFIX.as_slice(), &root.sign(&signed).to_bytes()].concat();
        Self(sequence(&[&signed, &ED25519, &signature]))
    }

    /// Whom the root let in by it.
    ///
    /// # Errors
    /// [`CertificateError`] when it lets nobody in.
    pub fn verify(&self, root: &RootKey) -> Result<NodeId, CertificateError> {
        let Parts { signed, node, signature } = self.read()?;
        root::verify(root.as_bytes(), signed, &signature)
            .map_err(|SignatureError| CertificateError::ForeignRoot)?;
        Ok(node)
    }

    fn read(&self) -> Result<Parts<'_>, CertificateError> {
        if self.0.len() > CERTIFICATE_BYTES_MAX {
            return Err(CertificateError::Oversize);
        }
        let [signed, algorithm, signature] = fields(&self.0).map_err(|_| CertificateError::Malformed)?;
        let key = key_field(signed).map_err(|_| CertificateError::Malformed)?;
        let node = key.strip_prefix(&ED25519_SPKI_PREFIX).and_then(|key| key.try_into().ok());
        let signature = signature.strip_prefix(&SIGNATURE_PREFIX).and_then(|bytes| bytes.try_into().ok());
        match (node, signature) {
            (Some(node), Some(signature)) if algorithm == ED25519 => {
                Ok(Parts { signed, node: NodeId::from_bytes(node), signature })
            }
            _ => Err(CertificateError::Malformed),
        }
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.read() {
            Ok(parts) => write!(f, "Certificate({:?})", parts.node),
            Err(error) => write!(f, "Certificate({error})"),
        }
    }
}

/// What matters in a certificate.
struct Parts<'a> {
    signed: &'a [u8],
    node: NodeId,
    signature: [u8; 64],
}

/// The three fields of a certificate, each with its header.
fn fields(certificate: &[u8]) -> der::Result<[&[u8]; 3]> {
    let mut reader = SliceReader::new(certificate)?;
    let fields = reader.sequence(|inner| -> der::Result<_> {
        Ok([inner.tlv_bytes()?, inner.tlv_bytes()?, inner.tlv_bytes()?])
    })?;
    reader.finish()?;
    Ok(fields)
}

/// The subject's key in the signed part, with its header.
fn key_field(signed: &[u8]) -> der::Result<&[u8]> {
    let mut reader = SliceReader::new(signed)?;
    let key = reader.sequence(|inner| -> der::Result<_> {
        if inner.tlv_bytes()? != VERSION_3 {
            return Err(inner.error(der::ErrorKind::Failed));
        }
        for _ in 0..FIELDS_BEFORE_THE_KEY {
            inner.tlv_bytes()?;
        }
        let key = inner.tlv_bytes()?;
        while !inner.is_finished() {
            inner.tlv_bytes()?;
        }
        Ok(key)
    })?;
    reader.finish()?;
    Ok(key)
}

/// A DER SEQUENCE of less than 256 bytes.
fn sequence(fields: &[&[u8]]) -> Vec<u8> {
    let content = fields.concat();
    let length = u8::try_from(content.len()).unwrap_or(u8::MAX);
    let header: &[u8] = if length < 0x80 { &[0x30, length] } else { &[0x30, 0x81, length] };
    [header, &content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_bytes(&[seed; 32])
    }

    fn public(seed: u8) -> RootKey {
        RootKey::from_bytes(key(seed).verifying_key().to_bytes())
    }

    const NODE: NodeId = NodeId::from_bytes([9; 32]);

    #[test]
    fn a_certificate_lets_its_node_in_under_its_root_alone() {
        let certificate = Certificate::bare(&key(1), NODE);
        assert_eq!(certificate.verify(&public(1)), Ok(NODE));
        assert_eq!(certificate.verify(&public(2)), Err(CertificateError::ForeignRoot));
    }

    #[test]
    fn a_certificate_changed_in_any_byte_or_cut_anywhere_lets_nobody_in() {
        let certificate = Certificate::bare(&key(1), NODE).0;
        for index in 0..certificate.len() {
            for bit in 0..8 {
                let mut changed = certificate.clone();
                changed[index] ^= 1 << bit;
                assert!(Certificate(changed).verify(&public(1)).is_err(), "byte {index}, bit {bit}");
            }
            assert!(Certificate(certificate[..index].to_vec()).verify(&public(1)).is_err(), "cut at {index}");
        }
        let longer = [certificate.as_slice(), &[0]].concat();
        assert_eq!(Certificate(longer).verify(&public(1)), Err(CertificateError::Malformed));
    }

    #[test]
    fn a_certificate_over_its_limit_is_not_read() {
        let huge = Certificate(vec![0x30; CERTIFICATE_BYTES_MAX + 1]);
        assert_eq!(huge.verify(&public(1)), Err(CertificateError::Oversize));
    }

    #[test]
    fn the_key_counts_in_its_own_place_and_nowhere_else() {
        // Fields shifted by one, as in a certificate without a version, would make the subject stand for the key.
        let spki = [ED25519_SPKI_PREFIX.as_slice(), NODE.as_bytes()].concat();
        let signed =
            sequence(&[&[0x02, 0x01, 0x01], &ED25519, &[0x30, 0], &[0x30, 0], &[0x30, 0], &spki, &spki]);
        let signature = [SIGNATURE_PREFIX.as_slice(), &key(1).sign(&signed).to_bytes()].concat();
        let shifted = Certificate(sequence(&[&signed, &ED25519, &signature]));
        assert_eq!(shifted.verify(&public(1)), Err(CertificateError::Malformed));
    }

    #[test]
    fn the_roots_other_signatures_are_no_certificates() {
        let grant = root::RevokerGrant::sign(&key(1), *NODE.as_bytes());
        let signed = sequence(&[&VERSION_3]);
        let signature = [SIGNATURE_PREFIX.as_slice(), grant.signature.as_slice()].concat();
        let certificate = Certificate(sequence(&[&signed, &ED25519, &signature]));
        assert!(certificate.verify(&public(1)).is_err());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(Certificate(bytes).verify(&public(1)).is_err());
        }
    }
}

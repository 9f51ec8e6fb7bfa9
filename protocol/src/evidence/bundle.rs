//! One file with everything about a job: the envelope and what is needed to check it, for `mesh-cli verify FILE`.
//!
//! The envelope and the artifact are strings, not objects: what was signed and digested is their exact text. The
//! bundle itself is not signed; it proves nothing beyond what its envelope does, and a member it does not know is
//! refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::attest::Attestation;
use super::canonical::{CanonicalError, Value};
use super::event::Event;
use super::limits;
use super::trust::TrustSet;
use super::verify::{Expected, Verified, VerifyError, verify};

/// The media type of a bundle.
pub const MEDIA_TYPE: &str = "application/vnd.mesh.evidence-bundle.v1+json";

/// Why some bytes are not a bundle, or a bundle cannot be written.
#[derive(Debug, Error)]
pub enum BundleError {
    /// Not strict JSON within bounds.
    #[error("the bundle is not strict JSON within bounds")]
    Document(#[source] CanonicalError),
    /// A member is missing, unknown or of another type.
    #[error("the bundle has a member missing, unknown or of another type")]
    Shape(#[source] CanonicalError),
    /// Another version.
    #[error("bundle version {version}, where 1 is known")]
    Version {
        /// Found.
        version: u64,
    },
    /// The certificate is not base64, or larger than [`limits::MAX_CERTIFICATE_BYTES`].
    #[error("the certificate is not base64 of at most {} bytes", limits::MAX_CERTIFICATE_BYTES)]
    Certificate,
}

/// Evidence about one job. Holding one proves nothing: [`Bundle::verify`] does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The DSSE envelope, exactly.
    pub envelope: String,
    /// The result artifact, exactly.
    pub artifact: Option<String>,
    /// The job's events.
    pub events: Option<Vec<Event>>,
    /// The signer's mesh certificate in DER, for those who trust the mesh's root and not a key. Opaque here.
    pub certificate: Option<Vec<u8>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u64,
    envelope: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    artifact: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    events: Option<Vec<Event>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    certificate: Option<String>,
}

impl Bundle {
    /// Bundles an attestation with its signer's certificate.
    #[must_use]
    pub fn of(attestation: Attestation, certificate: Option<Vec<u8>>) -> Self {
        let Attestation { envelope, artifact, events } = attestation;
        Self { envelope, artifact: Some(artifact), events: Some(events), certificate }
    }

    /// Reads a bundle.
    ///
    /// # Errors
    /// The first [`BundleError`], in their order.
    pub fn parse(text: &[u8]) -> Result<Self, BundleError> {
        let document = Value::parse(text, &limits::BUNDLE).map_err(BundleError::Document)?;
        let Document { version, envelope, artifact, events, certificate } =
            document.read().map_err(BundleError::Shape)?;
        if version != 1 {
            return Err(BundleError::Version { version });
        }
        let certificate = certificate.map(|text| decode_certificate(&text)).transpose()?;
        Ok(Self { envelope, artifact, events, certificate })
    }

    /// The bundle as a file: canonical JSON.
    ///
    /// # Errors
    /// [`BundleError::Document`] when it is larger than a bundle may be.
    pub fn to_json(&self) -> Result<String, BundleError> {
        let document = Document {
            version: 1,
            envelope: self.envelope.clone(),
            artifact: self.artifact.clone(),
            events: self.events.clone(),
            certificate: self.certificate.as_ref().map(|der| STANDARD.encode(der)),
        };
        Ok(Value::of(&document, &limits::BUNDLE).map_err(BundleError::Document)?.to_canonical())
    }

    /// Verifies everything in the bundle; see [`verify()`] for the order.
    ///
    /// # Errors
    /// The first step that fails.
    pub fn verify(
        &self,
        trust: &TrustSet,
        job_id: Option<&str>,
        tenant: Option<&str>,
    ) -> Result<Verified, VerifyError> {
        let artifact = self.artifact.as_ref().map(String::as_bytes);
        let expected = Expected { artifact, events: self.events.as_deref(), job_id, tenant };
        verify(self.envelope.as_bytes(), trust, &expected)
    }
}

fn decode_certificate(text: &str) -> Result<Vec<u8>, BundleError> {
    let der = STANDARD.decode(text).map_err(|_| BundleError::Certificate)?;
    if der.len() > limits::MAX_CERTIFICATE_BYTES { Err(BundleError::Certificate) } else { Ok(der) }
}

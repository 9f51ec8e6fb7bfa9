//! Signs the account of an attempt and packs it so that it fits beside the result.

use mesh_protocol::evidence::attest::{AttestError, Finished, attest};
use mesh_protocol::evidence::bundle::{Bundle, BundleError};
use mesh_protocol::limits::MESSAGE_BYTES_MAX;
use thiserror::Error;

use super::receipt::ReceiptError;
use crate::identity::NodeKey;

/// Bytes of a message that are neither proof nor output: ids, status, lengths, and the paths and rules of files.
const RESULT_BYTES: usize = 256 * 1024;

/// Why a result goes without a proof.
#[derive(Debug, Error)]
pub(super) enum ProofError {
    /// There is no account of it.
    #[error("the job has no receipt")]
    Receipt(#[from] ReceiptError),
    /// It could not be signed, or what was signed does not verify.
    #[error("the job cannot be attested")]
    Attest(#[from] AttestError),
    /// It cannot be written down.
    #[error("the bundle cannot be written")]
    Bundle(#[from] BundleError),
    /// It does not fit beside the result even without the events.
    #[error("the bundle has {bytes} bytes, {room} are left in the message")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// What is left beside the result.
        room: usize,
    },
}

/// Proves how jobs ended.
pub(super) trait Prove: Send + Sync {
    /// The signed bundle, for a result whose texts and files have this many bytes.
    fn prove(&self, job: Finished, result_bytes: usize) -> Result<Vec<u8>, ProofError>;
}

/// Signs for this node.
pub(super) struct Signer {
    key: NodeKey,
    certificate: Option<Vec<u8>>,
}

impl Signer {
    pub(super) fn new(key: NodeKey, certificate: Option<Vec<u8>>) -> Self {
        Self { key, certificate }
    }
}

impl Prove for Signer {
    fn prove(&self, job: Finished, result_bytes: usize) -> Result<Vec<u8>, ProofError> {
        let attestation = attest(job, self.key.signing_key())?;
        let room = MESSAGE_BYTES_MAX.saturating_sub(RESULT_BYTES).saturating_sub(result_bytes);
        fit(Bundle::of(attestation, self.certificate.clone()), room)
    }
}

/// Writes a bundle in at most `room` bytes, without its events if need be. The rest proves itself without them.
fn fit(mut bundle: Bundle, room: usize) -> Result<Vec<u8>, ProofError> {
    let whole = bundle.to_json()?;
    if whole.len() <= room {
        return Ok(whole.into_bytes());
    }
    tracing::warn!(
        bytes = whole.len(),
        room,
        "a job's evidence goes without its events, to fit in a message"
    );
    bundle.events = None;
    let rest = bundle.to_json()?;
    let bytes = rest.len();
    if bytes <= room { Ok(rest.into_bytes()) } else { Err(ProofError::TooLarge { bytes, room }) }
}

#[cfg(test)]
mod tests {
    use mesh_protocol::evidence::canonical::Value;
    use mesh_protocol::evidence::chain::Chain;
    use mesh_protocol::evidence::event::EventKind;

    use super::*;

    fn bundle() -> Bundle {
        let mut chain = Chain::new("job");
        chain.append(1, EventKind::Finished, Value::Null).unwrap();
        let (envelope, artifact) = ("envelope".to_owned(), Some("artifact".to_owned()));
        Bundle { envelope, artifact, events: Some(chain.into_events()), certificate: None }
    }

    #[test]
    fn events_are_left_out_before_the_proof_is() {
        let whole = bundle().to_json().unwrap().len();
        let bare = Bundle { events: None, ..bundle() };
        let least = bare.to_json().unwrap().len();
        assert_eq!(Bundle::parse(&fit(bundle(), whole).unwrap()).unwrap(), bundle());
        assert_eq!(Bundle::parse(&fit(bundle(), whole - 1).unwrap()).unwrap(), bare);
        assert_eq!(Bundle::parse(&fit(bundle(), least).unwrap()).unwrap(), bare);
        assert!(matches!(fit(bundle(), least - 1), Err(ProofError::TooLarge { .. })));
    }
}

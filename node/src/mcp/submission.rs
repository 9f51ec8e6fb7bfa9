//! Submits a job so that a lost answer does not run it twice.
//!
//! The rules are those of [`super::reconciliation`]; here are its key and its clock; the one repetition is the client's.
//! Everything that makes two submissions the same goes into the fingerprint: the node, the credential, the policy and the job,
//! each with its length, under a key that is random for each process. The wait is not part of it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hmac::{Hmac, KeyInit, Mac};
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::{JobReceipt, RunRequest};
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::Sha256;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::reconciliation::{Ending, Fingerprint, Reconciliation, ReconciliationError, Slot};
use crate::client::{Client, ClientError, SubmissionError};

/// Bytes of the fingerprints' key: one block of SHA-256, so that it is used as it is (RFC 2104, section 2).
const FINGERPRINT_KEY_BYTES: usize = 64;

/// The submissions of this process.
pub(crate) struct Submissions {
    table: Mutex<Reconciliation>,
    fingerprint_key: Zeroizing<[u8; FINGERPRINT_KEY_BYTES]>,
    began: Instant,
}

impl Submissions {
    /// An empty table under a new key. Fails only when the system has no randomness.
    pub(crate) fn new() -> Result<Self, rand::rngs::SysError> {
        let mut fingerprint_key = Zeroizing::new([0; FINGERPRINT_KEY_BYTES]);
        SysRng.try_fill_bytes(fingerprint_key.as_mut())?;
        Ok(Self { table: Mutex::default(), fingerprint_key, began: Instant::now() })
    }

    /// Has the job accepted, at most once. An outcome that stays unknown is the error `submission_unresolved`.
    pub(crate) async fn submit(&self, client: &Client, request: RunRequest) -> Result<JobReceipt, ApiError> {
        let claim = self.claim(client, &request)?;
        let request = RunRequest { idempotency_key: Some(claim.key.to_string()), ..request };
        let submitted = client.submit(request).await;
        claim.settle(match &submitted {
            Ok(_) => Ending::Acknowledged,
            Err(SubmissionError::NotAccepted(_)) => Ending::Refused,
            Err(SubmissionError::Unresolved { .. }) => Ending::Lost,
        });
        submitted.map_err(|error| match error {
            SubmissionError::NotAccepted(error) => error.into_api_error(),
            SubmissionError::Unresolved { last, .. } => unresolved(&last),
        })
    }

    fn claim(&self, client: &Client, request: &RunRequest) -> Result<Claim<'_>, ApiError> {
        let fingerprint = self.fingerprint(client, request)?;
        let begun = self.table().begin(fingerprint, Uuid::now_v7(), self.now_ms()).map_err(refusal)?;
        Ok(Claim { submissions: self, key: begun.key, slot: Some(begun.slot) })
    }

    fn fingerprint(&self, client: &Client, request: &RunRequest) -> Result<Fingerprint, ApiError> {
        let failed =
            |_| ApiError::new(ErrorKind::Internal, "fingerprint_failed", "cannot fingerprint the job");
        let endpoint = client.endpoint();
        let token = endpoint.token.as_ref().map_or("", |token| token.expose());
        // The job's own JSON has every default filled in and its members in a fixed order.
        let job = serde_json::to_vec(request).map_err(failed)?;
        let mut mac = Hmac::<Sha256>::new(&(*self.fingerprint_key).into());
        for part in [endpoint.socket.as_os_str().as_encoded_bytes(), token.as_bytes(), &job] {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(part);
        }
        Ok(mac.finalize().into_bytes().into())
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The table is whole between any two statements, so a panic elsewhere has not broken it.
    fn table(&self) -> MutexGuard<'_, Reconciliation> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the table. Dropped unsettled, as when the call was abandoned half-way, its outcome is unknown.
struct Claim<'a> {
    submissions: &'a Submissions,
    key: Uuid,
    slot: Option<Slot>,
}

impl Claim<'_> {
    fn settle(mut self, ending: Ending) {
        self.end(ending);
    }

    fn end(&mut self, ending: Ending) {
        if let Some(slot) = self.slot.take() {
            self.submissions.table().settle(slot, ending, self.submissions.now_ms());
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.end(Ending::Lost);
    }
}

fn unresolved(last: &ClientError) -> ApiError {
    let message = format!("the job may or may not have been accepted: {last}");
    let mut error = ApiError::new(ErrorKind::Unavailable, "submission_unresolved", message).hint(
        "call run_code again with exactly the same arguments within ten minutes: if the job was accepted, you get \
         that job and no second one",
    );
    error.hints.extend(last.hints());
    error
}

fn refusal(error: ReconciliationError) -> ApiError {
    let (kind, code, hint) = match error {
        ReconciliationError::Full => (
            ErrorKind::Busy,
            "submissions_full",
            "wait for running calls, or up to ten minutes after lost answers",
        ),
        ReconciliationError::BeingReconciled => (
            ErrorKind::Busy,
            "submission_being_reconciled",
            "wait for the other call to finish, then call again",
        ),
    };
    ApiError::new(kind, code, error.to_string()).hint(hint)
}

//! Has a job accepted at most once, although an answer may be lost.
//!
//! ```text
//! one key ──> run ──answer──────────────────────────────────> accepted, or refused
//!              └─lost after sending─> run, same key ──answer──> accepted
//!                                       └──anything else──────> unresolved: the key tells what became of it
//! ```
//! The key is made once for a submission, so the node gives the first job again instead of a second one. It is repeated
//! exactly once, and only when the first answer leaves open whether the node has the job.

use std::time::Duration;

use mesh_protocol::api::job::{JobReceipt, RunRequest};
use thiserror::Error;
use uuid::Uuid;

use super::{Client, ClientError};

/// How long a submission rests before its one repetition: a node that is restarting needs a moment.
const REPEAT_AFTER: Duration = Duration::from_millis(250);

/// Why a job was not accepted, as far as that is known.
#[derive(Debug, Error)]
pub enum SubmissionError {
    /// The node does not have it.
    #[error(transparent)]
    NotAccepted(ClientError),
    /// Two answers were lost: it may have it.
    #[error("the job may or may not have been accepted")]
    Unresolved {
        /// What the same submission has to be repeated under, within as long as the node keeps jobs.
        key: String,
        /// What became of the repetition.
        #[source]
        last: ClientError,
    },
}

impl Client {
    /// Has a job accepted, under the request's idempotency key or one that is made here.
    ///
    /// # Errors
    /// [`SubmissionError`], which says whether the node may have it.
    pub async fn submit(&self, request: RunRequest) -> Result<JobReceipt, SubmissionError> {
        let key = request.idempotency_key.unwrap_or_else(|| Uuid::now_v7().to_string());
        let request = RunRequest { idempotency_key: Some(key), ..request };
        let first = match self.run(&request).await {
            Err(error) if error.leaves_open() => error,
            answer => return answer.map_err(SubmissionError::NotAccepted),
        };
        tracing::warn!(error = %first, "whether a job was accepted is not known; it is submitted again under its key");
        tokio::time::sleep(REPEAT_AFTER).await;
        self.run(&request).await.map_err(|last| SubmissionError::Unresolved {
            key: request.idempotency_key.unwrap_or_default(),
            last,
        })
    }
}

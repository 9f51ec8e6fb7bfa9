//! What every handler is given, and how long it may take.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use mesh_protocol::api::error::ApiError;

use super::Api;
use super::failure::Refusal;
use super::keys::Tenancy;
use crate::service::Service;

/// What all requests share.
pub(super) type Shared<S> = State<Arc<Api<S>>>;
/// Whose request it is.
pub(super) type Caller = Extension<Tenancy>;

impl<S: Service> Api<S> {
    /// The service's answer, if it comes within the usual time.
    pub(super) async fn answer<T>(
        &self,
        answer: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, Refusal> {
        let late = |_| {
            Refusal::unavailable("no_answer_in_time", "the node did not finish in time; it may still do so")
        };
        Ok(tokio::time::timeout(self.limits.answer_within, answer).await.map_err(late)??)
    }
}

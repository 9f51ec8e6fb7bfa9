//! Anthropic's Messages API.

mod request;
mod response;
mod stream;

use futures_util::future::BoxFuture;
use url::Url;

use super::adapter::{Adapter, Dialect};
use super::wire::{Events, Wire};
use super::{ConverseRequest, ConverseResult, ProviderError, ProviderOptionsError};
use crate::host::HostEnv;
use crate::model::StreamSink;
use crate::secret::Secret;
use request::Body;

const NAME: &str = "anthropic";

/// The version of the API that is spoken.
const VERSION: &str = "2023-06-01";

/// Key in [`ToolCall::meta`](crate::message::ToolCall::meta) of a call's input as the API spelled it. It is replayed so
/// that numbers keep their digits and a cached prompt stays the same.
const INPUT_TEXT: &str = "anthropic_input";

/// Speaks to Anthropic.
#[derive(Debug)]
pub(super) struct Anthropic {
    model: String,
}

impl Anthropic {
    /// An adapter that asks this model.
    pub(super) fn adapter(
        base: &Url,
        key: Secret,
        model: String,
        host: HostEnv,
    ) -> Result<Adapter<Self>, ProviderError> {
        let wire = Wire::new(NAME, base, "/v1/messages", Some(key.clone()), host)
            .with_header("x-api-key", key.expose())?
            .with_header("anthropic-version", VERSION)?;
        Ok(Adapter { dialect: Self { model }, wire })
    }
}

impl Dialect for Anthropic {
    fn name(&self) -> &'static str {
        NAME
    }

    fn body(
        &self,
        request: &ConverseRequest,
        max_tokens: u64,
        stream: bool,
    ) -> Result<Vec<u8>, ProviderError> {
        let cannot = |option, why| ProviderOptionsError { provider: NAME.into(), option, why };
        let options = &request.options;
        if options.response_format.is_some() {
            return Err(cannot("response_format", "its API has no such field").into());
        }
        if options.openrouter.is_some() {
            return Err(cannot("openrouter", "only OpenRouter knows these fields").into());
        }
        if options.prompt_cache.as_ref().is_some_and(|cache| cache.key.is_some()) {
            return Err(cannot("prompt_cache.key", "its cache has no keys").into());
        }
        let body = Body::of(request, &self.model, max_tokens, stream);
        serde_json::to_vec(&body).map_err(|error| ProviderError::Other(error.into()))
    }

    fn read(&self, answer: &[u8], wire: &Wire) -> Result<ConverseResult, ProviderError> {
        response::read(answer, wire)
    }

    fn read_events<'a>(
        &'a self,
        events: Events,
        sink: &'a dyn StreamSink,
        wire: &'a Wire,
    ) -> BoxFuture<'a, Result<ConverseResult, ProviderError>> {
        Box::pin(stream::read(events, sink, wire))
    }
}

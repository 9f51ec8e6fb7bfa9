//! Anthropic's Messages API.

mod request;
mod response;
mod stream;

use url::Url;

use super::wire::Wire;
use super::{
    ConverseOptions, ConverseRequest, ConverseResult, Conversing, Provider, ProviderError,
    ProviderOptionsError,
};
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
    wire: Wire,
    model: String,
}

impl Anthropic {
    pub(super) fn new(base: Url, key: Secret, model: String, host: HostEnv) -> Result<Self, ProviderError> {
        let wire = Wire::new(NAME, &base, "/v1/messages", Some(key.clone()), host)?
            .with_header("x-api-key", key.expose())?
            .with_header("anthropic-version", VERSION)?;
        Ok(Self { wire, model })
    }

    fn body(&self, request: &ConverseRequest, stream: bool) -> Result<Vec<u8>, ProviderError> {
        let cannot = |option, why| ProviderOptionsError { provider: NAME.into(), option, why };
        let options = &request.options;
        options.check(NAME)?;
        if options.response_format.is_some() {
            return Err(cannot("response_format", "its API has no such field").into());
        }
        if options.openrouter.is_some() {
            return Err(cannot("openrouter", "only OpenRouter knows these fields").into());
        }
        if options.prompt_cache.as_ref().is_some_and(|cache| cache.key.is_some()) {
            return Err(cannot("prompt_cache.key", "its cache has no keys").into());
        }
        let body = Body::of(request, &self.model, self.wire.max_tokens(options.max_tokens), stream);
        serde_json::to_vec(&body).map_err(|error| ProviderError::Other(error.into()))
    }

    async fn ask(
        &self,
        request: &ConverseRequest,
        options: &ConverseOptions,
    ) -> Result<ConverseResult, ProviderError> {
        let body = self.body(request, false)?;
        let answer = self.wire.ask(body, request.options.max_retries, &options.stop).await?;
        response::read(&answer, &self.wire)
    }

    async fn ask_streaming(
        &self,
        request: &ConverseRequest,
        sink: &dyn StreamSink,
        options: &ConverseOptions,
    ) -> Result<ConverseResult, ProviderError> {
        let body = self.body(request, true)?;
        let events = self.wire.ask_for_events(body, request.options.max_retries, &options.stop).await?;
        stream::read(events, sink, &self.wire).await
    }
}

impl Provider for Anthropic {
    fn name(&self) -> &'static str {
        NAME
    }

    fn reports_usage(&self) -> bool {
        true
    }

    fn streams(&self) -> bool {
        true
    }

    fn converse<'a>(&'a self, request: &'a ConverseRequest, options: &'a ConverseOptions) -> Conversing<'a> {
        Box::pin(self.ask(request, options))
    }

    fn converse_streaming<'a>(
        &'a self,
        request: &'a ConverseRequest,
        sink: &'a dyn StreamSink,
        options: &'a ConverseOptions,
    ) -> Conversing<'a> {
        Box::pin(self.ask_streaming(request, sink, options))
    }
}

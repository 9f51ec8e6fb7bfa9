//! The chat completions dialect, as OpenAI, OpenRouter and self-hosted servers speak it.
//!
//! The three differ in a few fields and headers ([`Flavor`]); a field that one does not know is refused before anything
//! is sent.

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

/// Who speaks the dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flavor {
    /// OpenAI itself.
    OpenAi,
    /// OpenRouter, which passes prompts on to others.
    OpenRouter(Attribution),
    /// A server of one's own.
    Local,
}

/// What OpenRouter shows as the origin of calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attribution {
    /// The address of the application.
    pub referer: Option<String>,
    /// Its name.
    pub title: Option<String>,
}

impl Flavor {
    fn name(&self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenRouter(_) => "openrouter",
            Self::Local => "local",
        }
    }

    fn is_openrouter(&self) -> bool {
        matches!(self, Self::OpenRouter(_))
    }
}

/// Speaks the dialect.
#[derive(Debug)]
pub(super) struct OpenAi {
    flavor: Flavor,
    wire: Wire,
    model: String,
}

impl OpenAi {
    pub(super) fn new(
        flavor: Flavor,
        base: Url,
        key: Option<Secret>,
        model: String,
        host: HostEnv,
    ) -> Result<Self, ProviderError> {
        let mut wire = Wire::new(flavor.name(), &base, "/chat/completions", key.clone(), host)?;
        if let Some(key) = key {
            wire = wire.with_header("authorization", &format!("Bearer {}", key.expose()))?;
        }
        if let Flavor::OpenRouter(Attribution { referer, title }) = &flavor {
            for (name, value) in [("http-referer", referer), ("x-title", title)] {
                if let Some(value) = value {
                    wire = wire.with_header(name, value)?;
                }
            }
        }
        Ok(Self { flavor, wire, model })
    }

    fn body(&self, request: &ConverseRequest, stream: bool) -> Result<Vec<u8>, ProviderError> {
        let provider = self.flavor.name();
        let cannot = |option, why| ProviderOptionsError { provider: provider.into(), option, why };
        let options = &request.options;
        options.check(provider)?;
        if options.openrouter.is_some() && !self.flavor.is_openrouter() {
            return Err(cannot("openrouter", "only OpenRouter knows these fields").into());
        }
        if self.flavor.is_openrouter()
            && options.prompt_cache.as_ref().is_some_and(|cache| cache.key.is_some())
        {
            return Err(cannot("prompt_cache.key", "its caches have no keys").into());
        }
        let max_tokens = self.wire.max_tokens(options.max_tokens);
        let body = Body::of(request, &self.flavor, &self.model, max_tokens, stream);
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

impl Provider for OpenAi {
    fn name(&self) -> &'static str {
        self.flavor.name()
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

//! The chat completions dialect, as OpenAI, OpenRouter and self-hosted servers speak it.
//!
//! The three differ in a few fields and headers ([`Flavor`]); a field that one does not know is refused before anything
//! is sent.

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
    model: String,
}

impl OpenAi {
    /// An adapter that asks this model.
    pub(super) fn adapter(
        flavor: Flavor,
        base: &Url,
        key: Option<Secret>,
        model: String,
        host: HostEnv,
    ) -> Result<Adapter<Self>, ProviderError> {
        let mut wire = Wire::new(flavor.name(), base, "/chat/completions", key.clone(), host);
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
        Ok(Adapter { dialect: Self { flavor, model }, wire })
    }
}

impl Dialect for OpenAi {
    fn name(&self) -> &'static str {
        self.flavor.name()
    }

    fn body(
        &self,
        request: &ConverseRequest,
        max_tokens: u64,
        stream: bool,
    ) -> Result<Vec<u8>, ProviderError> {
        let cannot = |option, why| ProviderOptionsError { provider: self.flavor.name().into(), option, why };
        let (options, is_openrouter) = (&request.options, self.flavor.is_openrouter());
        if options.openrouter.is_some() && !is_openrouter {
            return Err(cannot("openrouter", "only OpenRouter knows these fields").into());
        }
        if is_openrouter && options.prompt_cache.as_ref().is_some_and(|cache| cache.key.is_some()) {
            return Err(cannot("prompt_cache.key", "its caches have no keys").into());
        }
        let body = Body::of(request, &self.flavor, &self.model, max_tokens, stream);
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

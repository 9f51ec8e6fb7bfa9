//! What the adapters over HTTP share: a dialect says how a turn is spelled, and the wire sends it.

use futures_util::future::BoxFuture;

use super::wire::{Events, Wire};
use super::{ConverseOptions, ConverseRequest, ConverseResult, Conversing, Provider, ProviderError};
use crate::model::StreamSink;

/// How a provider spells a turn.
pub(super) trait Dialect: Send + Sync {
    /// The provider's name.
    fn name(&self) -> &'static str;

    /// The body of a request; an error if an option cannot be honoured.
    fn body(
        &self,
        request: &ConverseRequest,
        max_tokens: u64,
        stream: bool,
    ) -> Result<Vec<u8>, ProviderError>;

    /// A whole answer as a turn.
    fn read(&self, answer: &[u8], wire: &Wire) -> Result<ConverseResult, ProviderError>;

    /// An answer in events as a turn. Tells `sink` of each piece; an answer that breaks off is an error.
    fn read_events<'a>(
        &'a self,
        events: Events,
        sink: &'a dyn StreamSink,
        wire: &'a Wire,
    ) -> BoxFuture<'a, Result<ConverseResult, ProviderError>>;
}

/// A provider over HTTP.
#[derive(Debug)]
pub(super) struct Adapter<D> {
    pub(super) dialect: D,
    pub(super) wire: Wire,
}

impl<D: Dialect> Adapter<D> {
    fn body(&self, request: &ConverseRequest, stream: bool) -> Result<Vec<u8>, ProviderError> {
        request.options.check(self.dialect.name())?;
        let max_tokens = self.wire.max_tokens(request.options.max_tokens);
        self.dialect.body(request, max_tokens, stream)
    }
}

impl<D: Dialect> Provider for Adapter<D> {
    fn name(&self) -> &str {
        self.dialect.name()
    }

    fn reports_usage(&self) -> bool {
        true
    }

    fn streams(&self) -> bool {
        true
    }

    fn converse<'a>(&'a self, request: &'a ConverseRequest, options: &'a ConverseOptions) -> Conversing<'a> {
        Box::pin(async move {
            let body = self.body(request, false)?;
            let answer = self.wire.ask(body, request.options.max_retries, &options.stop).await?;
            self.dialect.read(&answer, &self.wire)
        })
    }

    fn converse_streaming<'a>(
        &'a self,
        request: &'a ConverseRequest,
        sink: &'a dyn StreamSink,
        options: &'a ConverseOptions,
    ) -> Conversing<'a> {
        Box::pin(async move {
            let body = self.body(request, true)?;
            let events = self.wire.ask_for_events(body, request.options.max_retries, &options.stop).await?;
            self.dialect.read_events(events, sink, &self.wire).await
        })
    }
}

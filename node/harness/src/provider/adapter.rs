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

#[cfg(test)]
mod tests {
    //! Servers are hostile: whatever they say becomes a turn or an error, and never a panic.

    use proptest::prelude::*;
    use serde_json::{Value, json};
    use url::Url;

    use super::*;
    use crate::host::HostEnv;
    use crate::provider::anthropic::Anthropic;
    use crate::provider::openai::{Flavor, OpenAi};

    struct Deaf;
    impl StreamSink for Deaf {}

    /// JSON made of the words that the dialects know, in places where they may not belong.
    fn answers() -> impl Strategy<Value = Value> {
        let words = [
            "text",
            "tool_use",
            "end_turn",
            "function",
            "{}",
            "{\"a\":",
            "[1]",
            "",
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
            "tool_calls",
            "length",
            "é\u{0}",
        ];
        let keys = [
            "id",
            "type",
            "content",
            "text",
            "name",
            "input",
            "usage",
            "input_tokens",
            "output_tokens",
            "choices",
            "message",
            "delta",
            "tool_calls",
            "function",
            "arguments",
            "finish_reason",
            "stop_reason",
            "index",
            "content_block",
            "partial_json",
            "prompt_tokens",
            "completion_tokens",
            "cost",
            "refusal",
            "model",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            Just(json!(u64::MAX)),
            any::<f64>().prop_map(|number| json!(number)),
            prop::sample::select(words.to_vec()).prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 6, move |inner| {
            let keyed = (prop::sample::select(keys.to_vec()), inner.clone());
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                prop::collection::vec(keyed, 0..6).prop_map(|fields| {
                    Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
                }),
            ]
        })
    }

    fn base() -> Url {
        Url::parse("http://127.0.0.1:1").unwrap()
    }

    fn check(answer: Result<ConverseResult, ProviderError>) {
        let Ok(turn) = answer else { return };
        for call in turn.tool_calls {
            assert!(call.is_well_formed() || call.input.is_empty());
        }
        let usage = turn.usage.unwrap_or_default();
        assert!(usage.total.is_none() || usage.total >= usage.input);
    }

    fn read_all<D: Dialect>(adapter: &Adapter<D>, answers: &[Value]) {
        for answer in answers {
            check(adapter.dialect.read(answer.to_string().as_bytes(), &adapter.wire));
        }
        let events = Events::of(answers.iter().map(Value::to_string).chain(["[DONE]".into()]));
        let reading = adapter.dialect.read_events(events, &Deaf, &adapter.wire);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        check(runtime.block_on(reading));
    }

    proptest! {
        #[test]
        fn whatever_a_server_says_is_a_turn_or_an_error(answers in prop::collection::vec(answers(), 1..6)) {
            let host = HostEnv::default();
            read_all(&Anthropic::adapter(&base(), "k".into(), "m".into(), host.clone()).unwrap(), &answers);
            read_all(&OpenAi::adapter(Flavor::Local, &base(), None, "m".into(), host).unwrap(), &answers);
        }

        #[test]
        fn whatever_bytes_a_server_sends_are_a_turn_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let adapter = OpenAi::adapter(Flavor::Local, &base(), None, "m".into(), HostEnv::default()).unwrap();
            check(adapter.dialect.read(&bytes, &adapter.wire));
            let refused = adapter.wire.refused(500, &bytes);
            prop_assert!(refused.to_string().len() < 1024);
        }
    }
}

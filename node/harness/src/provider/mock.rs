//! A provider without a network and without a model: for trying a set-up out, and only by request.
//!
//! It answers one turn, always the same, and says what it was selected with. It is no language model and reports no
//! usage.

use super::{
    ConverseOptions, ConverseRequest, ConverseResult, Conversing, Provider, ProviderError, ProviderSelection,
};
use crate::host::HostEnv;
use crate::usage::FinishReason;

/// Answers with what it was selected with.
#[derive(Debug, Clone)]
pub struct MockProvider {
    answer: String,
}

impl MockProvider {
    /// A mock for this selection.
    #[must_use]
    pub fn new(selection: &ProviderSelection, host: &HostEnv) -> Self {
        let model = match (&selection.model, host.get("MOCK_MODEL")) {
            (Some(model), _) => format!("{model} (from the selection)"),
            (None, Some(model)) => format!("{model} (from the host)"),
            (None, None) => "mock (the default)".into(),
        };
        let keys: Vec<String> = ["anthropic", "openai", "openrouter"]
            .iter()
            .filter_map(|name| {
                Some(format!("{name} …{}", last_four(selection.credentials.of(name)?.expose())))
            })
            .collect();
        let keys = if keys.is_empty() { "none".into() } else { keys.join(", ") };
        Self { answer: format!("This is the mock provider. Model: {model}. Keys: {keys}.") }
    }
}

/// The end of a key that is long enough to have one.
fn last_four(key: &str) -> String {
    let letters: Vec<char> = key.chars().collect();
    match letters.len() {
        0..=8 => "????".into(),
        length => letters.iter().skip(length - 4).collect(),
    }
}

impl Provider for MockProvider {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn converse<'a>(&'a self, _: &'a ConverseRequest, options: &'a ConverseOptions) -> Conversing<'a> {
        let stopped = |reason| ProviderError::Stopped { provider: self.name().to_owned(), reason };
        let answer = options.stop.check().map_err(stopped).map(|()| ConverseResult {
            text: self.answer.clone(),
            finish_reason: FinishReason::Stop,
            ..ConverseResult::default()
        });
        Box::pin(std::future::ready(answer))
    }
}

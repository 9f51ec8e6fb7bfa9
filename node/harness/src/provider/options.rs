//! How a model is to be asked, on every call of a run.
//!
//! One set of options for all providers. What a provider cannot honour is an error of its adapter before anything is
//! sent; nothing is dropped silently.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::limits::CACHED_MESSAGES;

/// Options of every model call of a run. All of them may be left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderOptions {
    /// How many tokens an answer may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// How freely to choose words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Whether to ask for tools. Left out of a call without tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Keep the prompt for the next call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<PromptCache>,
    /// The form of the answer, as the OpenAI dialect spells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_format: Option<Value>,
    /// What only OpenRouter knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openrouter: Option<OpenRouterOptions>,
    /// How often a call is repeated when it fails for a passing reason. 0 is one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
}

/// Whether a model asks for tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// It has to.
    Required,
    /// It must not.
    None,
    /// This one.
    #[serde(untagged)]
    Tool {
        /// Its name.
        name: String,
    },
}

/// How a prompt is kept. The default is the usual way.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptCache {
    /// For how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<CacheTtl>,
    /// How many of the last messages are marked: 0 to 2, or one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trailing_messages: Option<u8>,
    /// What calls share a cache, where the provider asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How long a prompt is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheTtl {
    /// Five minutes.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// An hour.
    #[serde(rename = "1h")]
    OneHour,
}

/// What only OpenRouter knows. Each field goes into the body as it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenRouterOptions {
    /// Models to fall back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Who may process the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Value>,
    /// Whether to count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

impl ProviderOptions {
    /// # Errors
    /// When an option is out of its range for every provider.
    pub(super) fn check(&self, provider: &str) -> Result<(), ProviderOptionsError> {
        let wrong = |option, why| Err(ProviderOptionsError { provider: provider.into(), option, why });
        if self.temperature.is_some_and(|temperature| !temperature.is_finite()) {
            return wrong("temperature", "it is not a number");
        }
        let trailing = self.prompt_cache.as_ref().and_then(|cache| cache.trailing_messages);
        if trailing.is_some_and(|trailing| trailing > CACHED_MESSAGES) {
            return wrong("prompt_cache.trailing_messages", "at most 2 messages can be marked");
        }
        Ok(())
    }
}

/// A provider cannot do what an option asks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{provider} cannot honour the option {option}: {why}")]
pub struct ProviderOptionsError {
    /// Which provider.
    pub provider: String,
    /// Which option, as a path: `prompt_cache.key`.
    pub option: &'static str,
    /// What is wrong.
    pub why: &'static str,
}

//! Providers of language models: one conversation turn in, one out.
//!
//! A provider's adapter maps a turn onto its wire and back, honours the stop it is given, and says what served the turn.
//! It checks the options before it sends anything. Which provider a run gets is decided by selection, which fails
//! instead of taking another one. Keys are in no error.

mod adapter;
mod anthropic;
mod mock;
mod openai;
mod options;
mod retry;
mod scripted;
mod selection;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::message::{AgentMessage, ToolCall, ToolSpec};
use crate::model::{BoxError, StreamSink};
use crate::stop::{Stop, StopReason};
use crate::usage::{FinishReason, TokenUsage};

pub use options::{
    CacheTtl, OpenRouterOptions, PromptCache, ProviderOptions, ProviderOptionsError, ToolChoice,
};

pub use mock::MockProvider;
pub use openai::Attribution;
pub use scripted::{Script, ScriptFunction, ScriptedProvider, ScriptedTurn};
pub use selection::{Credentials, ProviderSelection, provider_availability, select_provider};

/// A provider of language models.
pub trait Provider: Send + Sync {
    /// Its name: `anthropic`.
    fn name(&self) -> &str;

    /// Whether its answers say what they used.
    fn reports_usage(&self) -> bool {
        false
    }

    /// Whether [`converse_streaming`](Self::converse_streaming) hands over pieces.
    fn streams(&self) -> bool {
        false
    }

    /// One turn. Ends as soon as the stop fires.
    fn converse<'a>(&'a self, request: &'a ConverseRequest, options: &'a ConverseOptions) -> Conversing<'a>;

    /// One turn, heard of piece by piece. Not called unless [`streams`](Self::streams) says so.
    fn converse_streaming<'a>(
        &'a self,
        request: &'a ConverseRequest,
        _sink: &'a dyn StreamSink,
        options: &'a ConverseOptions,
    ) -> Conversing<'a> {
        self.converse(request, options)
    }
}

/// A turn under way.
pub type Conversing<'a> = BoxFuture<'a, Result<ConverseResult, ProviderError>>;

/// What a model is asked: everything it has to know for this turn. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConverseRequest {
    /// The system prompt, possibly empty.
    pub system: Arc<str>,
    /// The conversation so far.
    pub messages: Arc<Vec<AgentMessage>>,
    /// The tools it may ask for.
    pub tools: Arc<Vec<ToolSpec>>,
    /// How it is to be asked.
    pub options: Arc<ProviderOptions>,
}

/// What goes with a turn.
#[derive(Debug, Clone, Default)]
pub struct ConverseOptions {
    /// Ends the turn.
    pub stop: Stop,
}

/// What a model answered, and what served it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ConverseResult {
    /// Its prose, possibly empty.
    pub text: String,
    /// The tools it asks for.
    pub tool_calls: Vec<ToolCall>,
    /// Why the turn ended.
    pub finish_reason: FinishReason,
    /// What it used, where the provider reports it.
    pub usage: Option<TokenUsage>,
    /// The model that answered, as the response names it.
    pub model: Option<String>,
    /// The provider's own id of the response.
    pub response_id: Option<String>,
    /// Who processed the prompt, where the provider is a broker.
    pub upstream: Option<String>,
}

/// Why a provider gave no answer. What a server said is cut to
/// [`SERVER_WORDS_BYTES`](crate::limits::SERVER_WORDS_BYTES), and keys are taken out of it.
#[derive(Debug, Error)]
pub enum ProviderError {
    /// There is no credential for it.
    #[error(transparent)]
    Credentials(#[from] ProviderCredentialsError),
    /// It cannot do what the options ask. Nothing was sent.
    #[error(transparent)]
    Options(#[from] ProviderOptionsError),
    /// The call was stopped.
    #[error("the call of {provider} was stopped")]
    Stopped {
        /// Who was called.
        provider: String,
        /// Why.
        #[source]
        reason: StopReason,
    },
    /// Its address is no address.
    #[error("the base URL of {provider} is not one: {why}")]
    BaseUrl {
        /// Whose.
        provider: String,
        /// What is wrong with it.
        why: String,
    },
    /// It was not reached, or the connection broke.
    #[error("cannot reach {provider}")]
    Connection {
        /// Who was called.
        provider: String,
        /// What the network says.
        #[source]
        source: BoxError,
    },
    /// It did not answer in time.
    #[error("{provider} did not answer within {limit:?}")]
    Timeout {
        /// Who was called.
        provider: String,
        /// How long it had.
        limit: Duration,
    },
    /// It refused.
    #[error("{provider} answered {status}: {message}")]
    Status {
        /// Who was called.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// It answered more than [`PROVIDER_RESPONSE_BYTES`](crate::limits::PROVIDER_RESPONSE_BYTES).
    #[error("the answer of {provider} is too long")]
    TooLong {
        /// Who was called.
        provider: String,
    },
    /// Its answer is not what its API promises.
    #[error("the answer of {provider} cannot be read")]
    Unreadable {
        /// Who was called.
        provider: String,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// A scripted provider has no turn left.
    #[error("the script of {turns} turns is exhausted")]
    ScriptExhausted {
        /// How many turns it had.
        turns: usize,
    },
    /// Anything else.
    #[error(transparent)]
    Other(BoxError),
}

/// There is no credential for a provider, or no such provider.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", self.sentence())]
pub struct ProviderCredentialsError {
    /// The provider that was asked for; None when any would have done.
    pub provider: Option<String>,
    /// The variable of the host that would have been enough.
    pub env_var: Option<&'static str>,
    /// Where in the selection its credential goes.
    pub slot: Option<&'static str>,
}

impl ProviderCredentialsError {
    fn sentence(&self) -> String {
        match (&self.provider, self.env_var, self.slot) {
            (Some(provider), Some(variable), Some(slot)) => {
                format!("no credential for {provider}: set {variable} or pass {slot}")
            }
            (Some(provider), Some(variable), None) => format!("{provider} needs {variable}"),
            (Some(provider), ..) => format!("there is no provider {provider:?}"),
            (None, ..) => "no credential for any provider: set ANTHROPIC_API_KEY, OPENAI_API_KEY or \
                           OPENROUTER_API_KEY, or pass one of credentials.{anthropic,openai,openrouter}"
                .into(),
        }
    }
}

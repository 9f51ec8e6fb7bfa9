//! Models of any kind behind one arrow: a request goes in, a result in a common envelope comes out.
//!
//! A chat model is one kind among several. What a kind's requests and results are is its own business; shared are the
//! envelope, the declared capabilities, the context of a call and the probe. Capabilities are checked, never assumed:
//! asking for one that a model does not declare is an error before the model is called.

mod chat;
mod middleware;
mod registry;
mod stream;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

pub use futures_util::future::BoxFuture;
use serde_json::Value;
use thiserror::Error;

use crate::log::Log;
use crate::provider::ProviderError;
use crate::stop::{Stop, StopReason};
use crate::usage::Usage;

pub use chat::{CHAT_KIND, ChatModel, IntoChatModel, chat_model, chat_model_with};
pub use middleware::{
    Call, Correlation, ErrorMapping, HealthTracking, Logging, Middleware, Next, with_middleware,
};
pub use registry::{ModelRef, ModelRegistry, RegistryError};
pub use stream::{StreamSink, emit_whole_call, invoke_streaming};

/// An error of somebody else's making.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A model as it is handed around.
pub type SharedModel<Req, Res> = Arc<dyn ModelInvocation<Req, Res>>;

/// One model of one kind.
pub trait ModelInvocation<Req, Res>: Send + Sync {
    /// Which model of its kind.
    fn id(&self) -> &str;

    /// What kind of model, such as `chat`, `vision.detect`, `audio.asr`. Any text.
    fn kind(&self) -> &str;

    /// What it can do.
    fn caps(&self) -> ModelCaps;

    /// Asks it.
    fn invoke<'a>(&'a self, request: Req, context: &'a InvokeContext) -> Invoked<'a, Res>;

    /// Asks it and hears of the answer piece by piece; None if it cannot. Call
    /// [`invoke_streaming`], which checks what the model declares.
    fn invoke_stream<'a>(
        &'a self,
        _request: Req,
        _sink: &'a dyn StreamSink,
        _context: &'a InvokeContext,
    ) -> Option<Invoked<'a, Res>> {
        None
    }

    /// How it is. Never a guess: what was not looked at is [`Status::Unknown`].
    fn probe(&self) -> BoxFuture<'_, Health> {
        Box::pin(std::future::ready(Health::unknown("this model has no probe")))
    }
}

/// A call of a model under way.
pub type Invoked<'a, Res> = BoxFuture<'a, Result<ModelResult<Res>, ModelError>>;

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelCaps {
    /// It answers piece by piece.
    pub streaming: bool,
    /// It asks for tools.
    pub tools: bool,
    /// It takes more than text.
    pub multimodal_input: bool,
    /// It reports what it used.
    pub usage: bool,
}

/// An answer in its envelope.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResult<Res> {
    /// The answer.
    pub value: Res,
    /// What it used, where the model reports it.
    pub usage: Option<Usage>,
    /// Anything else.
    pub meta: Option<Value>,
}

impl<Res> ModelResult<Res> {
    /// An answer and nothing else.
    #[must_use]
    pub fn of(value: Res) -> Self {
        Self { value, usage: None, meta: None }
    }
}

/// What goes with a call.
#[derive(Debug, Clone, Default)]
pub struct InvokeContext {
    /// Where to say what happens.
    pub log: Log,
    /// Ends the call.
    pub stop: Stop,
    /// What ties this call to others.
    pub correlation_id: Option<String>,
    /// How long the call may take.
    pub max_duration: Option<Duration>,
}

/// How a model is.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// In one word.
    pub status: Status,
    /// In a sentence.
    pub detail: Option<String>,
    /// Anything else.
    pub meta: Option<Value>,
}

impl Health {
    /// It was not looked at, and why.
    #[must_use]
    pub fn unknown(detail: impl Into<String>) -> Self {
        Self { status: Status::Unknown, detail: Some(detail.into()), meta: None }
    }
}

/// How a model is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It answers.
    Up,
    /// It does not.
    Down,
    /// It answers badly.
    Degraded,
    /// Nobody knows.
    Unknown,
}

/// A model was asked for what it does not declare.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the {kind} model {id} cannot do {capability}{}", .detail.as_deref().map(|it| format!(": {it}")).unwrap_or_default())]
pub struct CapabilityError {
    /// The kind of model.
    pub kind: String,
    /// Which one.
    pub id: String,
    /// The capability, by its field in [`ModelCaps`].
    pub capability: &'static str,
    /// More about it.
    pub detail: Option<String>,
}

/// Why a model gave no answer.
#[derive(Debug, Error)]
pub enum ModelError {
    /// It cannot do that. It was not called.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// Its provider gave none.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The call was stopped.
    #[error("the model call was stopped")]
    Stopped(#[from] StopReason),
    /// It took longer than its caller allowed.
    #[error("the model did not answer within {0:?}")]
    Overtime(Duration),
    /// A middleware neither called the model nor failed.
    #[error("a middleware ended the call without an answer")]
    NoAnswer,
    /// Anything else.
    #[error(transparent)]
    Other(BoxError),
}

impl ModelError {
    /// An error of the model's own.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::Other(error.into())
    }

    /// Whether this error only says that the call was stopped, however deep.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        match self {
            Self::Other(error) | Self::Provider(ProviderError::Other(error)) => is_stop(&**error),
            _ => is_stop(self),
        }
    }
}

/// Whether `error`, or what caused it, is a [`StopReason`].
#[must_use]
pub fn is_stop(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<StopReason>() {
            return true;
        }
        cause = error.source();
    }
    false
}

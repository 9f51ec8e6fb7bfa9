//! A provider of language models as a model of the kind `chat`.
//!
//! Checks what the request needs against what the model declares, before the provider hears of it, and lifts the usage
//! into the envelope.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{
    CapabilityError, Health, InvokeContext, Invoked, ModelCaps, ModelError, ModelInvocation, ModelResult,
    SharedModel, StreamSink,
};
use crate::message::AgentMessage;
use crate::provider::{ConverseOptions, ConverseRequest, ConverseResult, Provider, ProviderError};
use crate::usage::Usage;

/// The kind of a language model.
pub const CHAT_KIND: &str = "chat";

/// A language model.
pub type ChatModel = SharedModel<ConverseRequest, ConverseResult>;

/// A provider as a chat model that declares tools, and usage if the provider reports it. More, such as streaming, is for
/// the caller to declare with [`chat_model_with`].
pub fn chat_model(provider: Arc<dyn Provider>) -> ChatModel {
    let caps =
        ModelCaps { streaming: false, tools: true, multimodal_input: false, usage: provider.reports_usage() };
    chat_model_with(provider, caps)
}

/// A provider as a chat model with these capabilities.
pub fn chat_model_with(provider: Arc<dyn Provider>, caps: ModelCaps) -> ChatModel {
    Arc::new(Chat { provider, caps })
}

/// Whatever can serve as a chat model: one, or a provider.
pub trait IntoChatModel {
    /// As a chat model.
    fn into_chat_model(self) -> ChatModel;
}

impl IntoChatModel for ChatModel {
    fn into_chat_model(self) -> ChatModel {
        self
    }
}

impl IntoChatModel for Arc<dyn Provider> {
    fn into_chat_model(self) -> ChatModel {
        chat_model(self)
    }
}

impl<P: Provider + 'static> IntoChatModel for Arc<P> {
    fn into_chat_model(self) -> ChatModel {
        chat_model(self)
    }
}

struct Chat {
    provider: Arc<dyn Provider>,
    caps: ModelCaps,
}

impl Chat {
    fn check(&self, request: &ConverseRequest, context: &InvokeContext) -> Result<(), ModelError> {
        let cannot = |capability| CapabilityError {
            kind: CHAT_KIND.into(),
            id: self.id().to_owned(),
            capability,
            detail: None,
        };
        if !self.caps.tools && !request.tools.is_empty() {
            return Err(cannot("tools").into());
        }
        let is_more_than_text =
            |message: &AgentMessage| matches!(message, AgentMessage::User { parts, .. } if !parts.is_empty());
        if !self.caps.multimodal_input && request.messages.iter().any(is_more_than_text) {
            return Err(cannot("multimodal_input").into());
        }
        Ok(context.stop.check()?)
    }

    async fn finish(
        context: &InvokeContext,
        answer: BoxFuture<'_, Result<ConverseResult, ProviderError>>,
    ) -> Result<ModelResult<ConverseResult>, ModelError> {
        let value = match context.max_duration {
            Some(limit) => {
                tokio::time::timeout(limit, answer).await.map_err(|_elapsed| ModelError::Overtime(limit))?
            }
            None => answer.await,
        }?;
        let usage = value.usage.map(Usage::Token);
        Ok(ModelResult { value, usage, meta: None })
    }
}

impl ModelInvocation<ConverseRequest, ConverseResult> for Chat {
    fn id(&self) -> &str {
        self.provider.name()
    }

    fn kind(&self) -> &str {
        CHAT_KIND
    }

    fn caps(&self) -> ModelCaps {
        self.caps
    }

    fn invoke<'a>(
        &'a self,
        request: ConverseRequest,
        context: &'a InvokeContext,
    ) -> Invoked<'a, ConverseResult> {
        Box::pin(async move {
            self.check(&request, context)?;
            let options = ConverseOptions { stop: context.stop.clone() };
            Self::finish(context, self.provider.converse(&request, &options)).await
        })
    }

    fn invoke_stream<'a>(
        &'a self,
        request: ConverseRequest,
        sink: &'a dyn StreamSink,
        context: &'a InvokeContext,
    ) -> Option<Invoked<'a, ConverseResult>> {
        if !self.provider.streams() {
            return None;
        }
        Some(Box::pin(async move {
            self.check(&request, context)?;
            let options = ConverseOptions { stop: context.stop.clone() };
            Self::finish(context, self.provider.converse_streaming(&request, sink, &options)).await
        }))
    }

    fn probe(&self) -> BoxFuture<'_, Health> {
        let detail = format!("{} is known to answer only by asking it, which costs", self.provider.name());
        Box::pin(std::future::ready(Health::unknown(detail)))
    }
}

//! A model of any kind as a tool: a chat model may then ask for it, and nothing else has to know its kind.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::{Executing, Tool, ToolContext, ToolError, ToolMetadata, ToolOutput};
use crate::message::{JsonObject, ToolSpec};
use crate::model::{BoxError, InvokeContext, SharedModel};

/// A model as a tool.
pub struct ModelTool<Req, Res> {
    model: SharedModel<Req, Res>,
    spec: ToolSpec,
    meta: ToolMetadata,
    to_request: Box<dyn Fn(JsonObject) -> Result<Req, BoxError> + Send + Sync>,
    to_content: Option<ToContent<Res>>,
}

type ToContent<Res> = Box<dyn Fn(&Res) -> String + Send + Sync>;

/// A model as a tool. Its answer is the tool's structured output, and its JSON what the model that asked sees.
pub fn model_as_tool<Req, Res>(
    model: SharedModel<Req, Res>,
    spec: ToolSpec,
    to_request: impl Fn(JsonObject) -> Result<Req, BoxError> + Send + Sync + 'static,
) -> ModelTool<Req, Res> {
    ModelTool {
        model,
        spec,
        meta: ToolMetadata::default(),
        to_request: Box::new(to_request),
        to_content: None,
    }
}

impl<Req, Res> ModelTool<Req, Res> {
    /// The same tool with metadata.
    #[must_use]
    pub fn with_meta(mut self, meta: ToolMetadata) -> Self {
        self.meta = meta;
        self
    }

    /// The same tool, with other words for the model that asks.
    #[must_use]
    pub fn with_content(mut self, to_content: impl Fn(&Res) -> String + Send + Sync + 'static) -> Self {
        self.to_content = Some(Box::new(to_content));
        self
    }
}

impl<Req: Send + 'static, Res: Serialize + Send + 'static> Tool for ModelTool<Req, Res> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn meta(&self) -> &ToolMetadata {
        &self.meta
    }

    fn execute<'a>(&'a self, input: JsonObject, context: &'a ToolContext) -> Executing<'a> {
        Box::pin(async move {
            let request = (self.to_request)(input).map_err(ToolError::Failed)?;
            let invoke = InvokeContext {
                stop: context.stop.clone(),
                correlation_id: context.run_id.clone(),
                ..InvokeContext::default()
            };
            let answer = self.model.invoke(request, &invoke).await.map_err(ToolError::failed)?;
            let structured: Value = serde_json::to_value(&answer.value).map_err(ToolError::failed)?;
            let content = match &self.to_content {
                Some(to_content) => to_content(&answer.value),
                None => structured.to_string(),
            };
            Ok(ToolOutput::structured(content, structured))
        })
    }
}

impl<Req, Res> fmt::Debug for ModelTool<Req, Res> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelTool")
            .field("spec", &self.spec)
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

//! A tool made of a function, and the tool that gives a final answer.

use std::fmt;
use std::future::Future;

use super::{Dispatch, Executing, Tool, ToolContext, ToolError, ToolMetadata, ToolOutput};
use crate::message::{JsonObject, ToolSpec};

/// A tool made of a function.
pub struct FunctionTool {
    spec: ToolSpec,
    meta: ToolMetadata,
    function: Box<dyn Fn(JsonObject, ToolContext) -> Executing<'static> + Send + Sync>,
}

impl FunctionTool {
    /// The same tool with metadata.
    #[must_use]
    pub fn with_meta(mut self, meta: ToolMetadata) -> Self {
        self.meta = meta;
        self
    }
}

impl Tool for FunctionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn meta(&self) -> &ToolMetadata {
        &self.meta
    }

    fn execute<'a>(&'a self, input: JsonObject, context: &'a ToolContext) -> Executing<'a> {
        (self.function)(input, context.clone())
    }
}

impl fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool")
            .field("spec", &self.spec)
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

/// A tool made of an asynchronous function.
pub fn tool_fn<F, Fut, Out>(spec: ToolSpec, function: F) -> FunctionTool
where
    F: Fn(JsonObject, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Out, ToolError>> + Send + 'static,
    Out: Into<ToolOutput>,
{
    let function = move |input, context| -> Executing<'static> {
        let work = function(input, context);
        Box::pin(async move { work.await.map(Into::into) })
    };
    FunctionTool { spec, meta: ToolMetadata::default(), function: Box::new(function) }
}

/// A tool whose call is the final answer: the answer is the call's input, which is not checked against the schema.
#[must_use]
pub fn terminal_tool(spec: ToolSpec) -> FunctionTool {
    terminal_tool_with(spec, |_, _| async { Ok("ok") })
}

/// A tool whose call is the final answer once `function` accepts it. An error goes back to the model.
pub fn terminal_tool_with<F, Fut, Out>(spec: ToolSpec, function: F) -> FunctionTool
where
    F: Fn(JsonObject, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Out, ToolError>> + Send + 'static,
    Out: Into<ToolOutput>,
{
    let meta = ToolMetadata { dispatch: Some(Dispatch::Terminal), ..ToolMetadata::default() };
    tool_fn(spec, function).with_meta(meta)
}

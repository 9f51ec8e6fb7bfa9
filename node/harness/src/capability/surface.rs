//! The capabilities of one run as MCP has them, whichever way they are served.
//!
//! A handler that panics has failed: its caller is told so, and is not left waiting, nor when what follows a call panics.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{CapabilityError, CapabilityTool};
use crate::limits::SURFACE_CALLS;
use crate::message::JsonObject;

/// Something to do at a point of the conversation.
type Note = Arc<dyn Fn() + Send + Sync>;

/// The capabilities, for any number of connections.
#[derive(Clone)]
pub(super) struct Surface {
    tools: Arc<[CapabilityTool]>,
    contacted: Note,
    after_call: Option<Note>,
    room: Arc<Semaphore>,
    /// The place of this conversation, where they are counted.
    _seat: Option<Arc<OwnedSemaphorePermit>>,
}

impl Surface {
    /// These capabilities. `contacted` is called whenever somebody asks for the list of them.
    pub(super) fn new(tools: Vec<CapabilityTool>, contacted: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            tools: tools.into(),
            contacted: Arc::new(contacted),
            after_call: None,
            room: Arc::new(Semaphore::new(SURFACE_CALLS)),
            _seat: None,
        }
    }

    /// The same for one more conversation, which has its place until it ends.
    ///
    /// # Errors
    /// When no place is free.
    pub(super) fn seated(&self, seats: &Arc<Semaphore>) -> io::Result<Self> {
        let seat = seats.clone().try_acquire_owned();
        let seat = seat.map_err(|_| io::Error::other("too many conversations at once; end one"))?;
        Ok(Self { _seat: Some(Arc::new(seat)), ..self.clone() })
    }

    /// The same, with something to do after every call, before its caller hears of it.
    pub(super) fn with_after_call(mut self, after_call: impl Fn() + Send + Sync + 'static) -> Self {
        self.after_call = Some(Arc::new(after_call));
        self
    }

    async fn call(&self, name: &str, input: JsonObject) -> Result<serde_json::Value, CapabilityError> {
        let tool = self.tools.iter().find(|tool| tool.spec.name == name);
        let tool = tool.ok_or_else(|| CapabilityError(format!("there is no tool {name:?}")))?;
        let _place = self.room.try_acquire().map_err(|_| CapabilityError("too many calls at once".into()))?;
        let work = AssertUnwindSafe(async { (tool.handler)(input).await }).catch_unwind();
        work.await.unwrap_or_else(|_panic| Err(CapabilityError("the tool broke down".into())))
    }
}

impl ServerHandler for Surface {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("mesh-harness", crate::kernel_version()))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        (self.contacted)();
        let tool = |tool: &CapabilityTool| {
            let schema = tool.spec.input_schema.as_object().cloned().unwrap_or_default();
            Tool::new(tool.spec.name.clone(), tool.spec.description.clone(), schema)
        };
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = self.call(&request.name, request.arguments.unwrap_or_default());
        let done = context.ct.run_until_cancelled(call).await;
        if let Some(after_call) = &self.after_call
            && catch_unwind(AssertUnwindSafe(|| after_call())).is_err()
        {
            tracing::error!("what follows a call of a capability broke down");
        }
        let result = match done {
            Some(Ok(value)) => CallToolResult::success(vec![ContentBlock::text(value.to_string())]),
            Some(Err(CapabilityError(problem))) => {
                let body = json!({"ok": false, "error": problem});
                CallToolResult::error(vec![ContentBlock::text(body.to_string())])
            }
            None => return Err(ErrorData::internal_error("the call was cancelled", None)),
        };
        Ok(result.into())
    }
}

//! Hearing of an answer while it is made.
//!
//! Streaming is asked for or not; it is never imitated. A model that does not declare it is not called.

use serde_json::Value;

use super::{CapabilityError, InvokeContext, ModelError, ModelInvocation, ModelResult};

/// Hears of an answer piece by piece. Every method may be left out.
pub trait StreamSink: Send + Sync {
    /// More prose.
    fn text(&self, _delta: &str) {}
    /// A tool call begins.
    fn call_started(&self, _id: &str, _name: &str) {}
    /// More of a call's arguments, as they are spelled.
    fn call_delta(&self, _id: &str, _fragment: &str) {}
    /// A call is whole: its arguments as they were spelled.
    fn call_complete(&self, _id: &str, _name: &str, _arguments: &str) {}
}

/// Tells `sink` of a call whose arguments came whole: start, one piece, complete.
pub fn emit_whole_call(sink: &dyn StreamSink, id: &str, name: &str, arguments: &Value) {
    let text = arguments.to_string();
    sink.call_started(id, name);
    sink.call_delta(id, &text);
    sink.call_complete(id, name, &text);
}

/// Asks a model and hears of the answer piece by piece.
///
/// # Errors
/// A [`CapabilityError`] when the model does not declare streaming, or declares it and cannot; it is not called then.
pub async fn invoke_streaming<Req, Res>(
    model: &dyn ModelInvocation<Req, Res>,
    request: Req,
    sink: &dyn StreamSink,
    context: &InvokeContext,
) -> Result<ModelResult<Res>, ModelError> {
    let cannot = |detail: Option<&str>| CapabilityError {
        kind: model.kind().to_owned(),
        id: model.id().to_owned(),
        capability: "streaming",
        detail: detail.map(str::to_owned),
    };
    if !model.caps().streaming {
        return Err(cannot(None).into());
    }
    match model.invoke_stream(request, sink, context) {
        Some(answer) => answer.await,
        None => Err(cannot(Some("it is declared and not implemented")).into()),
    }
}

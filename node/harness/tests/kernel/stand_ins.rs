//! Tools, models and runs that tests share.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mesh_harness::agent_loop::AgentRun;
use mesh_harness::event::{RecordedEvents, record_run_events};
use mesh_harness::host::HostEnv;
use mesh_harness::message::{AgentMessage, JsonObject, ToolCall, ToolResult, ToolSpec};
use mesh_harness::model::StreamSink;
use mesh_harness::provider::{Script, ScriptedProvider, ScriptedTurn};
use mesh_harness::tool::{FunctionTool, SharedTool, ToolError, ToolOutput, tool_fn};
use serde_json::{Value, json};

/// The object that this JSON is.
pub(crate) fn object(value: Value) -> JsonObject {
    value.as_object().cloned().unwrap_or_default()
}

/// A call of a tool.
pub(crate) fn call(id: &str, name: &str, input: Value) -> ToolCall {
    ToolCall::new(id, name, object(input))
}

/// A turn that calls one tool.
pub(crate) fn calling(id: &str, name: &str) -> ScriptedTurn {
    ScriptedTurn::calls([call(id, name, json!({}))])
}

/// A spec without arguments.
pub(crate) fn spec(name: &str) -> ToolSpec {
    ToolSpec::new(name, format!("does {name}"), json!({"type": "object"}))
}

/// A tool that answers with a text, and how often it ran.
pub(crate) fn answering(name: &str, answer: &str) -> (SharedTool, Arc<AtomicUsize>) {
    let (tool, ran) = counted(name, answer);
    (Arc::new(tool), ran)
}

/// Like [`answering`], for who still wants to change it.
pub(crate) fn counted(name: &str, answer: &str) -> (FunctionTool, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let (counter, answer) = (ran.clone(), answer.to_owned());
    let tool = tool_fn(spec(name), move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        let answer = answer.clone();
        async move { Ok(answer) }
    });
    (tool, ran)
}

/// A tool that fails with these words.
pub(crate) fn failing(name: &str, error: &str) -> SharedTool {
    let error = error.to_owned();
    Arc::new(tool_fn(spec(name), move |_, _| {
        let error = error.clone();
        async move { Err::<ToolOutput, _>(ToolError::failed(error)) }
    }))
}

/// A scripted provider.
pub(crate) fn script<S: Into<Script>>(turns: impl IntoIterator<Item = S>) -> Arc<ScriptedProvider> {
    Arc::new(ScriptedProvider::new(turns))
}

/// A run of this provider with these tools, on a host without settings, and its events.
pub(crate) fn run(
    provider: &Arc<ScriptedProvider>,
    tools: impl IntoIterator<Item = SharedTool>,
) -> (AgentRun, RecordedEvents) {
    let (sink, events) = record_run_events();
    let mut run = AgentRun::new(provider.clone()).with_tools(tools).with_sink(sink);
    run.host = no_host();
    (run, events)
}

/// A host without settings.
pub(crate) fn no_host() -> HostEnv {
    HostEnv::fixed::<String, String>([])
}

/// What a mutex holds, also after a test panicked with it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The results that a message holds; none for another message.
pub(crate) fn results_of(message: &AgentMessage) -> &[ToolResult] {
    match message {
        AgentMessage::Tool { results } => results,
        _ => &[],
    }
}

/// Everything an error says and shows, down to its last cause.
pub(crate) fn all_words(error: &dyn Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text} {error} {error:?}");
        cause = error.source();
    }
    text
}

/// Writes down every piece of an answer.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<String>>);

impl Heard {
    /// What was heard so far.
    pub(crate) fn all(&self) -> Vec<String> {
        locked(&self.0).clone()
    }
}

impl StreamSink for Heard {
    fn text(&self, delta: &str) {
        locked(&self.0).push(format!("text {delta}"));
    }

    fn call_started(&self, id: &str, name: &str) {
        locked(&self.0).push(format!("start {id} {name}"));
    }

    fn call_delta(&self, _id: &str, fragment: &str) {
        locked(&self.0).push(format!("delta {fragment}"));
    }

    fn call_complete(&self, _id: &str, _name: &str, arguments: &str) {
        locked(&self.0).push(format!("complete {arguments}"));
    }
}

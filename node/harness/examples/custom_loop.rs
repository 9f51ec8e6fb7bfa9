//! A loop of one's own: it hands back before a tool that needs a person's agreement could run, and is still visibly a
//! run. `cargo run -p mesh-harness --example custom_loop`.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;

use mesh_harness::agent::{AgentEngine as _, EngineContext, EngineSelection, NativeEngine, RunSpec};
use mesh_harness::agent_loop::{Loop, LoopContext, LoopRequest, LoopResult, Looping, NativeLoop};
use mesh_harness::event::record_run_events;
use mesh_harness::host::HostEnv;
use mesh_harness::message::ToolSpec;
use mesh_harness::provider::ProviderSelection;
use mesh_harness::tool::{SharedTool, ToolMetadata, tool_fn, tools_requiring_confirmation};
use serde_json::json;

/// Waits for a person where a tool asks for one.
struct ConfirmFirst;

impl Loop for ConfirmFirst {
    fn name(&self) -> &'static str {
        "confirm-first"
    }

    fn run<'a>(&'a self, request: LoopRequest, context: &'a LoopContext) -> Looping<'a> {
        Box::pin(async move {
            let waiting = tools_requiring_confirmation(&request.tools);
            if waiting.is_empty() {
                return NativeLoop.run(request, context).await;
            }
            let names: Vec<&str> = waiting.iter().map(|tool| tool.spec().name.as_str()).collect();
            Ok(LoopResult::completed(format!("awaiting confirmation of {}", names.join(", ")), 0))
        })
    }
}

/// A tool that nobody wants to run by itself.
fn delete() -> SharedTool {
    let meta = ToolMetadata { requires_confirmation: Some(true), ..ToolMetadata::default() };
    let spec = ToolSpec::new("delete", "Deletes everything.", json!({"type": "object"}));
    Arc::new(tool_fn(spec, |_, _| async { Ok("gone") }).with_meta(meta))
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> anyhow::Result<()> {
    for (tools, expected) in
        [(vec![delete()], "awaiting confirmation of delete"), (Vec::new(), "This is the mock provider")]
    {
        let engine = NativeEngine::new(EngineSelection {
            domain_tools: Some(Arc::new(move |_| tools.clone())),
            control: Some(Arc::new(ConfirmFirst)),
            host: HostEnv::fixed::<String, String>([]),
            ..EngineSelection::default()
        });
        let mut spec = RunSpec { provider: ProviderSelection::of("mock"), ..RunSpec::default() };
        spec.workflow.prompt = "Tidy up.".into();
        let (sink, events) = record_run_events();
        let context = EngineContext { sink: Some(sink), ..EngineContext::default() };
        let result = engine.run(&spec, context).await?;
        println!("{} ({:?})", result.text, events.names());
        anyhow::ensure!(result.text.starts_with(expected));
        anyhow::ensure!(events.names().first() == Some(&"run.started"));
        anyhow::ensure!(events.names().last() == Some(&"run.finished"));
    }
    Ok(())
}

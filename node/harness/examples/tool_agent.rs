//! An agent with a tool and a final answer, played from a script: `cargo run -p mesh-harness --example tool_agent`.
//!
//! Another provider is one line away: `select_provider(&ProviderSelection::of("anthropic"), &HostEnv::process())`.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;

use mesh_harness::agent_loop::{AgentRun, run_conversation};
use mesh_harness::event::record_run_events;
use mesh_harness::message::{AgentMessage, ToolCall, ToolSpec};
use mesh_harness::outcome::LoopEnd;
use mesh_harness::provider::{Script, ScriptedProvider, ScriptedTurn};
use mesh_harness::tool::{SharedTool, ToolError, terminal_tool, tool_fn};
use serde_json::{Value, json};

/// Looks a balance up.
fn lookup() -> SharedTool {
    let schema = json!({"type": "object", "properties": {"account": {"type": "string"}}});
    Arc::new(tool_fn(ToolSpec::new("lookup", "The balance of an account.", schema), |input, _| async move {
        match input.get("account").and_then(Value::as_str) {
            Some("savings") => Ok("120.00"),
            _ => Err(ToolError::failed("there is no such account")),
        }
    }))
}

/// Gives the final answer.
fn reply() -> SharedTool {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    Arc::new(terminal_tool(ToolSpec::new("reply", "Answers the user.", schema)))
}

/// A call with one argument.
fn call(id: &str, tool: &str, field: &str, value: &str) -> ToolCall {
    ToolCall::new(id, tool, [(field.to_owned(), value.into())].into_iter().collect())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> anyhow::Result<()> {
    let script: [Script; 3] = [
        ScriptedTurn::calls([call("1", "lookup", "account", "current")]).into(),
        ScriptedTurn::calls([call("2", "lookup", "account", "savings")])
            .saying("I try the other one.")
            .into(),
        ScriptedTurn::calls([call("3", "reply", "text", "You have 120.00.")]).into(),
    ];
    let provider = Arc::new(ScriptedProvider::new(script));
    let (sink, events) = record_run_events();
    let run = AgentRun::new(provider.clone())
        .with_system("You look balances up.")
        .with_tools([lookup(), reply()])
        .with_sink(sink);
    let result = run_conversation(run, vec![AgentMessage::user("How much do I have?")]).await?;

    for event in events.all() {
        println!("{}", serde_json::to_string(&event)?);
    }
    anyhow::ensure!(result.end == LoopEnd::TerminalTool && provider.remaining() == 0);
    let answer = result.terminal.as_ref().and_then(|call| call.input.get("text"));
    anyhow::ensure!(answer == Some(&json!("You have 120.00.")));
    println!("{} steps, answer: {answer:?}", result.steps);
    Ok(())
}

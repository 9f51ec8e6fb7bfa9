//! A model of a kind the kernel has never heard of, registered, wrapped and used as a tool by a chat model:
//! `cargo run -p mesh-harness --example custom_model`.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;

use mesh_harness::agent_loop::{AgentRun, run_agent};
use mesh_harness::message::{AgentMessage, ToolCall, ToolSpec};
use mesh_harness::model::{
    HealthTracking, InvokeContext, Invoked, ModelCaps, ModelError, ModelInvocation, ModelRef, ModelRegistry,
    ModelResult, Status,
};
use mesh_harness::provider::{Script, ScriptedProvider, ScriptedTurn};
use mesh_harness::tool::{SharedTool, model_as_tool};
use mesh_harness::usage::Usage;
use serde::Serialize;
use serde_json::{Value, json};

/// Past values of a series.
struct Series(Vec<f64>);

/// What comes next.
#[derive(Serialize)]
struct Forecast {
    next: f64,
}

/// Goes on as the last step went.
struct Linear;

impl ModelInvocation<Series, Forecast> for Linear {
    fn id(&self) -> &'static str {
        "linear"
    }

    fn kind(&self) -> &'static str {
        "timeseries.forecast"
    }

    fn caps(&self) -> ModelCaps {
        ModelCaps { usage: true, ..ModelCaps::default() }
    }

    fn invoke<'a>(&'a self, request: Series, _: &'a InvokeContext) -> Invoked<'a, Forecast> {
        Box::pin(async move {
            let [.., before, last] = request.0[..] else {
                return Err(ModelError::other("two values are needed"));
            };
            let usage = Usage::Unit { units: 2.0, unit: Some("value".into()) };
            let value = Forecast { next: last + (last - before) };
            Ok(ModelResult { value, usage: Some(usage), meta: None })
        })
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> anyhow::Result<()> {
    let name = ModelRef::new("timeseries.forecast", "linear");
    let health = Arc::new(HealthTracking::default());
    let mut registry = ModelRegistry::new();
    registry.register::<Series, Forecast>(name.clone(), || Ok(Arc::new(Linear)))?;
    registry.wrap_all([health.clone() as _]);

    let schema = json!({"type": "object", "properties": {"values": {"type": "array"}}});
    let spec = ToolSpec::new("forecast", "The next value of a series.", schema);
    let forecast = model_as_tool(registry.resolve::<Series, Forecast>(&name)?, spec, |input| {
        let values = input.get("values").and_then(Value::as_array).ok_or("values are missing")?;
        Ok(Series(values.iter().filter_map(Value::as_f64).collect()))
    });

    let asks = ToolCall::new("1", "forecast", [("values".to_owned(), json!([1, 3]))].into_iter().collect());
    let script = [
        Script::from(ScriptedTurn::calls([asks])),
        Script::function(|request| match request.messages.last() {
            Some(AgentMessage::Tool { results }) => {
                let contents = results.iter().map(|result| result.content.as_str());
                ScriptedTurn::text(format!("The model says {}", contents.collect::<String>()))
            }
            _ => ScriptedTurn::text("Nobody answered."),
        }),
    ];
    let run = AgentRun::new(Arc::new(ScriptedProvider::new(script)));
    let run = run.with_tools([Arc::new(forecast) as SharedTool]);
    let answer = run_agent(run, "What comes after 1 and 3?").await?;
    println!("{answer}");
    anyhow::ensure!(answer == r#"The model says {"next":5.0}"#);
    anyhow::ensure!(health.of(&name).status == Status::Up);
    Ok(())
}

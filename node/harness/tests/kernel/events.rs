//! Run events: order, numbers, what they carry, and sinks that misbehave.

use std::sync::{Arc, Mutex};

use mesh_harness::agent_loop::{
    Loop, LoopContext, LoopRequest, LoopResult, Looping, NativeLoop, RunContext, RunError,
    resolve_loop_limits, run_agent, run_conversation, run_with_events,
};
use mesh_harness::event::{Budget, LoopEvent, RunEvent, RunEvents, SharedSink, record_run_events};
use mesh_harness::log::Log;
use mesh_harness::message::AgentMessage;
use mesh_harness::model::{BoxError, IntoChatModel as _};
use mesh_harness::provider::ScriptedTurn;
use mesh_harness::stop::Stop;
use mesh_harness::tool::{Replay, SharedTool, ToolMetadata, tool_fn};
use serde_json::{Value, json};

use crate::stand_ins::{answering, call, calling, counted, locked, no_host, run, script, spec};

fn lines() -> (Log, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    (Log::new(move |line| locked(&kept).push(line.to_owned())), lines)
}

fn request(tools: Vec<SharedTool>, turns: impl IntoIterator<Item = ScriptedTurn>) -> LoopRequest {
    LoopRequest {
        model: script(turns).into_chat_model(),
        system: "".into(),
        messages: vec![AgentMessage::user("go")],
        tools,
        limits: resolve_loop_limits(Default::default(), &no_host()),
        options: Arc::default(),
    }
}

#[tokio::test]
async fn a_run_is_told_from_its_start_to_its_end_without_gaps() -> anyhow::Result<()> {
    let provider = script([calling("a", "look"), ScriptedTurn::text("done")]);
    let (run, events) = run(&provider, [answering("look", "found").0]);
    run_agent(run, "go").await?;
    assert_eq!(
        events.names(),
        ["run.started", "model.turn", "tool.called", "tool.succeeded", "model.turn", "run.finished"]
    );
    let events = events.all();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert!(events.iter().all(|event| event.at > 1_600_000_000_000));

    let values: Vec<Value> = events.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    assert_eq!(values[0]["tools"], json!(["look"]));
    assert_eq!((&values[0]["max_steps"], &values[0]["max_duration_ms"]), (&json!(12), &json!(600_000)));
    assert_eq!(values[1]["tool_calls"], json!([{"id": "a", "name": "look"}]));
    assert_eq!(values[1]["finish_reason"], "tool_calls");
    assert_eq!((&values[3]["call_id"], &values[3]["bytes"]), (&json!("a"), &json!(5)));
    assert_eq!((&values[5]["text"], &values[5]["steps"]), (&json!("done"), &json!(2)));
    for (value, event) in values.into_iter().zip(events) {
        assert_eq!(serde_json::from_value::<RunEvent>(value)?, event, "what is stored can be read again");
    }
    Ok(())
}

#[tokio::test]
async fn a_sink_that_panics_or_fails_changes_nothing_but_the_log() -> anyhow::Result<()> {
    let panics: SharedSink = Arc::new(|_: RunEvent| -> Result<(), BoxError> { panic!("a broken sink") });
    let fails: SharedSink =
        Arc::new(|_: RunEvent| -> Result<(), BoxError> { Err("the disk is full".into()) });
    for sink in [panics, fails] {
        let provider = script([calling("a", "look"), ScriptedTurn::text("done")]);
        let (mut run, _) = run(&provider, [answering("look", "x").0]);
        let (log, said) = lines();
        run.log = log;
        let result = run_conversation(run.with_sink(sink), vec![AgentMessage::user("go")]).await?;
        assert_eq!(result.text, "done");
        assert_eq!(locked(&said).len(), 6);
        assert_eq!(result.events.last().map(|event| event.seq), Some(5), "numbers go on");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_sink_does_to_its_copy_reaches_no_tool() -> anyhow::Result<()> {
    let seen = Arc::new(Mutex::new(Value::Null));
    let kept = seen.clone();
    let look = tool_fn(spec("look"), move |input, _| {
        *locked(&kept) = Value::Object(input);
        async { Ok("x") }
    });
    let sink: SharedSink = Arc::new(|mut event: RunEvent| -> Result<(), BoxError> {
        if let mesh_harness::event::RunEventKind::Loop(LoopEvent::ToolCalled { input, .. }) = &mut event.what
        {
            input.clear();
        }
        Ok(())
    });
    let turns = [ScriptedTurn::calls([call("a", "look", json!({"q": 1}))]), ScriptedTurn::text("done")];
    let (run, _) = run(&script(turns), [Arc::new(look) as SharedTool]);
    run_agent(run.with_sink(sink), "go").await?;
    assert_eq!(*locked(&seen), json!({"q": 1}));
    Ok(())
}

#[tokio::test]
async fn claims_of_a_tool_are_copied_only_where_it_makes_them() -> anyhow::Result<()> {
    let meta = ToolMetadata {
        reversible: Some(false),
        undo_window_seconds: Some(30),
        replay: Some(Replay::Safe),
        ..ToolMetadata::default()
    };
    let claiming: SharedTool = Arc::new(counted("claiming", "x").0.with_meta(meta));
    let calls = [call("a", "claiming", json!({})), call("b", "plain", json!({}))];
    let provider = script([ScriptedTurn::calls(calls), ScriptedTurn::text("done")]);
    let (run, events) = run(&provider, [claiming, answering("plain", "x").0]);
    run_agent(run, "go").await?;

    let values: Vec<Value> = events.all().iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    let of = |name: &str, kind: &str| {
        values
            .iter()
            .find(|value| value["type"] == kind && value["name"] == name)
            .cloned()
            .unwrap_or_default()
    };
    for kind in ["tool.called", "tool.succeeded"] {
        let claiming = of("claiming", kind);
        assert_eq!(claiming["reversible"], false);
        assert_eq!((&claiming["undo_window_seconds"], &claiming["replay"]), (&json!(30), &json!("safe")));
        assert!(claiming.get("undo_tool_name").is_none());
        let plain = of("plain", kind);
        assert!(["reversible", "undo_window_seconds", "replay"].iter().all(|key| plain.get(key).is_none()));
    }
    Ok(())
}

/// Emits an event of its own around the native loop.
struct Framed;

impl Loop for Framed {
    fn name(&self) -> &'static str {
        "framed"
    }

    fn run<'a>(&'a self, request: LoopRequest, context: &'a LoopContext) -> Looping<'a> {
        Box::pin(async move {
            context.events.emit(LoopEvent::BudgetExhausted { kind: Budget::Steps, step: 0 });
            let result = NativeLoop.run(request, context).await;
            context.events.emit(LoopEvent::BudgetExhausted { kind: Budget::Steps, step: 1 });
            result
        })
    }
}

#[tokio::test]
async fn a_loop_around_the_native_one_shares_its_numbers() -> anyhow::Result<()> {
    let (sink, events) = record_run_events();
    let emitter = RunEvents::new(Some(sink), Log::silent());
    run_with_events(&Framed, request(vec![], [ScriptedTurn::text("hi")]), &emitter, RunContext::default())
        .await?;
    let own = "run.budget_exhausted";
    assert_eq!(events.names(), ["run.started", own, "model.turn", own, "run.finished"]);
    assert_eq!(events.all().iter().map(|event| event.seq).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    Ok(())
}

/// Emits nothing; ends as it is told.
struct Silent(fn(&LoopContext) -> Result<LoopResult, RunError>);

impl Loop for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn run<'a>(&'a self, _: LoopRequest, context: &'a LoopContext) -> Looping<'a> {
        Box::pin(async move { (self.0)(context) })
    }
}

#[tokio::test]
async fn the_last_event_says_how_any_loop_ended() -> anyhow::Result<()> {
    type Ending = fn(&LoopContext) -> Result<LoopResult, RunError>;
    let endings: [(Ending, &str, bool); 3] = [
        (|_| Ok(LoopResult::completed("hi", 0)), "completed", false),
        (|_| Err(RunError::other("it broke")), "failed", true),
        (
            |context| Err(context.stop.check().map_err(RunError::other).expect_err("it fired"))?,
            "canceled",
            true,
        ),
    ];
    for (ending, outcome, has_error) in endings {
        let (sink, events) = record_run_events();
        let emitter = RunEvents::new(Some(sink), Log::silent());
        let stop = Stop::new();
        stop.cancel("enough");
        let context = RunContext { stop, ..RunContext::default() };
        let ended = run_with_events(&Silent(ending), request(vec![], []), &emitter, context).await;
        assert_eq!(ended.is_err(), has_error);
        assert_eq!(events.names(), ["run.started", "run.finished"]);
        let last = serde_json::to_value(&events.all()[1])?;
        assert_eq!((&last["outcome"], last.get("error").is_some()), (&json!(outcome), has_error));
        assert_eq!(last.get("steps").is_some(), !has_error);
    }
    Ok(())
}

#[tokio::test]
async fn a_loop_that_panics_is_a_run_that_failed() {
    let (sink, events) = record_run_events();
    let emitter = RunEvents::new(Some(sink), Log::silent());
    let task = tokio::spawn(async move {
        let broken = Silent(|_| panic!("a broken loop"));
        run_with_events(&broken, request(vec![], []), &emitter, RunContext::default()).await
    });
    assert!(task.await.is_err_and(|error| error.is_panic()), "the panic goes on");
    let last = serde_json::to_value(events.all().last()).expect("an event");
    assert_eq!((&last["type"], &last["outcome"]), (&json!("run.finished"), &json!("failed")));
}

#[tokio::test]
async fn a_run_that_nobody_watches_counts_all_the_same() -> anyhow::Result<()> {
    let provider = script([ScriptedTurn::text("hi")]);
    let (mut run, _) = run(&provider, []);
    run.sink = None;
    let result = run_conversation(run, vec![AgentMessage::user("go")]).await?;
    assert_eq!(result.events.iter().map(|event| event.seq).collect::<Vec<_>>(), [0, 1, 2]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_run_that_its_caller_drops_has_ended() {
    let never = tool_fn(spec("never"), |_, _| async {
        std::future::pending::<()>().await;
        Ok("never")
    });
    let (run, events) = run(&script([calling("a", "never")]), [Arc::new(never) as SharedTool]);
    let limit = std::time::Duration::from_secs(1);
    assert!(tokio::time::timeout(limit, run_agent(run, "go")).await.is_err());
    assert_eq!(events.names(), ["run.started", "model.turn", "tool.called", "run.finished"]);
    let last = serde_json::to_value(events.all().last()).expect("an event");
    assert_eq!((&last["outcome"], last.get("steps")), (&json!("canceled"), None));
}

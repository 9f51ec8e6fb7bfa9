//! Stops: which came first, what still happens, and what no longer does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mesh_harness::agent_loop::{AgentRun, ConversationResult, RunError, run_conversation};
use mesh_harness::event::{EventSink, RunEvent, RunEventKind};
use mesh_harness::limits::IN_FLIGHT_GRACE;
use mesh_harness::message::AgentMessage;
use mesh_harness::model::BoxError;
use mesh_harness::outcome::{LoopEnd, Outcome};
use mesh_harness::provider::{
    ConverseOptions, ConverseRequest, ConverseResult, Conversing, Provider, ProviderError, Script,
    ScriptedTurn,
};
use mesh_harness::stop::Stop;
use mesh_harness::tool::{SharedTool, ToolError, ToolOutput, tool_fn};
use mesh_harness::usage::{Cost, TokenUsage, Usage};
use serde_json::json;
use tokio::time::Instant;

use crate::stand_ins::{answering, call, calling, locked, results_of, run, script, spec};

/// A model that never answers its second call.
struct Hangs {
    calls: AtomicUsize,
    heeds: bool,
}

impl Provider for Hangs {
    fn name(&self) -> &'static str {
        "hangs"
    }

    fn converse<'a>(&'a self, _: &'a ConverseRequest, options: &'a ConverseOptions) -> Conversing<'a> {
        Box::pin(async move {
            if self.calls.fetch_add(1, Ordering::SeqCst) == 0 {
                let tool_calls = vec![call("a", "look", json!({}))];
                return Ok(ConverseResult { text: "looking".into(), tool_calls, ..Default::default() });
            }
            if self.heeds {
                let reason = options.stop.fired().await;
                return Err(ProviderError::Stopped { provider: "hangs".into(), reason });
            }
            std::future::pending().await
        })
    }
}

fn hangs(heeds: bool) -> Arc<Hangs> {
    Arc::new(Hangs { calls: AtomicUsize::new(0), heeds })
}

fn user() -> Vec<AgentMessage> {
    vec![AgentMessage::user("go")]
}

fn assert_no_call_dangles(result: &ConversationResult) {
    for pair in result.messages.windows(2) {
        if let [AgentMessage::Assistant { tool_calls, .. }, next] = pair
            && !tool_calls.is_empty()
        {
            assert_eq!(results_of(next).len(), tool_calls.len());
        }
    }
    if let Some(AgentMessage::Assistant { tool_calls, .. }) = result.messages.last() {
        assert!(tool_calls.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_in_the_middle_of_a_call_is_a_clean_end() -> anyhow::Result<()> {
    let provider = hangs(true);
    let (scripted, events) = run(&script([ScriptedTurn::text("")]), [answering("look", "x").0]);
    let run = AgentRun { model: AgentRun::new(provider.clone()).model, ..scripted };
    let stop = run.stop.clone();
    let canceling = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel("the user left");
    };
    let (result, ()) = tokio::join!(run_conversation(run, user()), canceling);
    let result = result?;

    assert_eq!((result.outcome, result.end, result.steps), (Outcome::Canceled, LoopEnd::Canceled, 1));
    assert_eq!(result.text, "looking\n\n[the run was stopped: canceled: the user left]");
    assert_eq!(provider.calls.load(Ordering::SeqCst), 2, "and no summary");
    assert!(!events.names().contains(&"run.budget_exhausted"));
    let last = serde_json::to_value(events.all().last())?;
    assert_eq!((&last["outcome"], &last["steps"]), (&json!("canceled"), &json!(1)));
    assert_no_call_dangles(&result);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deadline_waits_for_no_call_that_hangs() -> anyhow::Result<()> {
    for (heeds, longest) in [(true, Duration::ZERO), (false, IN_FLIGHT_GRACE)] {
        let (scripted, events) = run(&script([ScriptedTurn::text("")]), [answering("look", "x").0]);
        let mut run = AgentRun { model: AgentRun::new(hangs(heeds)).model, ..scripted };
        run.limits.max_duration_ms = Some(100);
        let started = Instant::now();
        let result = run_conversation(run, user()).await?;

        let took = started.elapsed();
        assert!(took <= Duration::from_millis(102) + longest, "{took:?}");
        assert_eq!((result.outcome, result.end), (Outcome::TimedOut, LoopEnd::TimedOut));
        assert!(result.text.contains("the time limit of 100ms was reached"), "{}", result.text);
        let budget = events.all().into_iter().find(|event| event.name() == "run.budget_exhausted");
        assert_eq!(serde_json::to_value(budget)?["kind"], "duration");
    }
    Ok(())
}

#[tokio::test]
async fn a_stop_before_the_start_asks_no_model() -> anyhow::Result<()> {
    let provider = script([ScriptedTurn::text("hi")]);
    let (first, _) = run(&provider, []);
    first.stop.cancel("never mind");
    let result = run_conversation(first, user()).await?;
    assert_eq!((result.outcome, result.steps), (Outcome::Canceled, 0));

    let (mut second, _) = run(&provider, []);
    second.limits.max_duration_ms = Some(-1);
    let result = run_conversation(second, user()).await?;
    assert_eq!((result.outcome, result.steps), (Outcome::TimedOut, 0));
    assert_eq!(provider.requests().len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_deaf_model_is_heard_and_its_tools_are_not_run() -> anyhow::Result<()> {
    let stop = Stop::new();
    let cancel = stop.clone();
    let provider = script([Script::function(move |_| {
        cancel.cancel("while it thought");
        calling("a", "look").saying("late")
    })]);
    let (look, ran) = answering("look", "x");
    let (mut run, events) = run(&provider, [look]);
    run.stop = stop;
    let result = run_conversation(run, user()).await?;

    assert_eq!((result.outcome, ran.load(Ordering::SeqCst)), (Outcome::Canceled, 0));
    assert!(result.text.starts_with("late\n"), "{}", result.text);
    assert_eq!(events.names(), ["run.started", "model.turn", "run.finished"]);
    assert_no_call_dangles(&result);
    Ok(())
}

#[tokio::test]
async fn a_deaf_model_that_gives_its_last_answer_is_still_canceled() -> anyhow::Result<()> {
    let stop = Stop::new();
    let cancel = stop.clone();
    let provider = script([Script::function(move |_| {
        cancel.cancel("too late");
        ScriptedTurn::text("the answer")
    })]);
    let (mut run, _) = run(&provider, []);
    run.stop = stop;
    let result = run_conversation(run, user()).await?;
    assert_eq!(result.outcome, Outcome::Canceled);
    assert!(result.text.starts_with("the answer\n"));
    Ok(())
}

#[tokio::test]
async fn an_error_that_merely_coincides_with_a_stop_is_an_error() {
    let stop = Stop::new();
    let cancel = stop.clone();
    let provider = script([Script::Function(Box::new(move |_| {
        cancel.cancel("at the same moment");
        Err(ProviderError::Other("the disk is full".into()))
    }))]);
    let (mut run, events) = run(&provider, []);
    run.stop = stop;
    let error = run_conversation(run, user()).await.expect_err("the disk is full");
    assert!(matches!(error, RunError::Model(_)) && error.to_string() == "the disk is full");
    let last = serde_json::to_value(events.all().last()).expect("an event");
    assert_eq!(last["outcome"], "failed");
}

/// A tool that stops its own run and then ends in the given way.
fn stops_run(stop: &Stop, own_failure: bool) -> SharedTool {
    let stop = stop.clone();
    Arc::new(tool_fn(spec("stops"), move |_, context| {
        stop.cancel("by a tool");
        async move {
            if own_failure {
                return Err(ToolError::failed("out of paper"));
            }
            context.stop.check()?;
            Ok(ToolOutput::text("unreachable"))
        }
    }))
}

#[tokio::test]
async fn a_tool_that_fails_because_of_the_stop_was_aborted_and_its_own_failure_is_its_own()
-> anyhow::Result<()> {
    for (own_failure, reason) in [(false, "aborted"), (true, "threw")] {
        let calls = [call("a", "stops", json!({})), call("b", "look", json!({}))];
        let provider = script([ScriptedTurn::calls(calls)]);
        let stop = Stop::new();
        let (look, ran) = answering("look", "x");
        let (mut run, events) = run(&provider, [stops_run(&stop, own_failure), look]);
        run.stop = stop;
        let result = run_conversation(run, user()).await?;

        assert_eq!((result.outcome, ran.load(Ordering::SeqCst)), (Outcome::Canceled, 0));
        let failed: Vec<_> = events.all().into_iter().filter(|event| event.name() == "tool.failed").collect();
        assert_eq!(failed.len(), 1, "the second call never started");
        assert_eq!(serde_json::to_value(&failed[0])?["reason"], reason);
        assert_no_call_dangles(&result);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_is_dropped() -> anyhow::Result<()> {
    let provider = script([calling("a", "hangs")]);
    let hangs = tool_fn(spec("hangs"), |_, _| async {
        std::future::pending::<()>().await;
        Ok("never")
    });
    let (mut run, events) = run(&provider, [Arc::new(hangs) as SharedTool]);
    run.limits.max_duration_ms = Some(2_000);
    let started = Instant::now();
    let result = run_conversation(run, user()).await?;
    assert!(started.elapsed() < Duration::from_secs(3));
    assert_eq!(result.outcome, Outcome::TimedOut);
    let failed = events.all().into_iter().find(|event| event.name() == "tool.failed");
    assert_eq!(serde_json::to_value(failed)?["reason"], "aborted");
    assert_no_call_dangles(&result);
    Ok(())
}

#[tokio::test]
async fn a_stop_during_the_summary_is_the_outcome() -> anyhow::Result<()> {
    let stop = Stop::new();
    let cancel = stop.clone();
    let provider = script([
        Script::from(calling("a", "look")),
        Script::function(move |_| {
            cancel.cancel("no more");
            ScriptedTurn::text("in short")
        }),
    ]);
    let (mut run, _) = run(&provider, [answering("look", "x").0]);
    run.stop = stop;
    let result = run_conversation(run.with_max_steps(1), user()).await?;
    assert_eq!((result.outcome, result.steps), (Outcome::Canceled, 1));
    assert!(result.text.starts_with("in short\n"));
    Ok(())
}

/// Stops the run when it has cost more than this.
struct CostCap {
    cap: f64,
    stop: Stop,
    spent: std::sync::Mutex<f64>,
}

impl EventSink for CostCap {
    fn emit(&self, event: RunEvent) -> Result<(), BoxError> {
        if let RunEventKind::Loop(mesh_harness::event::LoopEvent::ModelTurn { usage, .. }) = event.what
            && let Some(Usage::Token(TokenUsage { reported_cost: Some(cost), .. })) = usage
        {
            let mut spent = locked(&self.spent);
            *spent += cost.amount;
            if *spent > self.cap {
                self.stop.cancel("too expensive");
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_sink_may_enforce_a_cap_on_the_cost() -> anyhow::Result<()> {
    let turn = |id| {
        let usage = TokenUsage { reported_cost: Cost::usd(0.6), ..TokenUsage::new(1, 1) };
        calling(id, "look").using(usage)
    };
    let provider = script([turn("a"), turn("b"), turn("c")]);
    let (look, ran) = answering("look", "x");
    let (mut run, _) = run(&provider, [look]);
    run.sink = Some(Arc::new(CostCap { cap: 1.0, stop: run.stop.clone(), spent: Default::default() }));
    let result = run_conversation(run, user()).await?;

    assert_eq!((result.outcome, provider.requests().len()), (Outcome::Canceled, 2));
    assert_eq!(ran.load(Ordering::SeqCst), 1, "not the tools of the turn that was too much");
    Ok(())
}

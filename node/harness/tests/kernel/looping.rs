//! The native loop: steps, budgets, the summary, results of tools, and loops of one's own.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use mesh_harness::agent_loop::{
    Loop, LoopContext, LoopRequest, LoopResult, Looping, NativeLoop, RunContext, RunError,
    resolve_loop_limits, run_agent, run_conversation, run_with_events,
};
use mesh_harness::event::{RunEvents, record_run_events};
use mesh_harness::host::HostEnv;
use mesh_harness::log::Log;
use mesh_harness::message::AgentMessage;
use mesh_harness::model::{IntoChatModel as _, ModelError};
use mesh_harness::outcome::{LoopEnd, Outcome};
use mesh_harness::provider::{ProviderError, Script, ScriptedTurn};
use mesh_harness::tool::{ToolMetadata, ToolOutput, tool_fn};
use mesh_harness::usage::{Cost, FinishReason, TokenUsage};
use serde_json::json;

use crate::stand_ins::{
    answering, call, calling, counted, failing, locked, no_host, results_of, run, script, spec,
};

fn results(message: &AgentMessage) -> Vec<(&str, bool)> {
    results_of(message).iter().map(|result| (result.content.as_str(), result.is_error)).collect()
}

#[tokio::test]
async fn steps_used_up_end_in_a_summary_without_tools() -> anyhow::Result<()> {
    let turns = [calling("a", "look"), calling("b", "look"), ScriptedTurn::text("found nothing")];
    let provider = script(turns);
    let (look, ran) = answering("look", "nothing");
    let (run, events) = run(&provider, [look]);
    let result = run_conversation(run.with_max_steps(2), vec![AgentMessage::user("search")]).await?;

    assert_eq!((result.steps, result.outcome), (2, Outcome::StepsExhausted));
    assert_eq!((result.end, result.text.as_str()), (LoopEnd::StepsExhausted, "found nothing"));
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    let tools: Vec<usize> = provider.requests().iter().map(|request| request.tools.len()).collect();
    assert_eq!(tools, [1, 1, 0]);
    assert_eq!(
        events.names(),
        [
            "run.started",
            "model.turn",
            "tool.called",
            "tool.succeeded",
            "model.turn",
            "tool.called",
            "tool.succeeded",
            "run.budget_exhausted",
            "model.turn",
            "run.finished"
        ]
    );
    let events: Vec<_> = events.all().iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    assert_eq!((&events[7]["kind"], &events[7]["step"]), (&json!("steps"), &json!(1)));
    assert_eq!((&events[8]["step"], &events[8]["tool_calls"]), (&json!(2), &json!([])));
    assert_eq!(events[9]["outcome"], "steps_exhausted");
    Ok(())
}

#[tokio::test]
async fn a_summary_that_fails_leaves_the_last_prose() -> anyhow::Result<()> {
    let provider =
        script([Script::from(calling("a", "look").saying("looking")), Script::failure("the server is down")]);
    let (mut run, events) = run(&provider, [answering("look", "nothing").0]);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    run.log = Log::new(move |line| locked(&kept).push(line.to_owned()));
    let result = run_conversation(run.with_max_steps(1), vec![AgentMessage::user("search")]).await?;

    assert_eq!((result.end, result.text.as_str()), (LoopEnd::StepsExhausted, "looking"));
    let names = events.names();
    assert_eq!(names[names.len() - 2..], ["model.turn.failed", "run.finished"]);
    let failed = serde_json::to_value(&events.all()[names.len() - 2])?;
    assert_eq!((&failed["phase"], &failed["step"]), (&json!("summary"), &json!(1)));
    assert_eq!(*locked(&lines), ["no summary: the server is down"]);
    Ok(())
}

#[tokio::test]
async fn an_unknown_tool_is_told_to_the_model_and_the_run_goes_on() -> anyhow::Result<()> {
    let provider = script([calling("a", "ghost"), calling("b", "ghost"), ScriptedTurn::text("sorry")]);
    let (run, events) = run(&provider, []);
    let result = run_conversation(run, vec![AgentMessage::user("go")]).await?;

    assert_eq!((result.text.as_str(), result.steps), ("sorry", 3));
    for at in [2, 4] {
        assert!(results(&result.messages[at])[0].1, "{:?}", result.messages[at]);
    }
    assert!(!events.names().contains(&"tool.called"));
    let failed = events.all().iter().filter(|event| event.name() == "tool.failed").count();
    assert_eq!(failed, 2);
    Ok(())
}

#[tokio::test]
async fn a_run_without_prose_has_a_placeholder_only_where_text_is_all_there_is() -> anyhow::Result<()> {
    let provider = script([ScriptedTurn::text(""), ScriptedTurn::text("")]);
    let (first, _) = run(&provider, []);
    assert_eq!(run_conversation(first, vec![AgentMessage::user("go")]).await?.text, "");
    let (second, _) = run(&provider, []);
    assert_eq!(run_agent(second, "go").await?, "(the agent gave no answer)");
    Ok(())
}

#[tokio::test]
async fn a_tool_that_fails_or_panics_is_an_error_the_model_can_correct() -> anyhow::Result<()> {
    let turns = [
        ScriptedTurn::calls([call("a", "bad", json!({})), call("b", "worse", json!({}))]),
        ScriptedTurn::text("I see"),
    ];
    let worse = tool_fn(spec("worse"), |_, _| async { panic!("a broken tool") as Result<ToolOutput, _> });
    let provider = script(turns);
    let (run, events) = run(&provider, [failing("bad", "no such file"), Arc::new(worse)]);
    let result = run_conversation(run, vec![AgentMessage::user("go")]).await?;

    assert_eq!(result.text, "I see");
    assert_eq!(results(&result.messages[2]), [("no such file", true), ("the tool broke down", true)]);
    assert_eq!(events.names().iter().filter(|name| **name == "tool.failed").count(), 2);
    Ok(())
}

#[tokio::test]
async fn what_a_model_sees_of_a_result_is_cut_between_characters() -> anyhow::Result<()> {
    let provider = script([calling("a", "much"), ScriptedTurn::text("done")]);
    let much = tool_fn(spec("much"), |_, _| async {
        Ok(ToolOutput::structured("é".repeat(60_000), json!({"whole": true})))
    });
    let (run, events) = run(&provider, [Arc::new(much) as _]);
    let result = run_conversation(run, vec![AgentMessage::user("go")]).await?;

    let AgentMessage::Tool { results } = &result.messages[2] else { panic!("no results") };
    let seen = &results[0].content;
    assert!(seen.len() <= 64 * 1024 + 64, "{}", seen.len());
    assert!(seen.ends_with("[54464 bytes were cut off]"), "{}", &seen[seen.len() - 40..]);
    assert_eq!(results[0].structured, Some(json!({"whole": true})));
    let succeeded = serde_json::to_value(&events.all()[3])?;
    assert_eq!(succeeded["bytes"], 120_000);
    Ok(())
}

#[tokio::test]
async fn the_host_says_how_much_of_a_result_a_model_sees() -> anyhow::Result<()> {
    let provider = script([calling("a", "look"), ScriptedTurn::text("done")]);
    let (mut run, _) = run(&provider, [answering("look", "0123456789").0]);
    run.host = HostEnv::fixed([("RUNNER_MAX_TOOL_RESULT_BYTES", "4")]);
    let result = run_conversation(run, vec![AgentMessage::user("go")]).await?;
    assert_eq!(results(&result.messages[2]), [("0123\n[6 bytes were cut off]", false)]);
    Ok(())
}

#[tokio::test]
async fn an_error_of_the_model_comes_out_as_it_went_in() {
    let provider = script([Script::failure("the canary of this test")]);
    let (run, events) = run(&provider, []);
    let error = run_agent(run, "go").await.expect_err("the model fails");
    let RunError::Model(ModelError::Provider(ProviderError::Other(error))) = error else {
        panic!("another error: {error:?}")
    };
    assert_eq!(error.to_string(), "the canary of this test");
    let last = serde_json::to_value(events.all().last()).expect("an event");
    assert_eq!((&last["type"], &last["outcome"]), (&json!("run.finished"), &json!("failed")));
    assert!(last.get("steps").is_none() && last.get("text").is_none() && last.get("error").is_some());
}

#[tokio::test]
async fn a_run_longer_than_its_script_fails() {
    let provider = script([calling("a", "look")]);
    let (run, _) = run(&provider, [answering("look", "x").0]);
    let error = run_agent(run, "go").await.expect_err("the script is too short");
    assert!(matches!(
        error,
        RunError::Model(ModelError::Provider(ProviderError::ScriptExhausted { turns: 1 }))
    ));
}

#[tokio::test]
async fn usage_is_summed_over_every_call_and_the_summary() -> anyhow::Result<()> {
    let priced =
        |amount, tokens| TokenUsage { reported_cost: Cost::usd(amount), ..TokenUsage::new(tokens, 1) };
    let turns = [
        calling("a", "look").using(priced(0.1, 10)).identified("a"),
        calling("b", "look").using(TokenUsage::new(20, 1)).identified("b"),
        ScriptedTurn::text("done").using(priced(0.2, 30)),
    ];
    let provider = script(turns);
    let (run, _) = run(&provider, [answering("look", "x").0]);
    let result = run_conversation(run.with_max_steps(2), vec![AgentMessage::user("go")]).await?;

    let usage = result.usage.expect("it was reported");
    assert_eq!((usage.input, usage.output, usage.total), (Some(60), Some(3), Some(63)));
    assert_eq!((usage.cache_read, usage.cache_write, usage.reasoning), (None, None, None));
    assert!((usage.reported_cost.expect("a cost").amount - 0.3).abs() < 1e-9);
    assert_eq!(result.response_ids, ["a", "b"]);
    assert_eq!(result.provider, "scripted");
    Ok(())
}

#[tokio::test]
async fn the_result_and_every_turn_say_who_served_them() -> anyhow::Result<()> {
    let served = |turn: ScriptedTurn, model: &str, upstream: &str| {
        let mut turn = turn.identified(format!("id-{model}"));
        turn.turn.model = Some(model.into());
        turn.turn.upstream = Some(upstream.into());
        turn
    };
    let provider = script([
        served(calling("a", "look"), "first", "Azure"),
        served(ScriptedTurn::text("in short"), "second", "Bedrock"),
    ]);
    let (run, events) = run(&provider, [answering("look", "x").0]);
    let result = run_conversation(run.with_max_steps(1), vec![AgentMessage::user("go")]).await?;
    assert_eq!((result.model.as_deref(), result.upstream.as_deref()), (Some("second"), Some("Bedrock")));
    assert_eq!(result.response_ids, ["id-first", "id-second"], "the summary's too");
    let turns: Vec<_> = events.all().into_iter().filter(|event| event.name() == "model.turn").collect();
    for (turn, (model, upstream)) in turns.iter().zip([("first", "Azure"), ("second", "Bedrock")]) {
        let turn = serde_json::to_value(turn)?;
        assert_eq!((&turn["model"], &turn["upstream"]), (&json!(model), &json!(upstream)));
        assert_eq!(turn["response_id"], format!("id-{model}"));
    }
    assert_eq!(turns.len(), 2);
    Ok(())
}

#[tokio::test]
async fn calls_of_one_turn_run_one_after_the_other_in_their_order() -> anyhow::Result<()> {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = notes.clone();
    let slow = tool_fn(spec("slow"), move |_, context| {
        let kept = kept.clone();
        async move {
            locked(&kept).push(format!("{} begins", context.call_id));
            tokio::task::yield_now().await;
            locked(&kept).push(format!("{} ends", context.call_id));
            Ok("x")
        }
    });
    let calls = ["a", "b"].map(|id| call(id, "slow", json!({})));
    let provider = script([ScriptedTurn::calls(calls), ScriptedTurn::text("done")]);
    let (run, _) = run(&provider, [Arc::new(slow) as _]);
    run_agent(run, "go").await?;
    assert_eq!(*locked(&notes), ["a begins", "a ends", "b begins", "b ends"]);
    Ok(())
}

#[tokio::test]
async fn usage_that_nobody_reports_is_absent() -> anyhow::Result<()> {
    let provider = script([ScriptedTurn::text("hi")]);
    let (run, _) = run(&provider, []);
    let result = run_conversation(run, vec![AgentMessage::user("go")]).await?;
    assert_eq!((result.usage, result.finish_reason), (None, FinishReason::Stop));
    Ok(())
}

/// Hands back without asking a model when a tool needs a person's agreement.
struct ConfirmFirst;

impl Loop for ConfirmFirst {
    fn name(&self) -> &'static str {
        "confirm-first"
    }

    fn run<'a>(&'a self, request: LoopRequest, context: &'a LoopContext) -> Looping<'a> {
        let waits = request.tools.iter().any(|tool| tool.meta().requires_confirmation == Some(true));
        if waits {
            return Box::pin(async { Ok(LoopResult::completed("awaiting confirmation", 0)) });
        }
        NativeLoop.run(request, context)
    }
}

#[tokio::test]
async fn a_loop_of_ones_own_decides_and_still_is_visibly_a_run() -> anyhow::Result<()> {
    let provider = script([ScriptedTurn::text("hi")]);
    let careful = ToolMetadata { requires_confirmation: Some(true), ..ToolMetadata::default() };
    let (tool, _) = counted("delete", "gone");
    let tool: mesh_harness::tool::SharedTool = Arc::new(tool.with_meta(careful));
    for (tools, text, asked) in [(vec![tool], "awaiting confirmation", 0), (Vec::new(), "hi", 1)] {
        let (sink, events) = record_run_events();
        let request = LoopRequest {
            model: provider.clone().into_chat_model(),
            system: "".into(),
            messages: vec![AgentMessage::user("go")],
            tools,
            limits: resolve_loop_limits(Default::default(), &no_host()),
            options: Arc::default(),
        };
        let emitter = RunEvents::new(Some(sink), Log::silent());
        let result = run_with_events(&ConfirmFirst, request, &emitter, RunContext::default()).await?;
        assert_eq!((result.text.as_str(), provider.requests().len()), (text, asked));
        let names = events.names();
        assert_eq!((names.first(), names.last()), (Some(&"run.started"), Some(&"run.finished")));
        assert_eq!(names.len(), 2 + asked);
    }
    Ok(())
}

#[tokio::test]
async fn a_run_without_steps_is_only_a_summary() -> anyhow::Result<()> {
    let provider = script([ScriptedTurn::text("nothing was done")]);
    let (run, events) = run(&provider, [answering("look", "x").0]);
    let result = run_conversation(run.with_max_steps(0), vec![AgentMessage::user("go")]).await?;
    assert_eq!((result.steps, result.text.as_str()), (0, "nothing was done"));
    assert_eq!(events.names(), ["run.started", "run.budget_exhausted", "model.turn", "run.finished"]);
    Ok(())
}

#[tokio::test]
async fn tools_a_summary_asks_for_are_left_out() -> anyhow::Result<()> {
    let provider = script([calling("a", "look"), calling("b", "look").saying("in short")]);
    let (run, _) = run(&provider, [answering("look", "x").0]);
    let result = run_conversation(run.with_max_steps(1), vec![AgentMessage::user("go")]).await?;
    assert_eq!(result.messages.last(), Some(&AgentMessage::assistant("in short")));
    Ok(())
}

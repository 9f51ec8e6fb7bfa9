//! Conversations: seeds, transcripts, final answers, answers that were cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mesh_harness::agent_loop::{
    AgentRun, Loop, LoopContext, LoopRequest, LoopResult, Looping, RunContext, RunError, SeedError,
    resolve_loop_limits, run_agent, run_conversation, run_with_events,
};
use mesh_harness::event::RunEvents;
use mesh_harness::log::Log;
use mesh_harness::message::{AgentMessage, ToolCall, ToolResult};
use mesh_harness::model::IntoChatModel as _;
use mesh_harness::outcome::{LoopEnd, Outcome};
use mesh_harness::provider::{Script, ScriptedTurn};
use mesh_harness::tool::{Dispatch, SharedTool, ToolError, ToolMetadata, terminal_tool, terminal_tool_with};
use mesh_harness::usage::{FinishReason, TokenUsage};
use serde_json::json;

use crate::stand_ins::{answering, call, calling, counted, no_host, object, results_of, run, script, spec};

fn reply() -> SharedTool {
    Arc::new(terminal_tool(spec("reply")))
}

fn user() -> Vec<AgentMessage> {
    vec![AgentMessage::user("go")]
}

/// Every call of a transcript has exactly one result, right after it.
#[track_caller]
fn assert_whole(messages: &[AgentMessage]) {
    for (at, message) in messages.iter().enumerate() {
        let AgentMessage::Assistant { tool_calls, .. } = message else { continue };
        if tool_calls.is_empty() {
            continue;
        }
        let results = messages.get(at + 1).map(results_of).unwrap_or_default();
        let calls: Vec<&str> = tool_calls.iter().map(|call| call.id.as_str()).collect();
        let answered: Vec<&str> = results.iter().map(|result| result.tool_call_id.as_str()).collect();
        assert_eq!(calls, answered);
    }
}

fn result_for(id: &str) -> AgentMessage {
    let result = ToolResult { tool_call_id: id.into(), content: "x".into(), ..ToolResult::default() };
    AgentMessage::Tool { results: vec![result] }
}

fn asking(id: &str) -> AgentMessage {
    AgentMessage::Assistant { text: String::new(), tool_calls: vec![call(id, "look", json!({}))] }
}

#[tokio::test]
async fn a_seed_nobody_can_go_on_with_is_refused_before_anything_happens() {
    let bad = [
        (vec![], SeedError::Empty),
        (vec![AgentMessage::user("a"), AgentMessage::assistant("b")], SeedError::EndsWithModel),
        (
            vec![AgentMessage::user("a"), asking("1"), result_for("2")],
            SeedError::Results { expected: vec!["1".into()], found: vec!["2".into()] },
        ),
        (vec![result_for("2")], SeedError::Results { expected: vec![], found: vec!["2".into()] }),
    ];
    for (seed, why) in bad {
        let provider = script([ScriptedTurn::text("hi")]);
        let (run, events) = run(&provider, []);
        let error = run_conversation(run, seed).await.expect_err("it is no seed");
        assert!(matches!(error, RunError::Seed(found) if found == why));
        assert_eq!((provider.requests().len(), events.all().len()), (0, 0));
    }
}

#[tokio::test]
async fn a_seed_may_end_with_the_results_the_model_waits_for() -> anyhow::Result<()> {
    let provider = script([ScriptedTurn::text("thanks")]);
    let (run, _) = run(&provider, []);
    let seed = vec![AgentMessage::user("a"), asking("1"), result_for("1")];
    let result = run_conversation(run, seed.clone()).await?;
    assert_eq!(*provider.requests()[0].messages, seed);
    assert_eq!(result.messages[..3], seed);
    Ok(())
}

#[tokio::test]
async fn a_transcript_is_the_seed_of_the_next_turn_and_events_are_those_of_the_sink() -> anyhow::Result<()> {
    let provider = script([calling("a", "look"), ScriptedTurn::text("one"), ScriptedTurn::text("two")]);
    let (first, events) = run(&provider, [answering("look", "x").0]);
    let result = run_conversation(first, user()).await?;
    assert_eq!(result.events, events.all());
    let numbers: Vec<u64> = result.events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    assert_whole(&result.messages);

    let mut next = result.messages.clone();
    next.push(AgentMessage::user("and now?"));
    let (second, _) = run(&provider, []);
    let result = run_conversation(second, next.clone()).await?;
    assert_eq!((result.text.as_str(), result.messages.len()), ("two", next.len() + 1));
    Ok(())
}

#[tokio::test]
async fn the_example_of_a_recorded_eval_plays_to_its_end() -> anyhow::Result<()> {
    let answer = |request: &mesh_harness::provider::ConverseRequest| {
        let Some(AgentMessage::Tool { results }) = request.messages.last() else { panic!("no results") };
        ScriptedTurn::calls([call("r1", "reply", json!({"text": results[0].content}))])
    };
    let provider = script([
        Script::from(ScriptedTurn::calls([call("c1", "lookup", json!({"q": "balance"}))])),
        Script::function(answer),
    ]);
    let (run, _) = run(&provider, [answering("lookup", "S$120").0, reply()]);
    let result = run_conversation(run, user()).await?;

    assert_eq!((provider.remaining(), provider.requests().len()), (0, 2));
    assert_eq!((result.end, result.outcome), (LoopEnd::TerminalTool, Outcome::Completed));
    assert_eq!(result.terminal.as_ref().map(|call| &call.input), Some(&object(json!({"text": "S$120"}))));
    assert_whole(&result.messages);
    Ok(())
}

#[tokio::test]
async fn a_final_answer_that_is_refused_can_be_corrected() -> anyhow::Result<()> {
    let tries = Arc::new(AtomicUsize::new(0));
    let counter = tries.clone();
    let picky = terminal_tool_with(spec("reply"), move |_, _| {
        let first = counter.fetch_add(1, Ordering::SeqCst) == 0;
        async move { if first { Err(ToolError::failed("text is missing")) } else { Ok("ok") } }
    });
    let provider = script([calling("a", "reply"), calling("b", "reply").saying("here")]);
    let (run, _) = run(&provider, [Arc::new(picky) as SharedTool]);
    let result = run_conversation(run, user()).await?;
    assert_eq!((result.steps, result.text.as_str()), (2, "here"));
    assert_eq!(result.terminal.as_ref().map(|call| call.id.as_str()), Some("b"));
    Ok(())
}

#[tokio::test]
async fn a_final_answer_is_not_checked_against_its_schema() -> anyhow::Result<()> {
    let provider = script([ScriptedTurn::calls([call("a", "reply", json!({"nothing": "fits"}))])]);
    let mut strict = spec("reply");
    strict.input_schema = json!({"type": "object", "required": ["text"]});
    let (run, _) = run(&provider, [Arc::new(terminal_tool(strict)) as SharedTool]);
    assert!(run_conversation(run, user()).await?.terminal.is_some());
    Ok(())
}

#[tokio::test]
async fn the_other_calls_of_a_final_turn_run_too_and_the_first_final_answer_counts() -> anyhow::Result<()> {
    let turn = ["lookup", "reply", "other", "reply"];
    let calls = turn.iter().enumerate().map(|(at, name)| call(&format!("c{at}"), name, json!({})));
    let provider = script([ScriptedTurn::calls(calls)]);
    let (lookup, first) = answering("lookup", "x");
    let (other, second) = answering("other", "y");
    let (run, _) = run(&provider, [lookup, other, reply()]);
    let result = run_conversation(run, user()).await?;

    assert_eq!((first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(result.terminal.as_ref().map(|call| call.id.as_str()), Some("c1"));
    assert_whole(&result.messages);
    Ok(())
}

#[tokio::test]
async fn of_two_final_answers_the_first_that_is_accepted_counts() -> anyhow::Result<()> {
    let picky = terminal_tool_with(spec("reply"), |input, _| async move {
        if input.contains_key("text") { Ok("ok") } else { Err(ToolError::failed("text is missing")) }
    });
    let calls = [call("a", "reply", json!({})), call("b", "reply", json!({"text": "x"}))];
    let provider = script([ScriptedTurn::calls(calls)]);
    let (run, _) = run(&provider, [Arc::new(picky) as SharedTool]);
    let result = run_conversation(run, user()).await?;
    assert_eq!((result.terminal.as_ref().map(|call| call.id.as_str()), result.steps), (Some("b"), 1));
    assert_whole(&result.messages);
    Ok(())
}

#[tokio::test]
async fn a_final_answer_on_the_last_step_needs_no_summary() -> anyhow::Result<()> {
    let provider = script([calling("a", "reply")]);
    let (run, events) = run(&provider, [reply()]);
    let result = run_conversation(run.with_max_steps(1), user()).await?;
    assert_eq!(result.end, LoopEnd::TerminalTool);
    assert!(!events.names().contains(&"run.budget_exhausted"));
    Ok(())
}

#[tokio::test]
async fn a_single_prompt_may_end_in_a_final_answer_too() -> anyhow::Result<()> {
    let provider = script([calling("a", "reply").saying("it is done"), calling("b", "reply")]);
    let (first, _) = run(&provider, [reply()]);
    assert_eq!(run_agent(first, "go").await?, "it is done");
    let (second, _) = run(&provider, [reply()]);
    assert_eq!(run_agent(second, "go").await?, "(the agent gave no answer)");
    Ok(())
}

/// Says how many of its tools the caller would have to execute.
struct HandsOver;

impl Loop for HandsOver {
    fn name(&self) -> &'static str {
        "hands-over"
    }

    fn run<'a>(&'a self, request: LoopRequest, _: &'a LoopContext) -> Looping<'a> {
        let external = request.tools.iter().filter(|tool| tool.meta().dispatch == Some(Dispatch::External));
        let text = format!("{} pending", external.count());
        Box::pin(async move { Ok(LoopResult::completed(text, 0)) })
    }
}

fn external() -> SharedTool {
    let meta = ToolMetadata { dispatch: Some(Dispatch::External), ..ToolMetadata::default() };
    Arc::new(counted("ask_person", "x").0.with_meta(meta))
}

#[tokio::test]
async fn a_tool_the_caller_executes_is_refused_by_the_native_loop_and_left_to_others() -> anyhow::Result<()> {
    let provider = script([ScriptedTurn::text("hi")]);
    let (native, _) = run(&provider, [external()]);
    let error = run_agent(native, "go").await.expect_err("the native loop cannot wait");
    assert!(matches!(error, RunError::ExternalTool { name } if name == "ask_person"));
    assert_eq!(provider.requests().len(), 0);

    let request = LoopRequest {
        model: provider.into_chat_model(),
        system: "".into(),
        messages: user(),
        tools: vec![external()],
        limits: resolve_loop_limits(Default::default(), &no_host()),
        options: Arc::default(),
    };
    let events = RunEvents::new(None, Log::silent());
    let result = run_with_events(&HandsOver, request, &events, RunContext::default()).await?;
    assert_eq!(result.text, "1 pending");
    Ok(())
}

#[tokio::test]
async fn two_tools_of_one_name_are_refused() {
    let provider = script([ScriptedTurn::text("hi")]);
    let (run, _) = run(&provider, [answering("look", "1").0, answering("look", "2").0]);
    let error = run_agent(run, "go").await.expect_err("which one is meant?");
    assert!(matches!(error, RunError::DuplicateTool { name } if name == "look"));
}

#[tokio::test]
async fn a_final_answer_that_was_cut_off_is_not_run_and_may_be_given_again() -> anyhow::Result<()> {
    let whole = ToolCall::from_text("a", "reply", r#"{"text":"ok"}"#.into());
    let provider = script([ScriptedTurn::calls([whole]).ending(FinishReason::Length), calling("b", "reply")]);
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    let reply = terminal_tool_with(spec("reply"), move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        async { Ok("ok") }
    });
    let (run, events) = run(&provider, [Arc::new(reply) as SharedTool]);
    let result = run_conversation(run, user()).await?;

    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(result.terminal.as_ref().map(|call| call.id.as_str()), Some("b"));
    let failed = serde_json::to_value(&events.all()[2])?;
    assert_eq!((&failed["type"], &failed["reason"]), (&json!("tool.failed"), &json!("truncated")));
    Ok(())
}

#[tokio::test]
async fn a_call_whose_arguments_are_not_whole_is_not_run_however_the_turn_ended() -> anyhow::Result<()> {
    for ending in [FinishReason::Length, FinishReason::ToolCalls, FinishReason::Unknown] {
        let torn = ToolCall::from_text("a", "lookup", r#"{"q":"ba"#.into());
        let whole = ToolCall::from_text("b", "lookup", r#"{"q":"balance"}"#.into());
        let provider = script([ScriptedTurn::calls([whole, torn]).ending(ending), ScriptedTurn::text("ok")]);
        let (lookup, ran) = answering("lookup", "x");
        let (run, events) = run(&provider, [lookup]);
        let result = run_conversation(run, user()).await?;
        assert_eq!(ran.load(Ordering::SeqCst), 1, "only the whole one");
        assert_whole(&result.messages);
        let names = events.names();
        assert_eq!(names.iter().filter(|name| **name == "tool.called").count(), 1);
        assert_eq!(names.iter().filter(|name| **name == "tool.failed").count(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn without_the_bytes_of_arguments_the_last_call_of_a_cut_turn_is_not_trusted() -> anyhow::Result<()> {
    let calls = [call("a", "lookup", json!({})), call("b", "lookup", json!({}))];
    let provider =
        script([ScriptedTurn::calls(calls).ending(FinishReason::Length), ScriptedTurn::text("ok")]);
    let (lookup, ran) = answering("lookup", "x");
    let (run, _) = run(&provider, [lookup]);
    run_conversation(run, user()).await?;
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    Ok(())
}

#[tokio::test]
async fn prose_that_was_cut_off_is_marked_and_no_plain_answer() -> anyhow::Result<()> {
    let cut =
        || ScriptedTurn::text("the answer is").ending(FinishReason::Length).using(TokenUsage::new(5, 7));
    let provider = script([cut(), cut()]);
    let (first, _) = run(&provider, []);
    let result = run_conversation(first, user()).await?;
    assert_eq!((result.end, result.outcome), (LoopEnd::Length, Outcome::Completed));
    assert_eq!(result.finish_reason, FinishReason::Length);

    let (second, _) = run(&provider, []);
    let Err(RunError::Truncated(error)) = run_agent(second, "go").await else { panic!("a whole answer?") };
    assert_eq!(error.result.text, "the answer is");
    assert_eq!(error.result.usage.and_then(|usage| usage.total), Some(12));
    Ok(())
}

#[tokio::test]
async fn turns_that_are_always_cut_off_end_with_the_steps() -> anyhow::Result<()> {
    let cut = || calling("a", "reply").ending(FinishReason::Length);
    let provider = script([cut(), cut(), ScriptedTurn::text("I cannot")]);
    let (run, _) = run(&provider, [reply()]);
    let result = run_conversation(run.with_max_steps(2), user()).await?;
    assert_eq!((result.end, result.terminal.is_none()), (LoopEnd::StepsExhausted, true));
    Ok(())
}

#[tokio::test]
async fn what_an_adapter_notes_on_a_call_comes_back_to_it() -> anyhow::Result<()> {
    let mut noted = call("a", "look", json!({}));
    noted.meta = Some(object(json!({"signature": "abc"})));
    let provider = script([ScriptedTurn::calls([noted.clone()]), ScriptedTurn::text("done")]);
    let (run, _) = run(&provider, [answering("look", "x").0]);
    let result = run_conversation(run, user()).await?;
    for messages in [&*provider.requests()[1].messages, &result.messages] {
        let AgentMessage::Assistant { tool_calls, .. } = &messages[1] else { panic!("{messages:?}") };
        assert_eq!(tool_calls[0], noted);
    }
    Ok(())
}

#[test]
fn a_run_is_shown_without_its_conversation() {
    let run = AgentRun::new(script([ScriptedTurn::text("hi")])).with_system("the canary");
    assert!(!format!("{run:?}").contains("canary"));
}

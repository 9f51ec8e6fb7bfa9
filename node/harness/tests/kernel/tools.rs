//! Tools: scopes, projections, and models as tools.

use std::sync::{Arc, Mutex};

use mesh_harness::agent_loop::run_conversation;
use mesh_harness::message::{AgentMessage, ToolSpec};
use mesh_harness::model::{InvokeContext, Invoked, ModelCaps, ModelInvocation, ModelResult};
use mesh_harness::provider::ScriptedTurn;
use mesh_harness::tool::{
    ClientVisibility, InvocationMode, Replay, Retention, SharedTool, ToolContext, ToolMetadata, ToolScope,
    model_as_tool, replay_safe_tools, select_tools, to_tool_specs, tool_fn, tools_requiring_confirmation,
    undo_tool_for,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::stand_ins::{call, counted, locked, run, script, spec};

fn tool(name: &str, meta: ToolMetadata) -> SharedTool {
    Arc::new(counted(name, "x").0.with_meta(meta))
}

fn names(tools: &[SharedTool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.spec().name.as_str()).collect()
}

/// A capability, a mode, and the names allowed.
type Asked<'a> = (Option<&'a str>, Option<InvocationMode>, Option<&'a [String]>);

#[test]
fn a_scoped_tool_is_hidden_from_who_does_not_give_its_scope() {
    let scoped = |capabilities: &[&str], modes: &[InvocationMode]| ToolMetadata {
        target_capabilities: capabilities.iter().map(|&name| name.to_owned()).collect(),
        invocation_modes: modes.to_vec(),
        ..ToolMetadata::default()
    };
    let (user, system) = (InvocationMode::UserInitiated, InvocationMode::SystemInitiated);
    let tools = [
        tool("any", ToolMetadata::default()),
        tool("billing", scoped(&["billing"], &[])),
        tool("by_user", scoped(&[], &[user])),
        tool("both", scoped(&["billing", "support"], &[user, system])),
    ];
    let allowed = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let some = allowed(&["billing", "both"]);
    let none = allowed(&[]);
    let matrix: [(Asked<'_>, &[&str]); 8] = [
        ((None, None, None), &["any"]),
        ((Some("billing"), None, None), &["any", "billing"]),
        ((None, Some(user), None), &["any", "by_user"]),
        ((Some("billing"), Some(user), None), &["any", "billing", "by_user", "both"]),
        ((Some("support"), Some(system), None), &["any", "both"]),
        ((Some("other"), Some(system), None), &["any"]),
        ((Some("billing"), Some(user), Some(&some)), &["billing", "both"]),
        ((Some("billing"), Some(user), Some(&none)), &[]),
    ];
    for ((capability, mode, allowed), seen) in matrix {
        let scope = ToolScope { capability, mode, allowed };
        assert_eq!(names(&select_tools(&tools, &scope)), seen, "{scope:?}");
    }
}

#[test]
fn a_model_is_told_a_name_a_description_and_a_schema() -> anyhow::Result<()> {
    let meta = ToolMetadata {
        display_name: Some("Look".into()),
        target_capabilities: vec!["a".into()],
        invocation_modes: vec![InvocationMode::UserInitiated],
        requires_confirmation: Some(true),
        reversible: Some(true),
        undo_tool_name: Some("unlook".into()),
        undo_window_seconds: Some(1),
        result_retention: Some(Retention::Ephemeral),
        client_result_visibility: Some(ClientVisibility::Suppressed),
        replay: Some(Replay::Safe),
        dispatch: None,
    };
    let specs = serde_json::to_value(to_tool_specs(&[tool("look", meta)]))?;
    let mut keys: Vec<&String> = specs[0].as_object().into_iter().flat_map(|spec| spec.keys()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["description", "input_schema", "name"]);
    Ok(())
}

#[test]
fn absent_metadata_claims_nothing() {
    let undo = |reversible, undo: &str| ToolMetadata {
        reversible,
        undo_tool_name: Some(undo.into()),
        ..ToolMetadata::default()
    };
    let tools = [
        tool("plain", ToolMetadata::default()),
        tool("safe", ToolMetadata { replay: Some(Replay::Safe), ..ToolMetadata::default() }),
        tool("risky", ToolMetadata { replay: Some(Replay::Unsafe), ..ToolMetadata::default() }),
        tool("asks", ToolMetadata { requires_confirmation: Some(true), ..ToolMetadata::default() }),
        tool("add", undo(Some(true), "plain")),
        tool("add_for_good", undo(Some(false), "plain")),
        tool("add_unclear", undo(None, "plain")),
        tool("add_lost", undo(Some(true), "no_such_tool")),
    ];
    assert_eq!(names(&replay_safe_tools(&tools)), ["safe"]);
    assert_eq!(names(&tools_requiring_confirmation(&tools)), ["asks"]);
    let undoes = |name| undo_tool_for(&tools, name).map(|tool| tool.spec().name.clone());
    assert_eq!(undoes("add").as_deref(), Some("plain"));
    for name in ["add_for_good", "add_unclear", "add_lost", "plain", "nobody"] {
        assert_eq!(undoes(name), None, "{name}");
    }
}

#[tokio::test]
async fn a_tool_knows_its_call_and_its_run() -> anyhow::Result<()> {
    let seen = Arc::new(Mutex::new(None));
    let kept = seen.clone();
    let look = tool_fn(spec("look"), move |_, context: ToolContext| {
        *locked(&kept) = Some(context);
        async { Ok("x") }
    });
    let turns = [ScriptedTurn::calls([call("call-7", "look", json!({}))]), ScriptedTurn::text("done")];
    let (mut run, events) = run(&script(turns), [Arc::new(look) as SharedTool]);
    run.run_id = Some("run-3".into());
    run_conversation(run, vec![AgentMessage::user("go")]).await?;
    let context = locked(&seen).take().expect("it ran");
    assert_eq!((context.call_id.as_str(), context.run_id.as_deref()), ("call-7", Some("run-3")));
    assert_eq!(serde_json::to_value(&events.all()[2])?["call_id"], "call-7");
    Ok(())
}

/// Sees what it is told to see.
struct Detector(Arc<Mutex<Option<InvokeContext>>>);

#[derive(Serialize)]
struct Detection {
    label: String,
    score: f64,
}

impl ModelInvocation<String, Detection> for Detector {
    fn id(&self) -> &'static str {
        "eye"
    }

    fn kind(&self) -> &'static str {
        "vision.detect"
    }

    fn caps(&self) -> ModelCaps {
        ModelCaps::default()
    }

    fn invoke<'a>(&'a self, request: String, context: &'a InvokeContext) -> Invoked<'a, Detection> {
        *locked(&self.0) = Some(context.clone());
        Box::pin(async move { Ok(ModelResult::of(Detection { label: request, score: 0.5 })) })
    }
}

#[tokio::test]
async fn a_model_of_any_kind_is_a_tool_of_another() -> anyhow::Result<()> {
    let context = Arc::default();
    let detector = Arc::new(Detector(Arc::clone(&context)));
    let see = ToolSpec::new("see", "sees", json!({"type": "object"}));
    let as_tool = model_as_tool(detector.clone(), see, |input| {
        Ok(input.get("what").and_then(Value::as_str).ok_or("what is missing")?.to_owned())
    });
    let brief = ToolSpec::new("see_briefly", "sees", json!({"type": "object"}));
    let briefly = model_as_tool(detector, brief, |_| Ok("dog".into()))
        .with_content(|seen: &Detection| format!("a {}", seen.label));

    let calls = [
        call("a", "see", json!({"what": "cat"})),
        call("b", "see_briefly", json!({})),
        call("c", "see", json!({})),
    ];
    let provider = script([ScriptedTurn::calls(calls), ScriptedTurn::text("done")]);
    let (run, _) = run(&provider, [Arc::new(as_tool) as SharedTool, Arc::new(briefly)]);
    let stop = run.stop.clone();
    let result = run_conversation(run, vec![AgentMessage::user("go")]).await?;

    let AgentMessage::Tool { results } = &result.messages[2] else { panic!("no results") };
    assert_eq!(results[0].content, r#"{"label":"cat","score":0.5}"#);
    assert_eq!(results[0].structured, Some(json!({"label": "cat", "score": 0.5})));
    assert_eq!(results[1].content, "a dog");
    assert_eq!((results[2].content.as_str(), results[2].is_error), ("what is missing", true));

    let seen = locked(&context).take().expect("it was asked");
    stop.cancel("later");
    assert!(seen.stop.is_fired(), "the run's stop reaches the model");
    Ok(())
}

//! What every program has to do.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mesh_harness::agent::{EngineContext, EngineResult, RunSpec};
use mesh_harness::capability::{CapabilityHandler, CapabilityTool};
use mesh_harness::log::Log;
use mesh_harness::message::ToolSpec;
use mesh_harness::outcome::Outcome;
use mesh_harness::stop::Stop;
use serde_json::{Value, json};

use crate::contract;
use crate::model::{Asked, Model, Turn};
use crate::stage::{Agent, Capabilities, Place, is_inside};

/// A capability that keeps the texts it is given.
pub(crate) fn note() -> (CapabilityTool, Arc<Mutex<Vec<Value>>>) {
    let noted: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = noted.clone();
    let handler: CapabilityHandler = Arc::new(move |input| {
        kept.lock().unwrap().push(Value::Object(input));
        Box::pin(async { Ok(json!({"ok": true, "number": 417})) })
    });
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    (CapabilityTool { spec: ToolSpec::new("note", "Records a note.", schema), handler }, noted)
}

fn context(stop: &Stop) -> (EngineContext, Arc<Mutex<Vec<String>>>) {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = lines.clone();
    let log = Log::new(move |line| kept.lock().unwrap().push(line.to_owned()));
    (EngineContext { log, stop: stop.clone(), sink: None }, lines)
}

pub(crate) async fn does_a_task_and_can_be_stopped(agent: Agent) {
    if !is_inside() {
        return;
    }
    if agent.takes_servers() {
        does_a_task(agent).await;
        does_a_task_with_a_program_of_ours(agent).await;
    } else if agent == Agent::Pi {
        does_a_task_with_a_tool_of_its_own(agent).await;
    }
    if agent.takes_gateway() {
        goes_through_a_gateway(agent).await;
    }
    can_be_stopped(agent).await;
}

/// A run to its end, and how it went.
struct Run {
    model: Model,
    place: Place,
    result: EngineResult,
    lines: Vec<String>,
}

impl Run {
    async fn of(
        agent: Agent,
        what: &str,
        turns: impl IntoIterator<Item = Turn>,
        capabilities: Capabilities,
        spec: impl Fn(&Place, &Model) -> RunSpec,
    ) -> Self {
        let model = Model::start(turns).await;
        let place = Place::new();
        let (context, lines) = context(&Stop::new());
        let started = Instant::now();
        let spec = spec(&place, &model);
        let result = place.engine(agent, &model, capabilities).run(&spec, context).await;
        eprintln!("{agent:?}: {what} took {:.1} s", started.elapsed().as_secs_f64());
        let lines = lines.lock().unwrap().clone();
        let asked = model.asked().len();
        let result = result.unwrap_or_else(|error| panic!("{error:?}\n{lines:#?}\n{asked} requests"));
        assert_eq!(result.outcome, Some(Outcome::Completed), "{result:?}\n{lines:#?}");
        assert!(result.text.contains("THE TASK IS DONE"), "{result:?}\n{lines:#?}");
        place.is_left_empty().await;
        let run = Self { model, place, result, lines };
        let everything = format!("{:?} {:?} {:?}", run.lines, run.result, run.model.asked());
        assert!(!everything.contains("canary") && !everything.contains("Bearer runcaps"));
        run
    }

    /// The key that its requests showed, and where they went.
    fn shown(&self) -> Vec<(String, String)> {
        let key = |asked: &Asked| {
            let names = ["x-api-key", "authorization", "x-goog-api-key"];
            let key = names.iter().find_map(|name| asked.headers.get(*name)).unwrap();
            key.to_str().unwrap().trim_start_matches("Bearer ").to_owned()
        };
        self.model.asked().iter().map(|asked| (asked.path.clone(), key(asked))).collect()
    }
}

fn with_a_note() -> [Turn; 2] {
    [Turn::Call("note", json!({"text": "from the model é"})), Turn::Say("THE TASK IS DONE")]
}

async fn does_a_task(agent: Agent) {
    let (tool, noted) = note();
    let spec = |place: &Place, _: &Model| place.spec(agent);
    let run = Run::of(agent, "a task with a tool", with_a_note(), Capabilities::Here(vec![tool]), spec).await;
    assert_eq!(*noted.lock().unwrap(), [json!({"text": "from the model é"})], "{:#?}", run.lines);
    let asked = run.model.asked();
    assert_eq!(asked.len(), 2, "one request a turn");
    assert!(asked[0].body.to_string().contains("Note what you are told to note."));
    assert!(asked[1].body.to_string().contains("417"), "the model is told what the tool answered");
    assert!(run.shown().iter().all(|(_, key)| key == "host-key"), "{:?}", run.shown());
}

async fn does_a_task_with_a_program_of_ours(agent: Agent) {
    let spec = |place: &Place, _: &Model| place.spec(agent);
    let capabilities = Capabilities::Program(contract::itself());
    let run = Run::of(agent, "a task with a program of tools", with_a_note(), capabilities, spec).await;
    assert_eq!(run.result.emissions, Some(contract::emitted("from the model é")), "{:#?}", run.lines);
}

async fn does_a_task_with_a_tool_of_its_own(agent: Agent) {
    // Its client repeats a request twice by itself; then it is up to Pi.
    let turns = [
        Turn::Fail,
        Turn::Fail,
        Turn::Fail,
        Turn::Call("write", json!({"path": "noted.txt", "content": "from the model é"})),
        Turn::Say("THE TASK IS DONE"),
    ];
    let spec = |place: &Place, _: &Model| place.spec(agent);
    let run = Run::of(agent, "a task with a tool of its own", turns, Capabilities::None, spec).await;
    let noted = std::fs::read_to_string(run.place.workdir.path().join("noted.txt")).unwrap();
    assert_eq!(noted, "from the model é");
    assert_eq!(run.model.asked().len(), 5);
    assert!(run.lines.contains(&"pi asks its model again".to_owned()), "{:#?}", run.lines);
}

async fn goes_through_a_gateway(agent: Agent) {
    let (tool, _) = note();
    let (turns, capabilities) = match agent.takes_servers() {
        true => (Vec::from(with_a_note()), Capabilities::Here(vec![tool])),
        false => (vec![Turn::Say("THE TASK IS DONE")], Capabilities::None),
    };
    let spec = |place: &Place, model: &Model| place.spec_through_a_gateway(agent, model);
    let run = Run::of(agent, "a task through a gateway", turns, capabilities, spec).await;
    let provider = if agent == Agent::Codex { "/p/openai/" } else { "/p/anthropic/" };
    for (path, key) in run.shown() {
        assert!(path.starts_with(provider) && key == "run-token", "{path} {key}");
    }
    let everything = format!("{:?}", run.model.asked());
    assert!(!everything.contains("canary") && !everything.contains("host-key"), "{everything}");
}

async fn can_be_stopped(agent: Agent) {
    let model = Model::start([Turn::Hang]).await;
    let (tool, noted) = note();
    let place = Place::new();
    let stop = Stop::new();
    let (context, lines) = context(&stop);
    let capabilities =
        if agent.takes_servers() { Capabilities::Here(vec![tool]) } else { Capabilities::None };
    let engine = place.engine(agent, &model, capabilities);
    let spec = match agent {
        Agent::Eve => place.spec_through_a_gateway(agent, &model),
        _ => place.spec(agent),
    };
    let running = engine.run(&spec, context);
    let stopping = async {
        let asked = tokio::time::timeout(Duration::from_secs(60), model.hangs()).await;
        asked.unwrap_or_else(|_| panic!("the model is not asked: {lines:?}"));
        assert!(place.is_alive());
        stop.cancel("enough");
        Instant::now()
    };
    let (result, stopped) = tokio::join!(running, stopping);
    eprintln!("{agent:?}: stopping in the middle of a turn took {:.1} s", stopped.elapsed().as_secs_f64());
    assert!(stopped.elapsed() < Duration::from_secs(30));
    assert_eq!(result.unwrap().outcome, Some(Outcome::Canceled), "{lines:?}");
    assert!(noted.lock().unwrap().is_empty());
    place.is_left_empty().await;
}

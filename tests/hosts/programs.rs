//! What every program has to do.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mesh_harness::agent::EngineContext;
use mesh_harness::capability::{CapabilityHandler, CapabilityTool};
use mesh_harness::log::Log;
use mesh_harness::message::ToolSpec;
use mesh_harness::outcome::Outcome;
use mesh_harness::stop::Stop;
use serde_json::{Value, json};

use crate::model::{Model, Turn};
use crate::stage::{Agent, Place, is_inside};

/// A capability that keeps the texts it is given.
fn note() -> (CapabilityTool, Arc<Mutex<Vec<Value>>>) {
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
    if is_inside() {
        does_a_task(agent).await;
        can_be_stopped(agent).await;
    }
}

async fn does_a_task(agent: Agent) {
    let model = Model::start([
        Turn::Call("note", json!({"text": "from the model é"})),
        Turn::Say("THE TASK IS DONE"),
    ])
    .await;
    let (tool, noted) = note();
    let place = Place::new();
    let (context, lines) = context(&Stop::new());
    let started = Instant::now();
    let result = place.engine(agent, &model, vec![tool]).run(&place.spec(agent), context).await;
    eprintln!("{agent:?}: a task with a tool took {:.1} s", started.elapsed().as_secs_f64());
    let lines = lines.lock().unwrap().clone();
    let asked = model.asked();
    let result = result.unwrap_or_else(|error| panic!("{error:?}\n{lines:#?}\n{} requests", asked.len()));
    assert_eq!(result.outcome, Some(Outcome::Completed), "{result:?}\n{lines:#?}");
    assert!(result.text.contains("THE TASK IS DONE"), "{result:?}\n{lines:#?}");
    assert_eq!(*noted.lock().unwrap(), [json!({"text": "from the model é"})], "{lines:#?}");

    assert_eq!(asked.len(), 2, "one request a turn");
    assert!(asked[0].body.to_string().contains("Note what you are told to note."));
    assert!(asked[1].body.to_string().contains("417"), "the model is told what the tool answered");
    let key =
        ["x-api-key", "authorization", "x-goog-api-key"].iter().find_map(|name| asked[0].headers.get(*name));
    assert!(key.is_some_and(|key| key.to_str().unwrap().ends_with("host-key")), "{}", asked[0].path);
    let everything = format!("{lines:?} {result:?} {asked:?}");
    assert!(!everything.contains("canary") && !everything.contains("Bearer runcaps"));
    place.is_left_empty().await;
}

async fn can_be_stopped(agent: Agent) {
    let model = Model::start([Turn::Hang]).await;
    let (tool, noted) = note();
    let place = Place::new();
    let stop = Stop::new();
    let (context, lines) = context(&stop);
    let (engine, spec) = (place.engine(agent, &model, vec![tool]), place.spec(agent));
    let running = engine.run(&spec, context);
    let stopping = async {
        tokio::time::timeout(Duration::from_secs(60), model.hangs()).await.expect("the model is asked");
        assert!(place.is_alive());
        stop.cancel("enough");
        Instant::now()
    };
    let (result, stopped) = tokio::join!(running, stopping);
    eprintln!("{agent:?}: stopping in the middle of a turn took {:.1} s", stopped.elapsed().as_secs_f64());
    assert!(stopped.elapsed() < Duration::from_secs(10));
    assert_eq!(result.unwrap().outcome, Some(Outcome::Canceled), "{lines:?}");
    assert!(noted.lock().unwrap().is_empty());
    place.is_left_empty().await;
}

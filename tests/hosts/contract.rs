//! A program that serves a run's capabilities on its standard input and output: this test itself, started by a real agent.

use mesh_harness::capability::{AfterCall, CapabilityContract, CapabilityProgram, serve_capabilities};
use mesh_harness::host::HostEnv;
use std::sync::Arc;

use crate::programs::note;
use serde_json::{Value, json};

/// The harness of tests writes to standard output, so the two outputs change places.
const PROGRAM: &str = r#"exec "$0" --exact contract::program --nocapture 3>&1 1>&2 2>&3"#;

/// The program as an engine is told about it.
pub(crate) fn itself() -> CapabilityProgram {
    let file = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    CapabilityProgram { command: "/bin/sh".into(), args: vec!["-c".into(), PROGRAM.into(), file] }
}

/// Serves one capability, where an agent has started it; else there is nothing to do.
#[tokio::test]
async fn program() {
    let Ok(contract) = CapabilityContract::of_process(&HostEnv::process()) else { return };
    let (note, noted) = note();
    let after_call: AfterCall = Arc::new(move || Some(Value::from(noted.lock().unwrap().clone())));
    let (input, output) = (tokio::io::stdin(), tokio::io::stderr());
    serve_capabilities(&contract, vec![note], Some(after_call), input, output).await.unwrap();
}

/// What the program emits when it was told this once.
pub(crate) fn emitted(text: &str) -> Value {
    json!([{"text": text}])
}

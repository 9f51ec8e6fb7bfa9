//! An engine of one's own: no model at all, but a program's judgement, behind the same seam as every agent.
//! `cargo run -p mesh-harness --example custom_engine`.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;

use mesh_harness::agent::{
    AgentEngine, EngineContext, EngineError, EngineResult, EngineRun, Refusal, RunSpec, SharedEngine,
};
use mesh_harness::outcome::Outcome;
use serde_json::json;

/// Counts the files of the working directory.
struct Counts;

impl AgentEngine for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }

    fn supports(&self, spec: &RunSpec) -> Result<(), Refusal> {
        if spec.workdir.is_dir() { Ok(()) } else { Err(Refusal::because("the working directory is missing")) }
    }

    fn run<'a>(&'a self, spec: &'a RunSpec, context: EngineContext) -> EngineRun<'a> {
        Box::pin(async move {
            self.supports(spec)
                .map_err(|refusal| EngineError::Refused { engine: "counts".into(), refusal })?;
            if context.stop.is_fired() {
                return Ok(EngineResult { outcome: Some(Outcome::Canceled), ..EngineResult::default() });
            }
            let setup = |source: std::io::Error| EngineError::Setup {
                what: "the working directory".into(),
                source: source.into(),
            };
            let mut entries = tokio::fs::read_dir(&spec.workdir).await.map_err(setup)?;
            let mut files = 0;
            while entries.next_entry().await.map_err(setup)?.is_some() {
                files += 1;
            }
            context.log.line("counted");
            Ok(EngineResult {
                text: format!("{files} files"),
                emissions: Some(json!({"files": files})),
                outcome: Some(Outcome::Completed),
            })
        })
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> anyhow::Result<()> {
    let workdir = tempfile::tempdir()?;
    std::fs::write(workdir.path().join("one"), "1")?;
    let engine: SharedEngine = Arc::new(Counts);
    let spec = RunSpec { workdir: workdir.path().to_owned(), ..RunSpec::default() };
    let result = engine.run(&spec, EngineContext::default()).await?;
    println!("{}: {}", engine.name(), result.text);
    anyhow::ensure!(result.text == "1 files" && result.emissions == Some(json!({"files": 1})));

    let nowhere = RunSpec { workdir: workdir.path().join("missing"), ..RunSpec::default() };
    let refused = engine.run(&nowhere, EngineContext::default()).await;
    anyhow::ensure!(matches!(refused, Err(EngineError::Refused { .. })));
    Ok(())
}

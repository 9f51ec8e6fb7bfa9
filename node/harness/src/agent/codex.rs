//! The `codex` engine: `codex exec`, configured by a directory of its own and answering through a file.
//!
//! The address for model calls is written into its configuration: it ignores the variable. The configuration holds
//! tokens, so its directory is outside the working directory and gone when the run ends. Servers are required: it waits
//! for them and fails without.

mod config;

use std::ffi::OsString;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::child::Child;
use super::child_env::ChildEnv;
use super::driven::{About, Drive, Driver, Finished, bounded, key};
use super::private_dir::PrivateDir;
use super::{EngineError, EngineSelection, RunSpec};
use crate::environment::{Harness, compile_environment};
use crate::limits::{AGENT_ANSWER_BYTES, AGENT_END_TIME, STOP_GRACE};
use crate::outcome::Outcome;

const NAME: &str = "codex";
const ENABLE: &str = "RUNNER_ENABLE_CODEX";
const PROVIDER: &str = "openai";
const HOST_KEY: &str = "OPENAI_API_KEY";
const KEY: &str = "CODEX_API_KEY";

/// Its own settings, which pass to it.
const PREFIXES: [&str; 2] = ["OPENAI_", "CODEX_"];

/// The file for its last message, in its own directory.
const ANSWER_FILE: &str = "answer.txt";

/// Drives Codex.
#[derive(Debug)]
pub struct CodexEngine {
    parts: EngineSelection,
    program: String,
}

impl CodexEngine {
    /// An engine that finds `codex` in the host's `PATH`.
    #[must_use]
    pub fn new(parts: EngineSelection) -> Self {
        Self { parts, program: "codex".into() }
    }

    /// The same engine with another program.
    #[must_use]
    pub fn with_program(self, program: impl Into<String>) -> Self {
        Self { program: program.into(), ..self }
    }

    fn env(&self, spec: &RunSpec, private: &PrivateDir) -> ChildEnv {
        let mut env = ChildEnv::of_run(spec, &self.parts.host, &PREFIXES);
        env.set("CODEX_HOME", private.path().to_string_lossy());
        if let Some(gateway) = &spec.gateway {
            env.set("OPENAI_BASE_URL", gateway.endpoint(PROVIDER));
            env.set_secret(HOST_KEY, &gateway.run_token);
            env.set_secret(KEY, &gateway.run_token);
            return env;
        }
        if let Some(key) = key(self, spec, PROVIDER) {
            env.set_secret(KEY, &key);
        }
        env
    }

    /// Where model calls go, if not to the provider itself.
    fn base_url(&self, spec: &RunSpec) -> Option<String> {
        let asked = spec.gateway.as_ref().map(|gateway| gateway.endpoint(PROVIDER));
        let asked = asked.or_else(|| spec.provider.base_urls.get(PROVIDER).cloned());
        asked.or_else(|| self.parts.host.get("OPENAI_BASE_URL"))
    }

    async fn run_program(&self, drive: Drive<'_>) -> Result<Finished, EngineError> {
        let private = PrivateDir::outside(&drive.spec.workdir)?;
        let config = config::render(&drive.servers, self.base_url(drive.spec).as_deref());
        private.write("config.toml", config.as_bytes())?;
        let compiled = compile_environment(drive.spec.environment.as_ref(), Harness::Codex);
        if let Some(instructions) = &compiled.instructions {
            private.write("AGENTS.md", instructions.as_bytes())?;
        }
        let answer = private.path().join(ANSWER_FILE);
        let mut arguments: Vec<OsString> =
            ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", "-C"]
                .map(OsString::from)
                .into();
        arguments.push(drive.spec.workdir.clone().into());
        if let Some(model) = &drive.spec.provider.model {
            arguments.extend(["-m".into(), OsString::from(model)]);
        }
        arguments.extend(["-o".into(), answer.into(), "-".into()]);

        let mut child =
            Child::start(&self.program, arguments, &self.env(drive.spec, &private), &drive.spec.workdir)?;
        child.tell(drive.task.clone());
        let mut last_text = String::new();
        let reading = async {
            while let Some(line) = child.line().await {
                follow(&line, &mut last_text, &drive);
            }
        };
        if let Err(reason) = drive.stop.or_drop(reading).await {
            child.end(STOP_GRACE).await;
            return Ok(Finished::stopped(&reason, bounded(last_text)));
        }
        let ended = child.finish(AGENT_END_TIME).await;
        let outcome = if ended.status.is_some_and(|status| status.success()) {
            Outcome::Completed
        } else {
            let status =
                ended.status.map_or_else(|| "unknown status".to_owned(), |status| status.to_string());
            drive.log.line(&format!("codex ended with {status} and wrote: {}", ended.stderr));
            Outcome::Failed
        };
        let text = Some(written(&private)).filter(|text| !text.is_empty()).unwrap_or(last_text);
        Ok(Finished { text: bounded(text), outcome })
    }
}

/// Follows what the program says: its words, and its tools for the log.
fn follow(line: &str, last_text: &mut String, drive: &Drive<'_>) {
    let Ok(line) = serde_json::from_str::<Value>(line) else { return };
    let item = &line["item"];
    match (line["type"].as_str(), item["type"].as_str()) {
        (Some("item.completed"), Some("agent_message")) => {
            *last_text = item["text"].as_str().unwrap_or_default().to_owned();
        }
        (Some("item.started"), Some(kind)) => drive.log.line(&format!("codex: {kind}")),
        (Some("turn.failed"), _) => {
            let message = line["error"]["message"].as_str().unwrap_or("no reason given");
            drive.log.line(&format!("codex: the turn failed: {}", bounded(message.to_owned())));
        }
        _ => {}
    }
}

/// What the program wrote as its last message.
fn written(private: &PrivateDir) -> String {
    let content = private.read(ANSWER_FILE, AGENT_ANSWER_BYTES).ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&content).trim_end().to_owned()
}

impl Driver for CodexEngine {
    fn about(&self) -> About<'_> {
        About { name: NAME, enable: ENABLE, host_key: Some(HOST_KEY), parts: &self.parts }
    }

    fn drive<'a>(&'a self, drive: Drive<'a>) -> BoxFuture<'a, Result<Finished, EngineError>> {
        Box::pin(self.run_program(drive))
    }
}

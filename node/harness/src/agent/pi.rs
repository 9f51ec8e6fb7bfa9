//! The `pi` engine: Pi in its RPC mode, commands and events as lines of JSON.
//!
//! ```text
//!   get_state ──> prompt ──> turns ... ──> agent_end: the last turn's words are the answer
//!                              └── it asks again after an error ──┘
//! ```
//!
//! What is said in between, beside tools, is no answer. Pi has no MCP, so a run with capabilities or connectors is
//! refused. An extension that wants an answer of a person fails the run and says what to do: nobody would see its dialog,
//! and nothing is chosen or allowed in a person's place.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::child::{Child, Lines};
use super::child_env::ChildEnv;
use super::driven::{About, Drive, Driver, Finished, bounded};
use super::{EngineError, EngineSelection, Refusal, RunSpec, gateway};
use crate::environment::Harness;
use crate::limits::{AGENT_READY_TIME, AGENT_RETRY_TIME, STOP_GRACE};
use crate::log::Log;
use crate::outcome::Outcome;

const NAME: &str = "pi";
const ENABLE: &str = "RUNNER_ENABLE_PI";

/// Its own settings, which pass to it.
const PREFIXES: [&str; 1] = ["PI_"];

/// What a run needs whatever the host says: no calls but those to the model.
const SETTINGS: [(&str, &str); 2] = [("PI_OFFLINE", "1"), ("PI_TELEMETRY", "0")];

/// Requests of an extension that wait for a person.
const DIALOGS: [&str; 4] = ["select", "confirm", "input", "editor"];

/// Why a turn ended whose model gave no answer.
const FAILED: &str = "error";

/// How much Pi thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// Not at all.
    Off,
    /// Hardly.
    Minimal,
    /// A little.
    Low,
    /// As usual.
    Medium,
    /// More.
    High,
    /// Much more.
    XHigh,
    /// As much as it can.
    Max,
}

impl Thinking {
    /// Pi's level for an effort by name. `none` is off; there is no level for `ultra`.
    #[must_use]
    pub fn of_effort(effort: &str) -> Option<Self> {
        Some(match effort {
            "none" | "off" => Self::Off,
            "minimal" => Self::Minimal,
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            "xhigh" => Self::XHigh,
            "max" => Self::Max,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// Drives Pi.
#[derive(Debug)]
pub struct PiEngine {
    parts: EngineSelection,
    program: String,
    thinking: Option<Thinking>,
}

impl PiEngine {
    /// An engine that finds `pi` in the host's `PATH`.
    #[must_use]
    pub fn new(parts: EngineSelection) -> Self {
        Self { parts, program: "pi".into(), thinking: None }
    }

    /// The same engine with another program.
    #[must_use]
    pub fn with_program(self, program: impl Into<String>) -> Self {
        Self { program: program.into(), ..self }
    }

    /// The same engine that thinks this much, instead of as Pi is set up.
    #[must_use]
    pub fn with_thinking(self, thinking: Thinking) -> Self {
        Self { thinking: Some(thinking), ..self }
    }

    fn env(&self, spec: &RunSpec) -> ChildEnv {
        let mut env = ChildEnv::of_run(spec, &self.parts.host, &PREFIXES);
        for (name, value) in SETTINGS {
            env.set(name, value);
        }
        for provider in gateway::ROUTED {
            if let Some(key) = spec.provider.credentials.of(provider) {
                env.set_secret(&format!("{}_API_KEY", provider.to_ascii_uppercase()), key);
            }
        }
        env
    }

    async fn run_program(&self, drive: Drive<'_>) -> Result<Finished, EngineError> {
        let mut arguments = vec!["--mode", "rpc"];
        if let Some(model) = &drive.spec.provider.model {
            arguments.extend(["--model", model]);
        }
        if let Some(thinking) = self.thinking {
            arguments.extend(["--thinking", thinking.name()]);
        }
        let mut child = Child::start(&self.program, arguments, &self.env(drive.spec), &drive.spec.workdir)?;
        let (stdin, lines) = child.take_pipes()?;
        let prompt = drive.prompt(Harness::Acp);
        let mut rpc = Rpc { stdin, lines, log: drive.log, last: Turn::default() };
        let finished = match drive.stop.or_drop(rpc.converse(&prompt)).await {
            Ok(finished) => finished,
            Err(reason) => {
                let _gone = timeout(STOP_GRACE, rpc.send(json!({"type": "abort"}))).await;
                Ok(Finished::stopped(&reason, bounded(rpc.last.text)))
            }
        };
        let ended = child.end(STOP_GRACE).await;
        if finished.is_err() && !ended.stderr.is_empty() {
            drive.log.line(&format!("pi wrote: {}", ended.stderr));
        }
        finished.map_err(|message| EngineError::Agent { message })
    }
}

/// What the model said in its last turn, and why the turn ended.
#[derive(Debug, Default)]
struct Turn {
    text: String,
    reason: String,
}

/// A conversation in lines.
struct Rpc<'a> {
    stdin: ChildStdin,
    lines: Lines<ChildStdout>,
    log: &'a Log,
    last: Turn,
}

impl Rpc<'_> {
    async fn send(&mut self, command: Value) -> Result<(), String> {
        let line = format!("{command}\n");
        let sent = async {
            self.stdin.write_all(line.as_bytes()).await?;
            self.stdin.flush().await
        };
        sent.await.map_err(|_gone| "it reads nothing any more".into())
    }

    /// The next thing it says. A dialog is an error.
    async fn next(&mut self) -> Result<Value, String> {
        loop {
            let Some(line) = self.lines.next().await else {
                return Err("it ended before it had answered".into());
            };
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            let method = event["method"].as_str().unwrap_or_default();
            if event["type"] == "extension_ui_request" && DIALOGS.contains(&method) {
                return Err(format!(
                    "an extension wants a person's answer ({method}); run pi in this project once, answer it, and try again"
                ));
            }
            return Ok(event);
        }
    }

    /// The answer to a command. Events before it are taken in.
    async fn response(&mut self, command: &str) -> Result<Value, String> {
        loop {
            let event = self.next().await?;
            self.take_in(&event);
            if event["type"] == "response" && event["command"] == command {
                if event["success"] == true {
                    return Ok(event);
                }
                let error = event["error"].as_str().unwrap_or("no reason given");
                self.log.line(&format!("pi refuses {command}: {}", bounded(error.to_owned())));
                return Err(format!("it refuses {command}"));
            }
        }
    }

    async fn converse(&mut self, prompt: &str) -> Result<Finished, String> {
        let opening = async {
            self.send(json!({"id": "state", "type": "get_state"})).await?;
            self.response("get_state").await
        };
        let state = timeout(AGENT_READY_TIME, opening).await;
        let state = state.map_err(|_elapsed| format!("it was not ready after {AGENT_READY_TIME:?}"))??;
        let data = &state["data"];
        self.log.line(&format!(
            "pi runs {}/{}, thinking {}",
            data["model"]["provider"].as_str().unwrap_or("?"),
            data["model"]["id"].as_str().unwrap_or("?"),
            data["thinkingLevel"].as_str().unwrap_or("?"),
        ));
        self.send(json!({"id": "prompt", "type": "prompt", "message": prompt})).await?;
        loop {
            let event = self.next().await?;
            self.take_in(&event);
            if event["type"] == "response" && event["command"] == "prompt" && event["success"] != true {
                return Err("it refuses prompt".into());
            }
            if event["type"] == "agent_end" && !(self.last.reason == FAILED && self.tries_again().await) {
                return self.finished();
            }
        }
    }

    /// Whether it says, after an error, that it asks the model once more.
    async fn tries_again(&mut self) -> bool {
        let told = async {
            loop {
                let event = self.next().await?;
                match event["type"].as_str() {
                    Some("auto_retry_start") => {
                        self.log.line("pi asks its model again");
                        return Ok::<_, String>(true);
                    }
                    Some("auto_retry_end") => return Ok(false),
                    _ => self.take_in(&event),
                }
            }
        };
        matches!(timeout(AGENT_RETRY_TIME, told).await, Ok(Ok(true)))
    }

    fn take_in(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("turn_end") => {
                let message = &event["message"];
                let blocks = message["content"].as_array().into_iter().flatten();
                let texts =
                    blocks.filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str());
                let reason = message["stopReason"].as_str().unwrap_or_default().to_owned();
                self.last = Turn { text: bounded(texts.collect::<Vec<_>>().join("\n")), reason };
            }
            Some("tool_execution_start") => {
                self.log.line(&format!("pi uses {}", event["toolName"].as_str().unwrap_or("a tool")));
            }
            _ => {}
        }
    }

    fn finished(&mut self) -> Result<Finished, String> {
        let Turn { text, reason } = std::mem::take(&mut self.last);
        let outcome = match reason.as_str() {
            "stop" | "length" => Outcome::Completed,
            "aborted" => Outcome::Canceled,
            _ => Outcome::Failed,
        };
        if outcome == Outcome::Completed && text.is_empty() {
            return Err("its last turn has no words".into());
        }
        Ok(Finished { text, outcome })
    }
}

impl Driver for PiEngine {
    fn about(&self) -> About<'_> {
        About { name: NAME, enable: ENABLE, host_key: None, parts: &self.parts }
    }

    fn check(&self, spec: &RunSpec) -> Result<(), Refusal> {
        if spec.gateway.is_some() {
            return Err(Refusal::because("pi cannot send its model calls to a gateway"));
        }
        if !spec.connectors.is_empty() || self.parts.has_capabilities() {
            return Err(Refusal::because("pi has no MCP, so it takes neither connectors nor capabilities"));
        }
        Ok(())
    }

    fn drive<'a>(&'a self, drive: Drive<'a>) -> BoxFuture<'a, Result<Finished, EngineError>> {
        Box::pin(self.run_program(drive))
    }
}

//! The `claude-code` engine: the Claude Code program, without a terminal, answering in lines of JSON.
//!
//! Its configuration is in a private directory and never in its arguments, which every process can see. Its own servers
//! and the user's settings are left out where a run brings an environment. It has to say at its start that it is
//! connected to the run's capabilities: it would leave out a server it does not like without a word.

mod events;

use std::ffi::OsString;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::child::Child;
use super::child_env::ChildEnv;
use super::driven::{About, Drive, Driver, Finished, bounded, key};
use super::private_dir::PrivateDir;
use super::servers::{SURFACE, Server};
use super::{EngineError, EngineSelection, RunSpec};
use crate::environment::{Harness, compile_environment};
use crate::limits::{AGENT_END_TIME, STOP_GRACE};
use crate::outcome::Outcome;
use events::{Answer, Event};

const NAME: &str = "claude-code";
const ENABLE: &str = "RUNNER_ENABLE_CLAUDE_CODE";
const PROVIDER: &str = "anthropic";
const KEY: &str = "ANTHROPIC_API_KEY";
const BASE_URL: &str = "ANTHROPIC_BASE_URL";

/// Its own settings, which pass to it.
const PREFIXES: [&str; 2] = ["ANTHROPIC_", "CLAUDE_"];

/// What a run needs whatever the host says: no calls but those to the model, few repeats, servers that are connected
/// before the first turn, and leave to run as root in a box that is thrown away.
const SETTINGS: [(&str, &str); 9] = [
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("CLAUDE_CODE_MAX_RETRIES", "2"),
    ("MCP_CONNECTION_NONBLOCKING", "0"),
    ("MCP_CONNECT_TIMEOUT_MS", "30000"),
    ("IS_SANDBOX", "1"),
    ("ENABLE_TOOL_SEARCH", "false"),
];

/// The answer when there is none in words.
const NO_ANSWER: &str = "(no answer)";

/// Drives Claude Code.
#[derive(Debug)]
pub struct ClaudeCodeEngine {
    parts: EngineSelection,
    program: String,
}

impl ClaudeCodeEngine {
    /// An engine that finds `claude` in the host's `PATH`.
    #[must_use]
    pub fn new(parts: EngineSelection) -> Self {
        Self { parts, program: "claude".into() }
    }

    /// The same engine with another program.
    #[must_use]
    pub fn with_program(self, program: impl Into<String>) -> Self {
        Self { program: program.into(), ..self }
    }

    fn env(&self, spec: &RunSpec) -> ChildEnv {
        let mut env = ChildEnv::of_run(spec, &self.parts.host, &PREFIXES);
        for (name, value) in SETTINGS {
            env.set(name, value);
        }
        if let Some(gateway) = &spec.gateway {
            env.set(BASE_URL, gateway.endpoint(PROVIDER));
            env.set_secret(KEY, &gateway.run_token);
            return env;
        }
        if let Some(url) = spec.provider.base_urls.get(PROVIDER) {
            env.set(BASE_URL, url);
        }
        if let Some(key) = key(self, spec, PROVIDER) {
            env.set_secret(KEY, &key);
        }
        env
    }

    fn arguments(&self, drive: &Drive<'_>, private: &PrivateDir) -> Result<Vec<OsString>, EngineError> {
        let compiled = compile_environment(drive.spec.environment.as_ref(), Harness::ClaudeCode);
        let mut arguments: Vec<OsString> = [
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--dangerously-skip-permissions",
            "--no-session-persistence",
            "--strict-mcp-config",
            "--mcp-config",
        ]
        .map(OsString::from)
        .into();
        let servers = private.write("servers.json", configuration(&drive.servers).to_string().as_bytes())?;
        arguments.push(servers.into());
        let mut add = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        if let Some(model) = &drive.spec.provider.model {
            add("--model", model.into());
        }
        if let Some(instructions) = &compiled.instructions {
            let file = private.write("instructions.md", instructions.as_bytes())?;
            add("--append-system-prompt-file", file.into());
        }
        if !compiled.plugin.is_empty() {
            add("--plugin-dir", private.write_below("plugin", &compiled.plugin)?.into());
        }
        if compiled.project_settings_only {
            add("--setting-sources", "project".into());
        }
        if let Some(steps) = drive.spec.limits.max_steps {
            add("--max-turns", steps.to_string().into());
        }
        if let Some(allowed) = allowed_tools(drive) {
            add("--allowedTools", allowed.into());
        }
        Ok(arguments)
    }

    async fn run_program(&self, drive: Drive<'_>) -> Result<Finished, EngineError> {
        let private = PrivateDir::outside(&drive.spec.workdir)?;
        let arguments = self.arguments(&drive, &private)?;
        let mut child = Child::start(&self.program, arguments, &self.env(drive.spec), &drive.spec.workdir)?;
        child.tell(drive.task.clone());
        let mut answer = Answer::default();
        let reading = drive.stop.or_drop(read(&mut child, &mut answer, &drive)).await;
        let finished = match reading {
            Err(reason) => {
                child.end(STOP_GRACE).await;
                return Ok(Finished::stopped(&reason, bounded(answer.last_text)));
            }
            Ok(Err(message)) => {
                child.end(STOP_GRACE).await;
                return Err(EngineError::Agent { message });
            }
            Ok(Ok(finished)) => finished,
        };
        let ended = child.finish(AGENT_END_TIME).await;
        if !ended.stderr.is_empty() && finished.as_ref().is_none_or(|it| it.outcome != Outcome::Completed) {
            drive.log.line(&format!("claude-code wrote: {}", ended.stderr));
        }
        finished.ok_or_else(|| EngineError::Agent {
            message: match ended.status {
                Some(status) => format!("it ended without a result ({status})"),
                None => "it ended without a result".into(),
            },
        })
    }
}

/// Reads what the program says, up to its result; None if it ends without one.
async fn read(child: &mut Child, answer: &mut Answer, drive: &Drive<'_>) -> Result<Option<Finished>, String> {
    while let Some(line) = child.line().await {
        match Event::parse(&line) {
            Event::Ready { servers } => {
                let state = servers.iter().find(|(name, _)| name == SURFACE).map(|(_, state)| state.as_str());
                if drive.has_surface() && state != Some("connected") {
                    drive.log.line(&format!("claude-code says {state:?} of its capabilities"));
                    return Err("it is not connected to its capabilities".into());
                }
            }
            Event::Said { text, tools } => {
                tools.iter().for_each(|tool| drive.log.line(&format!("claude-code uses {tool}")));
                answer.say(text);
            }
            Event::Result { text, outcome } => {
                let text = text.or_else(|| answer.take_last()).unwrap_or_else(|| NO_ANSWER.into());
                return Ok(Some(Finished { text: bounded(text), outcome }));
            }
            Event::Other => {}
        }
    }
    Ok(None)
}

/// The file with the run's servers.
fn configuration(servers: &[Server]) -> Value {
    let all: Map<String, Value> =
        servers.iter().map(|server| (server.name.clone(), server.to_json())).collect();
    json!({"mcpServers": all})
}

/// The tools the run allows, if it says: those it names, its capabilities and its connectors.
fn allowed_tools(drive: &Drive<'_>) -> Option<String> {
    let named = drive.spec.permissions.tools.as_ref()?;
    let capabilities = drive.capabilities.iter().map(|tool| format!("mcp__{SURFACE}__{tool}"));
    // All of a server's, where its tools are not known by name.
    let by_name = |server: &&Server| server.name == SURFACE && !drive.capabilities.is_empty();
    let servers = drive.servers.iter().filter(|server| !by_name(server));
    let servers = servers.map(|server| format!("mcp__{}", server.name));
    Some(named.iter().cloned().chain(capabilities).chain(servers).collect::<Vec<_>>().join(","))
}

impl Driver for ClaudeCodeEngine {
    fn about(&self) -> About<'_> {
        About { name: NAME, enable: ENABLE, host_key: Some(KEY), parts: &self.parts }
    }

    fn drive<'a>(&'a self, drive: Drive<'a>) -> BoxFuture<'a, Result<Finished, EngineError>> {
        Box::pin(self.run_program(drive))
    }
}

//! One conversation with an ACP agent: a session, one prompt, and what is said until it is answered.
//!
//! ```text
//!   initialize ──> session/new with the servers ──> session/prompt ──> updates ... ──> the reason why the turn ended
//!                                                        │ stop
//!                                                        └──> session/cancel, and a time to end the turn
//! ```
//!
//! What an agent sends is read leniently: kinds of updates that are not known are passed over, and so is what is no
//! message at all. One that asks and does not read the answers is not listened to until it does: answers are kept in
//! memory, without a bound of the library's. Everything it wants to do is allowed, once: the box it runs in is the
//! boundary, and an answer for always would be written into the working directory.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::{ConnectionTo, Responder, schema};
use agent_client_protocol::{Agent, Client, Error, Lines as LineTransport, UntypedMessage};
use futures_util::{sink, stream};
use schema::{EnvVariable, HttpHeader, McpServer, McpServerHttp, McpServerSse, McpServerStdio};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::agent::child::Lines;
use crate::agent::driven::{Finished, bounded};
use crate::agent::servers::{Server, Way};
use crate::limits::{
    AGENT_ANSWER_BYTES, AGENT_CANCEL_TIME, AGENT_ID_BYTES, AGENT_READY_TIME, AGENT_REQUESTS,
};
use crate::log::Log;
use crate::outcome::Outcome;
use crate::stop::{Stop, StopReason};

/// What is wrong when an agent says no more.
const HUNG_UP: &str = "it ended in the middle of the conversation";

/// What is said to an agent.
pub(super) struct Conversation {
    pub(super) cwd: PathBuf,
    pub(super) servers: Vec<McpServer>,
    pub(super) prompt: String,
    /// The engine's name, for the log.
    pub(super) name: String,
}

/// What an agent has said so far.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<String>>);

impl Said {
    fn text(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    Notification,
    Answer,
    Noise,
}

impl Kind {
    fn of(line: &str) -> Self {
        let Ok(Value::Object(message)) = serde_json::from_str(line) else { return Self::Noise };
        let is_name = |id: &Value| id.is_number() || id.as_str().is_some_and(|id| id.len() <= AGENT_ID_BYTES);
        match (message.get("method"), message.get("id")) {
            (Some(Value::String(_)), Some(id)) if is_name(id) => Self::Request,
            (Some(Value::String(_)), None) => Self::Notification,
            (None, Some(_)) => Self::Answer,
            _ => Self::Noise,
        }
    }
}

/// How a conversation ended, or what an agent did wrong.
type Ending = Result<Finished, String>;

/// Holds a conversation to its end, or until the stop fires.
pub(super) async fn converse(
    stdin: ChildStdin,
    lines: Lines<ChildStdout>,
    conversation: Conversation,
    stop: &Stop,
    log: &Log,
) -> Ending {
    let (said, hung_up) = (Said::default(), CancellationToken::new());
    let gone = hung_up.clone();
    let room = Arc::new(Semaphore::new(AGENT_REQUESTS));
    let incoming = stream::unfold((lines, hung_up.clone(), room.clone()), async |(mut lines, gone, room)| {
        while let Some(line) = lines.next().await {
            let kind = Kind::of(&line);
            if kind == Kind::Request {
                // Given back when its answer is written. Nobody closes this semaphore.
                room.acquire().await.ok()?.forget();
            }
            if kind != Kind::Noise {
                return Some((Ok(line), (lines, gone, room)));
            }
        }
        gone.cancel();
        None
    });
    let outgoing = sink::unfold((stdin, room), async |(mut stdin, room), mut line: String| {
        let is_answer = Kind::of(&line) == Kind::Answer;
        line.push('\n');
        stdin.write_all(line.as_bytes()).await?;
        stdin.flush().await?;
        room.add_permits(usize::from(is_answer));
        Ok::<_, std::io::Error>((stdin, room))
    });
    let (heard, asked) = ((said.clone(), log.clone(), conversation.name.clone()), log.clone());
    let (told, mut ended) = oneshot::channel();
    let connection = Client
        .v1()
        .name("mesh-harness")
        .on_receive_notification(
            async move |notification: UntypedMessage, _connection| {
                hear(&notification, &heard.0, &heard.1, &heard.2);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: UntypedMessage, responder: Responder<Value>, _connection| {
                answer(&request, responder, &asked)
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(LineTransport::new(Box::pin(outgoing), Box::pin(incoming)), async |agent| {
            let ending = tokio::select! {
                biased;
                ending = hold(&agent, conversation, &said, stop, log) => match ending {
                    Err(_) if hung_up.is_cancelled() => Err(HUNG_UP.into()),
                    ending => ending,
                },
                () = hung_up.cancelled() => Err(HUNG_UP.into()),
            };
            // Whoever waits for it is below.
            let _ = told.send(ending);
            Ok(())
        });
    tokio::select! {
        biased;
        // The connection itself ends only when all is written, and an agent need not read.
        Ok(ending) = &mut ended => ending,
        result = connection => match (ended.try_recv(), result) {
            (Ok(ending), _) => ending,
            // Whether its end or what follows from it is noticed first is a matter of chance.
            (Err(_), Err(error)) if !gone.is_cancelled() => {
                Err(format!("the connection to it broke ({})", error.code))
            }
            (Err(_), _) => Err(HUNG_UP.into()),
        },
    }
}

async fn hold(
    agent: &ConnectionTo<Agent>,
    conversation: Conversation,
    said: &Said,
    stop: &Stop,
    log: &Log,
) -> Ending {
    let failed = |what: &str, error: Error| {
        log.line(&format!("{}: {what} failed: {}", conversation.name, bounded(error.message)));
        format!("{what} failed ({})", error.code)
    };
    let stopped = |reason: &StopReason| Ok(Finished::stopped(reason, said.text().clone()));
    let opening = async {
        let us = schema::Implementation::new("mesh-harness", crate::kernel_version());
        let hello = schema::InitializeRequest::new(ProtocolVersion::V1).client_info(us);
        let agent_is =
            agent.send_request(hello).block_task().await.map_err(|error| failed("initialize", error))?;
        let takes = agent_is.agent_capabilities.mcp_capabilities;
        for server in &conversation.servers {
            let is_taken = match server {
                McpServer::Http(_) => takes.http,
                McpServer::Sse(_) => takes.sse,
                _ => true,
            };
            if !is_taken {
                return Err("it takes no server of the kind that this run has".to_owned());
            }
        }
        let session = schema::NewSessionRequest::new(conversation.cwd.clone())
            .mcp_servers(conversation.servers.clone());
        let session = agent.send_request(session).block_task().await;
        Ok(session.map_err(|error| failed("session/new", error))?.session_id)
    };
    let session = match stop.or_drop(timeout(AGENT_READY_TIME, opening)).await {
        Ok(Ok(session)) => session?,
        Ok(Err(_elapsed)) => return Err(format!("it was not ready after {AGENT_READY_TIME:?}")),
        Err(reason) => return stopped(&reason),
    };

    let prompt = vec![schema::ContentBlock::Text(schema::TextContent::new(conversation.prompt.clone()))];
    let turn = agent.send_request(schema::PromptRequest::new(session.clone(), prompt)).block_task();
    let mut turn = std::pin::pin!(turn);
    let ended = match stop.or_drop(turn.as_mut()).await {
        Ok(ended) => ended,
        Err(reason) => {
            let asked = agent.send_notification(schema::CancelNotification::new(session));
            if asked.is_ok() && timeout(AGENT_CANCEL_TIME, turn).await.is_err() {
                log.line(&format!("{} does not end its turn", conversation.name));
            }
            return stopped(&reason);
        }
    };
    let ended = ended.map_err(|error| failed("session/prompt", error))?;
    let outcome = match ended.stop_reason {
        schema::StopReason::EndTurn | schema::StopReason::MaxTokens => Outcome::Completed,
        schema::StopReason::MaxTurnRequests => Outcome::StepsExhausted,
        schema::StopReason::Cancelled => Outcome::Canceled,
        _ => Outcome::Failed,
    };
    Ok(Finished { text: said.text().clone(), outcome })
}

/// Takes in what an agent says.
fn hear(notification: &UntypedMessage, said: &Said, log: &Log, name: &str) {
    let update = &notification.params["update"];
    let words = || update["content"]["text"].as_str().unwrap_or_default();
    match update["sessionUpdate"].as_str() {
        Some("agent_message_chunk") => {
            let mut text = said.text();
            if text.len() < AGENT_ANSWER_BYTES {
                text.push_str(words());
                *text = bounded(std::mem::take(&mut text));
            }
        }
        Some("agent_thought_chunk") => log.line(&format!("{name} thinks: {}", words())),
        Some("tool_call") => {
            log.line(&format!("{name} uses {}", update["title"].as_str().unwrap_or("a tool")));
        }
        _ => {}
    }
}

/// Answers what an agent asks for: permissions are given, and there is nothing else here.
fn answer(request: &UntypedMessage, responder: Responder<Value>, log: &Log) -> Result<(), Error> {
    if request.method != "session/request_permission" {
        return responder.respond_with_error(Error::method_not_found());
    }
    let is_short = |option: &&Value| option["optionId"].as_str().is_some_and(|id| id.len() <= AGENT_ID_BYTES);
    let options = request.params["options"].as_array().into_iter().flatten();
    let options: Vec<&Value> = options.filter(is_short).collect();
    let of_kind = |kind: &str| options.iter().find(|option| option["kind"] == kind);
    match of_kind("allow_once").or_else(|| of_kind("allow_always")) {
        Some(option) => {
            let choice = json!({"outcome": "selected", "optionId": option["optionId"]});
            responder.respond(json!({"outcome": choice}))
        }
        None => {
            log.line("an agent asks for a permission that cannot be given");
            responder.respond(json!({"outcome": {"outcome": "cancelled"}}))
        }
    }
}

/// A server as the protocol has it.
pub(super) fn server(server: &Server) -> McpServer {
    let name = server.name.as_str();
    match &server.way {
        Way::Program { command, args, env } => {
            let env = env.iter().map(|(name, value)| EnvVariable::new(name, value.expose())).collect();
            McpServer::Stdio(McpServerStdio::new(name, command).args(args.clone()).env(env))
        }
        Way::Http { url, headers } => {
            let headers = headers.iter().map(|(name, value)| HttpHeader::new(name, value.expose()));
            McpServer::Http(McpServerHttp::new(name, url).headers(headers.collect()))
        }
        Way::Sse { url, headers } => {
            let headers = headers.iter().map(|(name, value)| HttpHeader::new(name, value.expose()));
            McpServer::Sse(McpServerSse::new(name, url).headers(headers.collect()))
        }
    }
}

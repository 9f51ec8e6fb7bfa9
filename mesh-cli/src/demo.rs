//! The demo: three nodes on this machine, and what a mesh promises, shown with them.
//!
//! ```text
//!   found ──> look ──> ask ──> verify ──> hold ──> resume
//!    atlas,    who     @counter  the      vega is   vega is back:
//!    nova,     sees    on vega,  job's    killed,   the ask is answered,
//!    vega      whom    its job   evidence asked     by one run
//!                      on nova            again
//! ```
//! One function a step, what the earlier ones found in, what it found out. The first that fails is the last. Nothing is
//! acted: every figure is measured, and each step fails when what it is to show is not so.
//!
//! It uses no shortcut: nodes are made and started by commands of this program, tickets go through pipes, everything
//! else through the nodes' sockets.

pub(crate) mod agent;
mod cast;
mod counts;
mod node;
mod report;
mod setback;
mod story;
mod text;

use std::error::Error;
use std::time::{Duration, Instant};

use mesh_node::client::Client;
use mesh_protocol::api::ask::{AskCommand, FlightView, Receipt};
use mesh_protocol::api::mesh::InviteRequest;
use mesh_protocol::api::node::{ExecutorView, PeerStatus, Status};
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::trust::TrustSet;
use mesh_protocol::flight::FlightOutcome;
use mesh_protocol::id::JobId;
use mesh_protocol::policy::Trust;

use crate::commands::{judged, member};
use crate::exit::Exit;
use crate::invocation::Invocation;

use agent::Answer;
use cast::{AGENT_ADDRESS, Cast};
use report::{
    Asked, End, Finding, Founding, Hold, Input, Left, Member, Proof, Report, Resumption, Sight, Step,
    StepName,
};
pub(crate) use setback::Setback;
pub(crate) use text::Text;

/// How long nodes on one machine may take to see each other, and the sandbox to be looked at: on its first use its root
/// file system is built.
const SEEN_WITHIN: Duration = Duration::from_secs(60);
/// How long until a killed node is called unreachable. On loopback it takes a few seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);
/// How long an answer may take.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Seconds a ticket of the demo can be used.
const TICKET_SECONDS: u64 = 300;

/// Tells it, and keeps what was found.
struct Teller<'a> {
    invocation: &'a Invocation,
    steps: Vec<Step>,
}

/// The step that failed, and why.
struct Failed {
    name: StepName,
    took_ms: u64,
    setback: Setback,
}

/// Plays the demo. `keep` leaves the nodes running.
pub(crate) async fn play(invocation: &Invocation, text: &Text, keep: bool) -> Result<Exit, Setback> {
    let began = Instant::now();
    let mut teller = Teller { invocation, steps: Vec::new() };
    let mut cast = Cast::gather()?;
    let told = Box::pin(tell(&mut teller, &mut cast, text)).await;
    if let Err(failed) = told {
        teller.fail(failed, &mut cast);
    }
    let ok = teller.steps.iter().all(|step| step.ok);
    let took_ms = millis(began);
    let left = end(invocation, cast, keep);
    let input = Input { source: text.source.clone(), counts: text.counts.clone() };
    let report = Report { ok, took_ms, input, steps: teller.steps, left };
    invocation.printer.answer(&report, story::ending);
    Ok(if ok { Exit::Done } else { Exit::Negative })
}

/// Stops the nodes and removes their folder, or leaves both.
fn end(invocation: &Invocation, cast: Cast, keep: bool) -> Option<Left> {
    if keep {
        let homes = cast.nodes().map(|node| node.home.clone()).to_vec();
        return Some(Left { folder: cast.leave(), homes });
    }
    invocation.printer.note("... stopping the three nodes and removing their folder");
    None
}

async fn tell(teller: &mut Teller<'_>, cast: &mut Cast, text: &Text) -> Result<(), Failed> {
    let founding = teller.step(StepName::Found, found(cast)).await?;
    let sight = teller.step(StepName::Look, look(cast)).await?;
    let asked = teller.step(StepName::Ask, ask(cast, text)).await?;
    match asked.answer.job {
        Some(job) => drop(teller.step(StepName::Verify, verify(cast, &founding, job)).await?),
        None => teller.skip(StepName::Verify, &sight.sandbox),
    }
    let hold = teller.step(StepName::Hold, hold(cast, text)).await?;
    teller.step(StepName::Resume, resume(cast, text, &hold)).await?;
    Ok(())
}

impl Teller<'_> {
    /// Takes a step and tells it.
    async fn step<T: Clone + Into<Finding>>(
        &mut self,
        name: StepName,
        work: impl Future<Output = Result<T, Setback>>,
    ) -> Result<T, Failed> {
        self.invocation.printer.note(&format!("... {}", story::under_way(name)));
        let began = Instant::now();
        match Box::pin(work).await {
            Ok(found) => {
                let end = End::Found(Box::new(found.clone().into()));
                self.tell(Step { name, ok: true, took_ms: millis(began), end });
                Ok(found)
            }
            Err(setback) => Err(Failed { name, took_ms: millis(began), setback }),
        }
    }

    fn skip(&mut self, name: StepName, sandbox: &ExecutorView) {
        let why = sandbox.unavailable.clone().unwrap_or_else(|| "nova offers no sandbox".to_owned());
        let end = End::Skipped { why, fix: "mesh-cli setup gvisor" };
        self.tell(Step { name, ok: true, took_ms: 0, end });
    }

    fn fail(&mut self, failed: Failed, cast: &mut Cast) {
        let Failed { name, took_ms, setback } = failed;
        let causes = std::iter::successors(setback.source(), |cause| (*cause).source());
        let causes = causes.map(ToString::to_string).collect();
        let end = End::Failed { error: setback.to_string(), causes, logs: cast.last_words() };
        self.tell(Step { name, ok: false, took_ms, end });
    }

    fn tell(&mut self, step: Step) {
        let printer = &self.invocation.printer;
        let page = story::step(&step, self.invocation.wall_ms());
        if !step.ok {
            printer.complaint(&page);
        } else if !printer.json() {
            printer.text(&page);
        }
        self.steps.push(step);
    }
}

/// Atlas founds a mesh, the others join it with a ticket each.
async fn found(cast: &mut Cast) -> Result<Founding, Setback> {
    cast.atlas.command(&["init", "--trust", "mine"], "").await?;
    let atlas = cast.atlas.start().await?;
    let client = cast.atlas.client()?;
    let request = InviteRequest { ttl_seconds: TICKET_SECONDS, trust: Trust::Mine };
    let mut nodes = vec![in_mesh(&cast.atlas, &atlas)];
    for node in [&mut cast.nova, &mut cast.vega] {
        let ticket = client.invite(&request).await?.ticket;
        node.command(&["join", "-", "--trust", "mine"], &ticket).await?;
        let status = node.start().await?;
        nodes.push(in_mesh(node, &status));
    }
    let tickets = nodes.len().saturating_sub(1);
    Ok(Founding { mesh: atlas.mesh, nodes, tickets })
}

fn in_mesh(node: &node::Node, status: &Status) -> Member {
    Member { name: node.name, node: status.node, pid: node.pid(), addresses: status.addresses.clone() }
}

/// Waits until every node sees what the next steps need.
async fn look(cast: &Cast) -> Result<Sight, Setback> {
    let sandbox = sandbox(&cast.nova.client()?).await?;
    let (atlas, vega) = (cast.atlas.client()?, cast.vega.client()?);
    let offers = !sandbox.classes.is_empty();
    let vega_sees_it = async || {
        let status = vega.status().await?;
        let there = |peer: &&PeerStatus| peer.name == "nova" && peer.state == "alive";
        let nova = status.peers.iter().find(there);
        Ok(nova.filter(|nova| !offers || !nova.executor.classes.is_empty()).map(drop))
    };
    until("vega sees nova and its sandbox", SEEN_WITHIN, vega_sees_it).await?;
    let atlas_sees_all = async || {
        let status = atlas.status().await?;
        let agents = atlas.agents().await?;
        let agent = agents
            .iter()
            .any(|agent| agent.full.to_string() == AGENT_ADDRESS && agent.reachability == "online");
        let alive = status.peers.iter().filter(|peer| peer.state == "alive").count();
        Ok((alive == 2 && agent).then_some(status))
    };
    let status = until("atlas sees nova, vega and the agent", SEEN_WITHIN, atlas_sees_all).await?;
    Ok(Sight { status, sandbox })
}

/// What nova offers, once it has looked.
async fn sandbox(nova: &Client) -> Result<ExecutorView, Setback> {
    let looked = async || {
        // The checks of the sandbox are there once it was looked at.
        let checks = nova.doctor().await?;
        let executor = nova.status().await?.executor;
        let looked = checks.iter().any(|check| check.name.starts_with("sandbox-"));
        Ok(looked.then_some(executor))
    };
    until("nova has looked at its sandbox", SEEN_WITHIN, looked).await
}

/// Atlas asks the agent on vega, which has a job run on nova.
async fn ask(cast: &Cast, text: &Text) -> Result<Asked, Setback> {
    let atlas = cast.atlas.client()?;
    let began = Instant::now();
    let receipt = atlas.ask(&about(text)).await?;
    let flight = answered(&atlas, &receipt).await?;
    let answered_after_ms = millis(began);
    Ok(Asked { receipt, answered_after_ms, answer: right_answer(&flight, text)? })
}

fn about(text: &Text) -> AskCommand {
    AskCommand {
        to: AGENT_ADDRESS.to_owned(),
        task: text.body.clone(),
        request_id: None,
        deadline_seconds: None,
    }
}

async fn answered(atlas: &Client, receipt: &Receipt) -> Result<FlightView, Setback> {
    let view = atlas.flight(&receipt.reference, ANSWERED_WITHIN.as_secs()).await?;
    if view.terminal {
        return Ok(view);
    }
    Err(Setback::Late { what: "the ask is answered", within: ANSWERED_WITHIN })
}

/// The agent's answer, when it says of the text what this process counts itself.
fn right_answer(flight: &FlightView, text: &Text) -> Result<Answer, Setback> {
    let reply = match &flight.outcome {
        Some(FlightOutcome::Completed { reply }) => reply,
        Some(FlightOutcome::Failed { detail, .. }) => return Err(Setback::NoAnswer { why: detail.clone() }),
        Some(FlightOutcome::Cancelled { .. }) | None => {
            return Err(Setback::NoAnswer { why: flight.state.to_string() });
        }
    };
    let answer: Answer = serde_json::from_str(reply).map_err(Setback::NotAnAnswer)?;
    if answer.counts == text.counts {
        return Ok(answer);
    }
    Err(Setback::WrongAnswer { found: Box::new(answer.counts), expected: Box::new(text.counts.clone()) })
}

/// Takes the evidence from the node that asked for the job, and checks it with the mesh's root alone; the signer must
/// then be the node that was to run it.
async fn verify(cast: &Cast, founding: &Founding, job: JobId) -> Result<Proof, Setback> {
    let vega = cast.vega.client()?;
    let view = vega.job_result(job, ANSWERED_WITHIN.as_secs()).await?;
    let evidence = vega.evidence(job).await?;
    let bundle = Bundle::parse(&evidence)?;
    let not_proved = |why| Setback::NotProved { why };
    let signer = member(&cast.root()?, bundle.certificate.as_deref()).map_err(not_proved)?;
    if !founding.nodes.iter().any(|node| node.name == cast.nova.name && node.node == signer) {
        return Err(not_proved(format!("it is signed by {}, which is not nova", signer.short())));
    }
    let verdict = judged(&bundle, &TrustSet::node(&signer)?, Some(&job.to_string()));
    if verdict.exit() != Exit::Done {
        let why = verdict.reasons.first().map_or("something is missing in it", String::as_str);
        return Err(not_proved(why.to_owned()));
    }
    let result = view.result.as_ref();
    Ok(Proof {
        job,
        language: view.language,
        status: view.status,
        node: view.node,
        node_name: view.node_name.clone(),
        isolation: result.and_then(|result| result.isolation),
        duration_ms: result.map(|result| result.duration_ms),
        attestation: view.attestation.clone(),
        evidence_bytes: evidence.len(),
        verdict,
    })
}

/// Kills vega, and asks its agent again once atlas knows that vega cannot be reached.
async fn hold(cast: &mut Cast, text: &Text) -> Result<Hold, Setback> {
    let atlas = cast.atlas.client()?;
    let runs_before = node::lines(&cast.journal())?;
    let (killed_pid, began) = (cast.vega.pid(), Instant::now());
    cast.vega.kill();
    let noticed = async || {
        let status = atlas.status().await?;
        let gone = |peer: &PeerStatus| peer.name == "vega" && peer.state == "unreachable";
        Ok(status.peers.iter().any(gone).then_some(()))
    };
    until("atlas calls vega unreachable", NOTICED_WITHIN, noticed).await?;
    let noticed_after_ms = millis(began);
    let receipt = atlas.ask(&about(text)).await?;
    match &receipt.held {
        Some(held) if held.state == "unreachable" && held.queued > 0 => {}
        _ => return Err(Setback::NotHeld { node: cast.vega.name }),
    }
    Ok(Hold { killed_pid, noticed_after_ms, receipt, runs_before })
}

/// Starts vega again, and waits for the answer to what was held for it.
async fn resume(cast: &mut Cast, text: &Text, hold: &Hold) -> Result<Resumption, Setback> {
    let began = Instant::now();
    cast.vega.start().await?;
    let flight = answered(&cast.atlas.client()?, &hold.receipt).await?;
    let answered_after_ms = millis(began);
    let answer = right_answer(&flight, text)?;
    let runs = node::lines(&cast.journal())?.saturating_sub(hold.runs_before);
    if runs != 1 {
        return Err(Setback::NotOnce { runs });
    }
    Ok(Resumption { flight: flight.flight_id, answered_after_ms, runs, answer })
}

/// Looks again and again until there is something.
async fn until<T>(
    what: &'static str,
    within: Duration,
    look: impl AsyncFn() -> Result<Option<T>, Setback>,
) -> Result<T, Setback> {
    let looking = async {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            ticks.tick().await;
            if let Some(found) = look().await? {
                return Ok(found);
            }
        }
    };
    let found = tokio::time::timeout(within, looking).await;
    found.unwrap_or(Err(Setback::Late { what, within }))
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

//! What the demo found, step by step: the document of `--json`, and what the story is told from.
//!
//! Times are milliseconds measured by this process. What a node said is kept as the node's API gives it.

use std::path::PathBuf;

use mesh_protocol::api::ask::Receipt;
use mesh_protocol::api::job::AttestationView;
use mesh_protocol::api::node::{ExecutorView, Status};
use mesh_protocol::id::{FlightId, JobId, MeshId, NodeId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobStatus, Language};
use serde::Serialize;

use crate::render::evidence::Verdict;

use super::agent::Answer;
use super::counts::Counts;

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Whether no step failed.
    pub(crate) ok: bool,
    /// From the first step to the last.
    pub(crate) took_ms: u64,
    /// The text it was about.
    pub(crate) input: Input,
    /// The steps, up to the one that failed.
    pub(crate) steps: Vec<Step>,
    /// What was left running; absent when all of it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left: Option<Left>,
}

/// The text, as this process itself counts it.
#[derive(Debug, Serialize)]
pub(crate) struct Input {
    /// Where it comes from.
    pub(crate) source: String,
    /// Its figures.
    pub(crate) counts: Counts,
}

/// Nodes that go on running.
#[derive(Debug, Serialize)]
pub(crate) struct Left {
    /// The folder with everything.
    pub(crate) folder: PathBuf,
    /// The nodes' homes.
    pub(crate) homes: Vec<PathBuf>,
}

/// The steps, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepName {
    /// Three nodes become a mesh.
    Found,
    /// They see each other.
    Look,
    /// An agent on another node is asked.
    Ask,
    /// The evidence of its job is verified.
    Verify,
    /// Its node is killed, and it is asked again.
    Hold,
    /// Its node is back.
    Resume,
}

/// A step that was taken, or not.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    /// Which.
    pub(crate) name: StepName,
    /// False only when it failed.
    pub(crate) ok: bool,
    /// How long it took.
    pub(crate) took_ms: u64,
    /// How it ended.
    #[serde(flatten)]
    pub(crate) end: End,
}

/// How a step ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    /// With this.
    Found(Box<Finding>),
    /// It was left out.
    Skipped {
        /// Why.
        why: String,
        /// The command that changes that.
        fix: &'static str,
    },
    /// It failed; the ones after it were not tried.
    Failed {
        /// What is wrong.
        error: String,
        /// What caused it, outermost first.
        causes: Vec<String>,
        /// The end of each node's log.
        logs: Vec<NodeLog>,
    },
}

/// The end of a node's log.
#[derive(Debug, Serialize)]
pub(crate) struct NodeLog {
    /// Whose.
    pub(crate) node: &'static str,
    /// How its process ended, when it did so by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<String>,
    /// The lines.
    pub(crate) lines: Vec<String>,
}

/// What a step found; which it is, the step's name says.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Finding {
    /// [`StepName::Found`]
    Founding(Founding),
    /// [`StepName::Look`]
    Sight(Sight),
    /// [`StepName::Ask`]
    Asked(Asked),
    /// [`StepName::Verify`]
    Proof(Proof),
    /// [`StepName::Hold`]
    Hold(Hold),
    /// [`StepName::Resume`]
    Resumption(Resumption),
}

/// A mesh of three.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Founding {
    /// The mesh.
    pub(crate) mesh: Option<MeshId>,
    /// Its nodes, the founder first.
    pub(crate) nodes: Vec<Member>,
    /// Tickets that were used, each once.
    pub(crate) tickets: usize,
}

/// One of its nodes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Member {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its id, which is its public key.
    pub(crate) node: NodeId,
    /// Its process.
    pub(crate) pid: Option<u32>,
    /// Where it listens.
    pub(crate) addresses: Vec<String>,
}

/// What they see of each other.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sight {
    /// The founder's status.
    pub(crate) status: Status,
    /// What nova's sandbox offers, by its own word.
    pub(crate) sandbox: ExecutorView,
}

/// An ask and its answer.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Asked {
    /// What was accepted.
    pub(crate) receipt: Receipt,
    /// From the ask to its answer.
    pub(crate) answered_after_ms: u64,
    /// The answer, equal to [`Input::counts`].
    pub(crate) answer: Answer,
}

/// A job and what its evidence proves.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Proof {
    /// The job.
    pub(crate) job: JobId,
    /// Its language.
    pub(crate) language: Language,
    /// How it ended.
    pub(crate) status: JobStatus,
    /// Where it ran.
    pub(crate) node: NodeId,
    /// What that node is called.
    pub(crate) node_name: String,
    /// The isolation that was observed.
    pub(crate) isolation: Option<IsolationClass>,
    /// Milliseconds on the executor's clock.
    pub(crate) duration_ms: Option<u64>,
    /// What the node that asked for it found when the evidence arrived.
    pub(crate) attestation: AttestationView,
    /// Bytes of the evidence.
    pub(crate) evidence_bytes: usize,
    /// What this process finds in it, offline, with that node's key.
    pub(crate) verdict: Verdict,
}

/// An ask to a node that is not there.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Hold {
    /// The process that was killed.
    pub(crate) killed_pid: Option<u32>,
    /// From the kill until the asking node called it unreachable.
    pub(crate) noticed_after_ms: u64,
    /// What was accepted: held, with state, since, cause and what waits.
    pub(crate) receipt: Receipt,
    /// Runs of the agent until now.
    pub(crate) runs_before: usize,
}

/// What became of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Resumption {
    /// The held ask.
    pub(crate) flight: FlightId,
    /// From the process's start until the answer.
    pub(crate) answered_after_ms: u64,
    /// How often the agent was begun for it.
    pub(crate) runs: usize,
    /// The answer, equal to [`Input::counts`].
    pub(crate) answer: Answer,
}

macro_rules! finding {
    ($($variant:ident($kind:ty)),+ $(,)?) => {$(
        impl From<$kind> for Finding {
            fn from(found: $kind) -> Self {
                Self::$variant(found)
            }
        }
    )+};
}

finding!(Founding(Founding), Sight(Sight), Asked(Asked), Proof(Proof), Hold(Hold), Resumption(Resumption));

//! What one node says to another through the outbox: requests, and what became of them.
//!
//! Every variant is idempotent by the id it carries. None names who sent it: the receiver takes that from the link it
//! came over. Evolve by adding variants at the end; never add a field to one that was released, since postcard does
//! not describe itself.

use serde::{Deserialize, Serialize};

use crate::address::Name;
use crate::flight::FlightOutcome;
use crate::id::{ConversationId, FlightId, JobId, MessageId, NodeId};
use crate::job::{JobResult, JobSpec, OutputFile};

/// Events of a job in one message.
pub const JOB_EVENTS_MAX: usize = 64;

/// How many agents an ask may pass through.
pub const HOPS_MAX: usize = 8;

/// One agent an ask came through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Where.
    pub node: NodeId,
    /// Which agent; empty for the operator of the node.
    pub agent: String,
}

/// Who at the sending node asks: a name within that node, never an identity of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// `operator`, or an agent's name.
    pub name: String,
}

/// A message for an agent, with no work to track.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    /// The conversation, owned by the sender.
    pub conversation: ConversationId,
    /// The message.
    pub message: MessageId,
    /// Who wrote it.
    pub from: Requester,
    /// The agent it is for.
    pub to: Name,
    /// Its text.
    pub body: String,
}

/// Work for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskRequest {
    /// The flight at the origin.
    pub flight: FlightId,
    /// The conversation, owned by the origin.
    pub conversation: ConversationId,
    /// The message that carries the task.
    pub message: MessageId,
    /// Who asks.
    pub from: Requester,
    /// The agent asked.
    pub to: Name,
    /// The task.
    pub task: String,
    /// Milliseconds from when this was queued until the answer is of no use.
    pub remaining_ms: u64,
    /// The agents this ask came through, oldest first, the asking one last.
    pub hops: Vec<Hop>,
}

/// A job for the receiver's sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// The job at the origin.
    pub job: JobId,
    /// Who asks: the tenant is `<sender>/<name>`.
    pub from: Requester,
    /// What to run.
    pub spec: JobSpec,
    /// Milliseconds from when this was queued until the result is of no use.
    pub remaining_ms: u64,
}

/// Why a run or a job is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// Someone asked for it.
    Requested,
    /// Its deadline passed while it was on its way.
    DeadlinePassed,
}

/// Everything that travels by outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerMessage {
    /// A message for an agent.
    Post(Post),
    /// Work for an agent.
    Ask(AskRequest),
    /// The agent has begun; the origin shows `running`.
    RunStarted {
        /// Which flight.
        flight: FlightId,
    },
    /// What became of an ask.
    RunEnded {
        /// Which flight.
        flight: FlightId,
        /// How it ended.
        outcome: FlightOutcome,
    },
    /// Stop an ask, also one that has not arrived yet.
    StopRun {
        /// Which flight.
        flight: FlightId,
        /// Why.
        reason: StopReason,
    },
    /// A job for the sandbox.
    Job(JobRequest),
    /// The sandbox has begun; the origin shows `running`.
    JobStarted {
        /// Which job.
        job: JobId,
    },
    /// What became of a job, with the evidence as exact bytes.
    JobEnded {
        /// Which job.
        job: JobId,
        /// How it ended.
        result: JobResult,
        /// The signed bundle; empty when there is none, and then the origin says so.
        #[serde(with = "serde_bytes")]
        evidence: Vec<u8>,
        /// The files it left, as the evidence has their digests.
        outputs: Vec<OutputFile>,
    },
    /// Stop a job, also one that has not arrived yet.
    StopJob {
        /// Which job.
        job: JobId,
        /// Why.
        reason: StopReason,
    },
    /// A message was not taken.
    PostRefused {
        /// Its conversation.
        conversation: ConversationId,
        /// Which message.
        message: MessageId,
        /// One sentence for people.
        detail: String,
    },
    /// What a job did, as it happens. May be lost on the way: the evidence has all of it again.
    JobEvents {
        /// Which job.
        job: JobId,
        /// Events that follow each other, each in JSON; at most [`JOB_EVENTS_MAX`].
        events: Vec<String>,
    },
    /// A part of a message that is longer than a parcel. Parts go ahead of it, in order.
    Part {
        /// The message it is a part of.
        of: MessageId,
        /// Which part, from 0.
        index: u32,
        /// Its bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// A message whose parts went ahead: put together, they are its encoding. It is never one of parts itself.
    Whole {
        /// Its id, as in its parts.
        of: MessageId,
        /// How many parts there are.
        parts: u32,
        /// SHA-256 of all of them together.
        sha256: [u8; 32],
    },
    /// A message could not be put together, because a disk went back under its parts: it had no effect.
    Unassembled {
        /// Which message.
        of: MessageId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};
    use proptest::prelude::*;

    #[test]
    fn the_bytes_of_a_stop_never_change() {
        let stop = PeerMessage::StopRun {
            flight: FlightId::from_bytes([7; 16]),
            reason: StopReason::DeadlinePassed,
        };
        let mut golden = vec![4];
        golden.extend([7; 16]);
        golden.push(1);
        assert_eq!(encode(&stop), golden);
        assert_eq!(decode::<PeerMessage>(&golden).unwrap(), stop);
    }

    #[test]
    fn the_bytes_of_an_answer_never_change() {
        let outcome = FlightOutcome::Completed { reply: "ok".into() };
        let ended = PeerMessage::RunEnded { flight: FlightId::from_bytes([1; 16]), outcome };
        let mut golden = vec![3];
        golden.extend([1; 16]);
        golden.extend([0, 2, b'o', b'k']);
        assert_eq!(encode(&ended), golden);
        assert_eq!(decode::<PeerMessage>(&golden).unwrap(), ended);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode::<PeerMessage>(&bytes);
        }
    }
}

//! What really happened, kept outside both sides: what was promised to callers, and what agents and sandboxes did.

use std::collections::{BTreeMap, BTreeSet};

use mesh_node_core::broker::conversation::Message;
use mesh_node_core::broker::flight::Flight;
use mesh_node_core::jobs::job::Job;
use mesh_node_core::store::{Store, get};
use mesh_protocol::delivery::Epoch;
use mesh_protocol::id::{FlightId, JobId, MessageId, NodeId};

use super::plan::LONG_BYTES;
use super::point::SideIndex;

/// What a caller wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Send(usize),
    Ask(u64),
    Job(u64),
    LongJob(u64),
}

/// What a caller was given for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Given {
    Message(MessageId),
    Flight(FlightId),
    Job(JobId),
}

/// A caller with a request id of its own, who asks again until it has an answer.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) side: SideIndex,
    pub(super) want: Want,
    pub(super) id: String,
    /// Every receipt it was given: there should be one.
    pub(super) given: BTreeSet<Given>,
    pub(super) refused: bool,
    /// When it was first answered.
    pub(super) answered: bool,
    /// Its side's disk went back to before it: nothing is owed.
    pub(super) excused: bool,
}

/// Everything that happened.
#[derive(Debug, Default)]
pub(super) struct Truth {
    pub(super) requests: Vec<Request>,
    /// How often an agent here was given a flight's task, by where it ran.
    pub(super) runs_begun: BTreeMap<(SideIndex, NodeId, FlightId), u32>,
    /// The same by the task, which is its request's id.
    pub(super) tasks_begun: BTreeMap<String, u32>,
    /// Flights an agent answered.
    pub(super) answered: BTreeSet<FlightId>,
    /// How often a sandbox here was given a job.
    pub(super) jobs_begun: BTreeMap<(SideIndex, NodeId, JobId), u32>,
    /// Jobs a sandbox ran to their end.
    pub(super) jobs_done: BTreeSet<JobId>,
    /// Jobs a sandbox was given with other files than were sent along.
    pub(super) mangled: BTreeSet<JobId>,
    /// Parcels on the wire, by who sent them and where they were.
    pub(super) sent: BTreeMap<(SideIndex, Epoch, u64), MessageId>,
    /// Requests that had an answer when the backup was made.
    pub(super) answered_at_backup: Vec<usize>,
    /// What its restored disk forgot.
    pub(super) forgotten: BTreeSet<Given>,
    /// Whose disk went back.
    pub(super) restored: Option<SideIndex>,
    /// Whose operator blocked the other, or was told that it was revoked.
    pub(super) blocked: Option<SideIndex>,
    pub(super) revoked: Option<SideIndex>,
    /// The power of a machine was cut, so its wall clock alone tells how long it was off.
    pub(super) power_cut: bool,
}

impl Truth {
    /// The files of a long job below this folder, as they are sent along or left: no two are alike.
    pub(super) fn files(folder: &str) -> [(String, Vec<u8>); 2] {
        let bytes = |seed: u8| (0_u8..=250).cycle().map(|byte| byte ^ seed).take(LONG_BYTES / 2).collect();
        [(format!("{folder}/first"), bytes(0)), (format!("{folder}/second"), bytes(0x5a))]
    }

    /// What an agent answers to a flight: no two are alike.
    pub(super) fn reply(flight: FlightId) -> String {
        format!("done {flight}")
    }

    /// A disk goes back: what its side accepted since is not owed any more.
    pub(super) fn note_restored(&mut self, side: SideIndex) {
        self.restored = Some(side);
        let known = &self.answered_at_backup;
        let since = self.requests.iter_mut().enumerate().filter(|(number, _)| !known.contains(number));
        for (_, request) in since.filter(|(_, request)| request.side == side) {
            request.excused = true;
            self.forgotten.extend(&request.given);
        }
    }

    /// What the disk that was put back does have is not forgotten: its answer was lost, and it was not.
    pub(super) fn note_kept(&mut self, rows: &dyn Store) -> anyhow::Result<()> {
        for given in std::mem::take(&mut self.forgotten) {
            let kept = match &given {
                Given::Message(message) => get::<Message>(rows, message)?.is_some(),
                Given::Flight(flight) => get::<Flight>(rows, flight)?.is_some(),
                Given::Job(job) => get::<Job>(rows, job)?.is_some(),
            };
            if !kept {
                self.forgotten.insert(given);
            }
        }
        Ok(())
    }

    pub(super) fn run_began(&mut self, side: SideIndex, origin: NodeId, flight: FlightId, task: String) {
        *self.runs_begun.entry((side, origin, flight)).or_insert(0) += 1;
        *self.tasks_begun.entry(task).or_insert(0) += 1;
    }

    pub(super) fn job_began(&mut self, side: SideIndex, origin: NodeId, job: JobId, code: String) {
        *self.jobs_begun.entry((side, origin, job)).or_insert(0) += 1;
        *self.tasks_begun.entry(code).or_insert(0) += 1;
    }

    pub(super) fn began(&self, given: Given) -> bool {
        match given {
            Given::Flight(flight) => self.runs_begun.keys().any(|(_, _, begun)| *begun == flight),
            Given::Job(job) => self.jobs_begun.keys().any(|(_, _, begun)| *begun == job),
            Given::Message(_) => false,
        }
    }
}

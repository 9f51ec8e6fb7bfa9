//! What runs jobs: it follows the script that is the job's program, and writes what it does into the ledger. It proves
//! nothing, so every result says that its evidence is missing.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_node::surroundings::RunJobs;
use mesh_node::writer::WriterHandle;
use mesh_node_core::event::{CloseReason, Event, JobTicket};
use mesh_node_core::machine::Machine;
use mesh_protocol::evidence::receipt::ExecutorOutput;
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobResult, JobSpec, JobStatus};
use tokio_util::sync::CancellationToken;

use super::agent::Script;
use super::ledger::{Kind, Ledger};
use super::life::Life;

/// The sandbox of one life of a machine.
pub(super) struct Sandbox {
    pub(super) machine: usize,
    pub(super) number_of_life: u32,
    pub(super) life: Life,
    pub(super) ledger: Ledger,
    pub(super) writer: WriterHandle<Machine>,
    pub(super) running: Arc<Mutex<BTreeMap<(NodeId, JobId), CancellationToken>>>,
}

impl Sandbox {
    fn running(&self) -> MutexGuard<'_, BTreeMap<(NodeId, JobId), CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, ticket: &JobTicket, result: JobResult) {
        let event = ended(ticket, result);
        let writer = self.writer.clone();
        tokio::spawn(async move { writer.post(event, 0).await });
    }
}

fn ended(ticket: &JobTicket, result: JobResult) -> Event {
    let JobTicket { origin, job, attempt, .. } = *ticket;
    let (evidence, outputs, events) = Default::default();
    Event::JobEnded { origin, job, attempt, result, evidence, outputs, events }
}

fn result(status: JobStatus, stdout: String, killed_by: Option<&str>, may_have_run: bool) -> JobResult {
    JobResult {
        status,
        exit_code: (status == JobStatus::Succeeded).then_some(0),
        killed_by: killed_by.map(str::to_owned),
        stdout,
        stderr: String::new(),
        truncated: false,
        duration_ms: 0,
        isolation: may_have_run.then_some(IsolationClass::GvisorApplicationKernel),
        may_have_run,
        violations: Vec::new(),
        artifacts: Vec::new(),
    }
}

impl RunJobs for Sandbox {
    fn start(&self, ticket: JobTicket, spec: Box<JobSpec>) {
        let Some(script) = Script::read(&spec.code).filter(|_| !self.life.is_over()) else { return };
        let (cancel, key) = (CancellationToken::new(), (ticket.origin, ticket.job));
        self.running().insert(key, cancel.clone());
        self.ledger.begin(Kind::Job, script.number, self.machine, self.number_of_life);
        let (life, ledger, writer) = (self.life.clone(), self.ledger.clone(), self.writer.clone());
        let (running, machine, number_of_life) =
            (Arc::clone(&self.running), self.machine, self.number_of_life);
        tokio::spawn(async move {
            let JobTicket { origin, job, attempt, .. } = ticket;
            let _ = writer.post(Event::JobStarted { origin, job, attempt }, 0).await;
            let result = tokio::select! {
                biased;
                () = life.over() => return,
                () = cancel.cancelled() => result(JobStatus::Cancelled, String::new(), Some("cancelled"), true),
                () = tokio::time::sleep(Duration::from_millis(script.work_ms)) => {
                    ledger.end(Kind::Job, script.number, machine, number_of_life);
                    result(JobStatus::Succeeded, script.result(), None, true)
                }
            };
            running.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            // Refused only when the node stops; its next start ends the job.
            let _ = writer.post(ended(&ticket, result), 0).await;
        });
    }

    fn stop(&self, origin: NodeId, job: JobId) {
        if let Some(cancel) = self.running().get(&(origin, job)) {
            cancel.cancel();
        }
    }

    fn close(&self, ticket: JobTicket, reason: CloseReason) {
        let (status, why, ran) = match reason {
            CloseReason::NodeRestarted => (JobStatus::Error, "server_restarted", true),
            CloseReason::CancelledBeforeStart => (JobStatus::Cancelled, "cancelled_before_start", false),
            CloseReason::DeadlinePassed => (JobStatus::Error, "deadline", false),
            CloseReason::Unavailable => (JobStatus::Error, "unavailable", false),
        };
        self.report(&ticket, result(status, String::new(), Some(why), ran));
    }

    fn attest(&self, ticket: JobTicket, _: JobResult, _: Option<Box<ExecutorOutput>>) {
        let event = Event::JobAttested { job: ticket.job, evidence: Vec::new() };
        let writer = self.writer.clone();
        tokio::spawn(async move { writer.post(event, 0).await });
    }

    fn running(&self) -> usize {
        Self::running(self).len()
    }

    fn shutdown(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Self::running(self).values().for_each(CancellationToken::cancel);
        Box::pin(async {
            while !Self::running(self).is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            true
        })
    }
}

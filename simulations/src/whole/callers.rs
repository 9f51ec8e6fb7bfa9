//! Those who ask: operators at the machines, who want work done and write what they are told into the ledger.

use std::time::Duration;

use mesh_node::service::{Principal, Service as _};
use mesh_protocol::api::ask::{AskCommand, FlightView, SendRequest};
use mesh_protocol::api::job::{JobView, RunRequest};
use mesh_protocol::job::{JobSpec, Language};

use super::agent::Script;
use super::ledger::Number;
use super::machine::{AGENT, name};
use super::world::World;

/// How long callers wait for what they asked for, in seconds.
const DEADLINE_SECONDS: u64 = 60;

impl World {
    /// An operator at one machine asks the agent of another. The answer comes in its own time, into the ledger.
    pub fn ask(&self, from: usize, to: usize, work_ms: u64) -> Number {
        let number = self.outside.ledger.ask(from, to);
        let Some(local) = self.local(from) else { return number };
        let ledger = self.outside.ledger.clone();
        let command = AskCommand {
            to: format!("@{AGENT}.node:n{to}"),
            task: Script { number, work_ms }.text(),
            request_id: None,
            deadline_seconds: Some(DEADLINE_SECONDS),
        };
        tokio::spawn(async move {
            let answer = local.ask(&Principal::Operator, command).await;
            let now = ledger.now_ms();
            if let Some(entry) = ledger.book().asks.get_mut(&number) {
                match answer {
                    Ok(receipt) => entry.accepted = receipt.flight_id.map(|id| (id, now)),
                    Err(error) => entry.refused = Some(error.code),
                }
            }
        });
        number
    }

    /// An operator at one machine leaves a message for the agent of another.
    pub fn send(&self, from: usize, to: usize) -> Number {
        let number = self.outside.ledger.send(from, to);
        let Some(local) = self.local(from) else { return number };
        let ledger = self.outside.ledger.clone();
        let to = format!("@{AGENT}.node:n{to}");
        let request = SendRequest { to, body: Script { number, work_ms: 0 }.text(), request_id: None };
        tokio::spawn(async move {
            let answer = local.send(&Principal::Operator, request, Duration::ZERO).await;
            let now = ledger.now_ms();
            if let Some(entry) = ledger.book().sends.get_mut(&number) {
                match answer {
                    Ok(receipt) => entry.accepted = Some((receipt.message_id, now)),
                    Err(error) => entry.refused = Some(error.code),
                }
            }
        });
        number
    }

    /// An operator at one machine runs a job on another.
    pub fn run(&self, from: usize, on: usize, work_ms: u64) -> Number {
        let number = self.outside.ledger.job(from, on);
        let Some((local, on)) = self.local(from).zip(name(on).ok()) else { return number };
        let ledger = self.outside.ledger.clone();
        let spec = JobSpec::new(Language::Bash, Script { number, work_ms }.text());
        let on = Some(on.to_string());
        let deadline_seconds = Some(DEADLINE_SECONDS);
        let request = RunRequest { on, deadline_seconds, ..RunRequest::new(spec) };
        tokio::spawn(async move {
            let answer = local.run(&Principal::Operator, request).await;
            let now = ledger.now_ms();
            if let Some(entry) = ledger.book().jobs.get_mut(&number) {
                match answer {
                    Ok(receipt) => entry.accepted = Some((receipt.job_id, now)),
                    Err(error) => entry.refused = Some(error.code),
                }
            }
        });
        number
    }

    /// An operator takes an ask back.
    pub fn cancel(&self, number: Number) {
        let place = {
            let book = self.outside.ledger.book();
            book.asks.get(&number).and_then(|entry| Some((entry.from, entry.accepted?.0)))
        };
        if let Some((from, flight)) = place
            && let Some(local) = self.local(from)
        {
            tokio::spawn(async move { local.cancel_flight(&Principal::Operator, &flight.to_string()).await });
        }
    }

    /// An ask as its origin shows it.
    pub async fn flight(&self, number: Number) -> Option<FlightView> {
        let (from, flight) = {
            let book = self.outside.ledger.book();
            let entry = book.asks.get(&number)?;
            (entry.from, entry.accepted?.0)
        };
        self.local(from)?.flight(&Principal::Operator, &flight.to_string(), Duration::ZERO).await.ok()
    }

    /// A job as its origin shows it.
    pub async fn job(&self, number: Number) -> Option<JobView> {
        let (from, job) = {
            let book = self.outside.ledger.book();
            let entry = book.jobs.get(&number)?;
            (entry.from, entry.accepted?.0)
        };
        self.local(from)?.job_result(&Principal::Operator, job, Duration::ZERO).await.ok()
    }

    /// Notes the first outcome of everything that has one by now.
    pub(super) async fn note_outcomes(&self) {
        let (asks, jobs) = {
            let book = self.outside.ledger.book();
            let asks = book.asks.iter().filter(|(_, it)| it.accepted.is_some() && it.outcome.is_none());
            let jobs = book.jobs.iter().filter(|(_, it)| it.accepted.is_some() && it.outcome.is_none());
            let asks: Vec<Number> = asks.map(|(number, _)| *number).collect();
            let jobs: Vec<Number> = jobs.map(|(number, _)| *number).collect();
            (asks, jobs)
        };
        let now = self.now_ms();
        for number in asks {
            if let Some(outcome) = self.flight(number).await.and_then(|view| view.outcome)
                && let Some(entry) = self.outside.ledger.book().asks.get_mut(&number)
            {
                entry.outcome = Some((outcome, now));
            }
        }
        for number in jobs {
            if let Some(result) = self.job(number).await.and_then(|view| view.result)
                && let Some(entry) = self.outside.ledger.book().jobs.get_mut(&number)
            {
                entry.outcome = Some((result, now));
            }
        }
    }
}

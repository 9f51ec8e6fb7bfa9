//! What callers and operators want of a side, and how they hear of it.

use ed25519_dalek::SigningKey;
use mesh_node::writer::SubmitError;
use mesh_node_core::event::{Caller, Command, Event, Reply};
use mesh_node_core::jobs::submission::Submission;
use mesh_protocol::api::ask::{AskCommand, SendRequest};
use mesh_protocol::api::job::RunRequest;
use mesh_protocol::id::MeshId;
use mesh_protocol::job::{Contents, InputFile, JobSpec, Language};
use mesh_protocol::revocation::{Revocation, RevocationKey, RevocationList};

use super::point::SideIndex;
use super::row::Row;
use super::side::{Arrived, NAMES, Waiting, id};
use super::truth::{Given, Request, Truth, Want};
use super::world::World;

impl World {
    /// A caller of this side wants something of the other's agent or sandbox.
    pub(super) fn want(&mut self, side: SideIndex, want: Want) {
        let number = self.truth.requests.len();
        let request = Request {
            side,
            want,
            id: format!("request-{number}"),
            given: std::collections::BTreeSet::new(),
            refused: false,
            answered: false,
            excused: false,
        };
        self.truth.requests.push(request);
        self.submit(number);
    }

    /// Hands a request to its side, under the id it has had from the beginning. A machine that is down gets it when it
    /// starts.
    pub(super) fn submit(&mut self, number: usize) {
        let Some(request) = self.truth.requests.get(number) else { return };
        let (side, command) = (request.side, command(request));
        if let Some(running) = self.running(side) {
            running.inbox.push_back(Arrived { event: Event::Command(command), request: Some(number) });
        }
    }

    /// Callers whose machine stopped before they had an answer ask again.
    pub(super) fn ask_again(&mut self, side: SideIndex) {
        let unanswered = |(number, request): (usize, &Request)| {
            (request.side == side && !request.answered).then_some(number)
        };
        let numbers: Vec<usize> = self.truth.requests.iter().enumerate().filter_map(unanswered).collect();
        numbers.into_iter().for_each(|number| self.submit(number));
    }

    /// Callers look whether they were answered.
    pub(super) fn hear(&mut self, side: SideIndex) {
        let Some(running) = self.running(side) else { return };
        let mut heard = Vec::new();
        running.waiting.retain_mut(|Waiting { request, look }| match look() {
            Some(answer) => {
                heard.push((*request, answer));
                false
            }
            None => true,
        });
        for (number, answer) in heard {
            let Some(request) = self.truth.requests.get_mut(number) else { continue };
            let given = match answer {
                Ok(Reply::Receipt(receipt)) => {
                    receipt.flight_id.map_or(Given::Message(receipt.message_id), Given::Flight)
                }
                Ok(Reply::Job(receipt)) => Given::Job(receipt.job_id),
                Err(SubmitError::StorageUnavailable) => {
                    // Not known yet: the same id finds out.
                    self.submit(number);
                    continue;
                }
                Ok(_) | Err(_) => {
                    request.answered = true;
                    request.refused = true;
                    continue;
                }
            };
            request.answered = true;
            request.given.insert(given);
        }
    }

    /// Takes the newest work of a side back.
    pub(super) fn cancel_newest(&mut self, side: SideIndex) {
        let newest = self.truth.requests.iter().rev().filter(|request| request.side == side);
        let command = newest.flat_map(|request| request.given.iter()).find_map(|given| match given {
            Given::Flight(flight) => Some(Command::CancelFlight(*flight)),
            Given::Job(job) => Some(Command::CancelJob(*job)),
            Given::Message(_) => None,
        });
        if let Some(command) = command {
            self.order(side, command);
        }
    }

    pub(super) fn block(&mut self, side: SideIndex) {
        self.note_waiting_rows(side);
        self.truth.blocked = Some(side);
        self.order(side, Command::Block(id(1 - side), "a test".to_owned()));
    }

    pub(super) fn revoke(&mut self, side: SideIndex) -> anyhow::Result<()> {
        self.note_waiting_rows(side);
        self.truth.revoked = Some(side);
        self.link.wanted = false;
        self.lose_link();
        let entry = Revocation { node: id(1 - side), reason: String::new(), at_wall_ms: 0 };
        let root = SigningKey::from_bytes(&[3; 32]);
        let list =
            RevocationList::sign(&RevocationKey::Root(&root), MeshId::from_bytes([4; 16]), 1, vec![entry])?;
        self.order(side, Command::Revoke(list));
        Ok(())
    }

    /// What an operator or a gossiped list decided and a crash may have forgotten.
    pub(super) fn decide_again(&mut self) -> anyhow::Result<()> {
        if let Some(side) = self.truth.blocked {
            self.order(side, Command::Unblock(id(1 - side)));
        }
        self.truth.revoked.map_or(Ok(()), |side| self.revoke(side))
    }

    fn note_waiting_rows(&mut self, side: SideIndex) {
        let depth = self.running(side).and_then(|running| running.depth.as_ref());
        if depth.is_some_and(|depth| depth.count > 0) {
            self.rows.insert(Row::L2);
        }
    }
}

fn command(request: &Request) -> Command {
    let other = NAMES.get(1 - request.side).copied().unwrap_or_default();
    let to = format!("@echo.node:{other}");
    let caller = Caller::Operator;
    let text = request.id.clone();
    let request_id = Some(request.id.clone());
    match request.want {
        Want::Send(bytes) => {
            let body = format!("{text}{}", ".".repeat(bytes));
            Command::Send(caller, SendRequest { to, body, request_id })
        }
        Want::Ask(seconds) => {
            let deadline_seconds = Some(seconds);
            Command::Ask(caller, AskCommand { to, task: text, request_id, deadline_seconds })
        }
        Want::Job(seconds) | Want::LongJob(seconds) => {
            let mut spec = JobSpec::new(Language::Python, text);
            if let Want::LongJob(_) = request.want {
                spec.outputs = Truth::files("output").map(|(path, _)| path).into();
                let file = |(path, bytes)| InputFile { path, content: Contents(bytes) };
                spec.files = Truth::files("input").map(file).into();
            }
            let (on, deadline_seconds) = (Some("b".to_owned()), Some(seconds));
            let request =
                RunRequest { on, idempotency_key: request_id, deadline_seconds, ..RunRequest::new(spec) };
            #[expect(clippy::expect_used, reason = "a name with files within their limits is a job")]
            Command::Run(caller, Box::new(Submission::of(request).expect("a job within its limits")))
        }
    }
}

impl Truth {
    /// The requests of a side that have an answer.
    pub(super) fn answered_of(&self, side: SideIndex) -> Vec<usize> {
        let answered = |(number, request): (usize, &Request)| {
            (request.side == side && request.answered).then_some(number)
        };
        self.requests.iter().enumerate().filter_map(answered).collect()
    }
}

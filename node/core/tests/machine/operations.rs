//! Random lists of everything that can happen to asks and jobs between two nodes, in any order.
//!
//! What must hold after each: an outcome that was told stays. What must hold once the link is up and all work has come
//! to its end: everything accepted has an outcome, nothing was begun twice, what completed was really answered, what
//! cannot have run was never begun, and nothing waits in an outbox. A list that once failed is kept below under its own
//! name.

use std::collections::{BTreeMap, BTreeSet};

use mesh_node_core::broker::flight::Flight;
use mesh_node_core::event::{Action, Caller, CloseReason, Command, Event, JobTicket};
use mesh_node_core::jobs::job::Job;
use mesh_node_core::outbox;
use mesh_protocol::flight::FlightOutcome;
use mesh_protocol::id::{FlightId, JobId, NodeId};
use mesh_protocol::job::{JobResult, JobStatus};
use proptest::prelude::*;

use crate::jobs::{report, result, run};
use crate::pair::{A, B, Pair, reply};

const DAY_MS: i64 = 24 * 3_600_000;
/// Rounds after which a healed pair rests, or never will.
const ROUNDS_MAX: u32 = 60;

#[derive(Debug, Clone, Copy)]
enum Operation {
    Ask {
        from: usize,
        to: usize,
        id: Option<u8>,
    },
    Job {
        from: usize,
    },
    /// The newest piece of work but so many is taken back.
    Cancel {
        back: usize,
    },
    Link,
    /// A link that breaks after so many parcels of the first node.
    LinkFor {
        parcels: usize,
    },
    Cut,
    /// What the first node sends does not arrive any more, and nobody notices.
    Deaf,
    Restart {
        node: usize,
    },
    Pass {
        ms: u64,
    },
    /// An agent or the sandbox ends the oldest work but so many.
    End {
        node: usize,
        place: usize,
    },
    SetWall {
        by_ms: i64,
    },
    Tidy {
        node: usize,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let node = || 0..2_usize;
    prop_oneof![
        4 => (node(), node(), proptest::option::weighted(0.3, 0..3_u8))
            .prop_map(|(from, to, id)| Operation::Ask { from, to, id }),
        2 => node().prop_map(|from| Operation::Job { from }),
        1 => (0..4_usize).prop_map(|back| Operation::Cancel { back }),
        3 => Just(Operation::Link),
        1 => (0..5_usize).prop_map(|parcels| Operation::LinkFor { parcels }),
        1 => Just(Operation::Cut),
        1 => Just(Operation::Deaf),
        1 => node().prop_map(|node| Operation::Restart { node }),
        2 => prop_oneof![1..2_000_u64, 2_000..90_000_u64].prop_map(|ms| Operation::Pass { ms }),
        4 => (node(), 0..2_usize).prop_map(|(node, place)| Operation::End { node, place }),
        1 => (-DAY_MS..DAY_MS).prop_map(|by_ms| Operation::SetWall { by_ms }),
        1 => node().prop_map(|node| Operation::Tidy { node }),
    ]
}

/// Work an agent or a sandbox has in hand.
#[derive(Debug, Clone)]
enum Work {
    Run { origin: NodeId, flight: FlightId, attempt: u32 },
    Job(Box<JobTicket>),
}

/// Something a node accepted, in the order of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Accepted {
    Ask(usize, FlightId),
    Job(usize, JobId),
}

/// What was told of its end.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    Flight(FlightOutcome),
    Job(JobResult),
}

struct Play {
    pair: Pair,
    linked: bool,
    working: [Vec<Work>; 2],
    accepted: Vec<Accepted>,
    by_request: BTreeMap<(usize, usize, u8), Accepted>,
    /// What was begun, in order.
    begun: Vec<Accepted>,
    ended: BTreeSet<Accepted>,
    told: BTreeMap<Accepted, Told>,
}

impl Play {
    fn new() -> Self {
        Self {
            pair: Pair::new(),
            linked: false,
            working: [Vec::new(), Vec::new()],
            accepted: Vec::new(),
            by_request: BTreeMap::new(),
            begun: Vec::new(),
            ended: BTreeSet::new(),
            told: BTreeMap::new(),
        }
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Ask { from, to, id } => self.ask(from, to, id),
            Operation::Job { from } => {
                // A full queue refuses, and nothing came of it.
                if let Ok(receipt) = run(&mut self.pair, from, None) {
                    self.accepted.push(Accepted::Job(from, receipt.job_id));
                }
            }
            Operation::Cancel { back } => self.cancel(back),
            Operation::Link => self.link(),
            Operation::LinkFor { parcels } => {
                self.cut();
                self.pair.link_for(parcels);
            }
            Operation::Cut => self.cut(),
            Operation::Deaf => self.pair.go_deaf(),
            Operation::Restart { node } => {
                self.cut();
                self.working[node].clear();
                self.pair.restart(node);
            }
            Operation::Pass { ms } => self.pair.pass(ms),
            Operation::End { node, place } => self.end(node, place),
            Operation::SetWall { by_ms } => {
                self.pair.now.wall_ms = self.pair.now.wall_ms.saturating_add_signed(by_ms);
            }
            Operation::Tidy { node } => _ = self.pair.command(node, Command::Tidy),
        }
        self.perform();
        self.look();
    }

    fn ask(&mut self, from: usize, to: usize, id: Option<u8>) {
        let address = ["@echo.node:a", "@echo.node:b"][to];
        let text = id.map(|id| format!("request-{to}-{id}"));
        let Ok(receipt) = self.pair.ask_as(from, Caller::Operator, address, text.as_deref()) else { return };
        let accepted = Accepted::Ask(from, receipt.flight_id.expect("an ask is a flight"));
        let known = id.and_then(|id| self.by_request.insert((from, to, id), accepted));
        assert!(known.is_none_or(|known| known == accepted), "one request is one flight");
        if known.is_none() {
            self.accepted.push(accepted);
        }
    }

    fn cancel(&mut self, back: usize) {
        let Some(place) = self.accepted.len().checked_sub(back + 1) else { return };
        // What has ended says so.
        let _ = match self.accepted[place] {
            Accepted::Ask(at, flight) => self.pair.command(at, Command::CancelFlight(flight)),
            Accepted::Job(at, job) => self.pair.command(at, Command::CancelJob(job)),
        };
    }

    fn link(&mut self) {
        self.cut();
        self.pair.link();
        self.linked = true;
    }

    fn cut(&mut self) {
        if std::mem::take(&mut self.linked) {
            self.pair.cut();
        }
    }

    fn at(&self, origin: NodeId) -> usize {
        usize::from(self.pair.nodes[B].id == origin)
    }

    fn end(&mut self, node: usize, place: usize) {
        if place >= self.working[node].len() {
            return;
        }
        let event = match self.working[node].remove(place) {
            Work::Run { origin, flight, attempt } => {
                self.ended.insert(Accepted::Ask(self.at(origin), flight));
                let outcome = reply(&flight.to_string());
                Event::RunEnded { origin, flight, attempt, outcome }
            }
            Work::Job(ticket) => {
                self.ended.insert(Accepted::Job(self.at(ticket.origin), ticket.job));
                report(&ticket, result(JobStatus::Succeeded))
            }
        };
        self.pair.event(node, event);
    }

    /// Does what the nodes asked for, as agents and a sandbox would, until they ask for nothing more.
    fn perform(&mut self) {
        loop {
            let asked = [A, B].map(|node| std::mem::take(&mut self.pair.nodes[node].todo));
            if asked.iter().all(Vec::is_empty) {
                return;
            }
            for (node, actions) in asked.into_iter().enumerate() {
                actions.into_iter().for_each(|action| self.do_one(node, action));
            }
        }
    }

    fn do_one(&mut self, node: usize, action: Action) {
        match action {
            Action::StartRun { origin, flight, attempt, .. } => {
                self.begun.push(Accepted::Ask(self.at(origin), flight));
                self.working[node].push(Work::Run { origin, flight, attempt });
            }
            Action::StartJob(ticket, _) => {
                self.begun.push(Accepted::Job(self.at(ticket.origin), ticket.job));
                self.working[node].push(Work::Job(Box::new(ticket)));
            }
            Action::StopRun { flight, .. } => {
                let of = |work: &mut Work| matches!(work, Work::Run { flight: held, .. } if *held == flight);
                let stopped: Vec<Work> = self.working[node].extract_if(.., of).collect();
                for work in stopped {
                    let Work::Run { origin, flight, attempt } = work else { continue };
                    let outcome = FlightOutcome::Cancelled { may_have_run: true };
                    self.pair.event(node, Event::RunEnded { origin, flight, attempt, outcome });
                }
            }
            Action::StopJob { job, .. } => {
                let of = |work: &mut Work| matches!(work, Work::Job(ticket) if ticket.job == job);
                let stopped: Vec<Work> = self.working[node].extract_if(.., of).collect();
                for work in stopped {
                    let Work::Job(ticket) = work else { continue };
                    self.pair.event(node, report(&ticket, result(JobStatus::Cancelled)));
                }
            }
            Action::CloseJob(ticket, reason) => {
                let (status, may_have_run) = match reason {
                    CloseReason::NodeRestarted => (JobStatus::Error, true),
                    CloseReason::CancelledBeforeStart => (JobStatus::Cancelled, false),
                    CloseReason::DeadlinePassed | CloseReason::Unavailable => (JobStatus::Error, false),
                };
                let closed = JobResult { may_have_run, ..result(status) };
                self.pair.event(node, report(&ticket, closed));
            }
            Action::AttestEnd(ticket, ..) => {
                self.pair.event(node, Event::JobAttested { job: ticket.job, evidence: Vec::new() });
            }
            // Frames while there is no link are lost; time moves by hand.
            _ => {}
        }
    }

    fn outcome(&self, of: Accepted) -> Option<Told> {
        match of {
            Accepted::Ask(at, flight) => self.pair.row::<Flight>(at, &flight).outcome.map(Told::Flight),
            Accepted::Job(at, job) => self.pair.row::<Job>(at, &job).result.map(Told::Job),
        }
    }

    /// What was told once stays.
    fn look(&mut self) {
        for of in self.accepted.clone() {
            let told = self.outcome(of);
            match (self.told.get(&of), told) {
                (None, None) => {}
                (None, Some(told)) => _ = self.told.insert(of, told),
                (Some(before), now) => {
                    assert_eq!(Some(before), now.as_ref(), "{of:?} ended otherwise before")
                }
            }
        }
    }

    fn rests(&self) -> bool {
        let empty = |node: usize| {
            let to = self.pair.nodes[1 - node].id;
            let depth = outbox::depth(&self.pair.nodes[node].store, self.pair.now, to).unwrap();
            depth.is_none_or(|depth| depth.acked + 1 >= depth.next)
        };
        self.accepted.iter().all(|of| self.told.contains_key(of)) && [A, B].into_iter().all(empty)
    }

    /// The link comes up and stays, agents end what they have.
    fn heal(&mut self) {
        self.apply(Operation::Link);
        for _ in 0..ROUNDS_MAX {
            for node in [A, B] {
                while !self.working[node].is_empty() {
                    self.apply(Operation::End { node, place: 0 });
                }
            }
            if self.rests() {
                return;
            }
            self.apply(Operation::Pass { ms: 2_000 });
        }
        let open: Vec<_> = self.accepted.iter().filter(|of| !self.told.contains_key(of)).collect();
        panic!("it does not come to rest: {open:?} are open");
    }

    fn judge(&self) {
        for of in &self.accepted {
            let begun = self.begun.iter().filter(|begun| *begun == of).count();
            assert!(begun <= 1, "{of:?} was begun {begun} times");
            let (completed, may_have_run) = match &self.told[of] {
                Told::Flight(FlightOutcome::Completed { reply }) => {
                    assert!(matches!(of, Accepted::Ask(_, flight) if flight.to_string() == *reply));
                    (true, true)
                }
                Told::Flight(outcome) => (false, outcome.may_have_run()),
                Told::Job(result) => (result.status == JobStatus::Succeeded, result.may_have_run),
            };
            assert!(!completed || self.ended.contains(of), "{of:?} completed and nobody answered");
            assert!(may_have_run || begun == 0, "{of:?} cannot have run, and was begun");
        }
    }

    /// What happened, without the names that chance gave: the order of beginning, and each end.
    fn story(&self) -> (Vec<usize>, Vec<String>) {
        let place = |of: &Accepted| self.accepted.iter().position(|accepted| accepted == of);
        let ends = self.accepted.iter().map(|of| match &self.told[of] {
            Told::Flight(FlightOutcome::Completed { .. }) => "completed".to_owned(),
            Told::Flight(other) => format!("{other:?}"),
            Told::Job(result) => {
                format!("{:?} {:?} {}", result.status, result.killed_by, result.may_have_run)
            }
        });
        (self.begun.iter().filter_map(place).collect(), ends.collect())
    }
}

fn play(operations: &[Operation]) -> Play {
    let mut play = Play::new();
    operations.iter().for_each(|operation| play.apply(*operation));
    play.heal();
    play.judge();
    play
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_list_of_asks_jobs_and_faults_ends_in_outcomes_that_are_true(
        operations in proptest::collection::vec(operation(), 1..60),
    ) {
        play(&operations);
    }

    #[test]
    fn whatever_the_wall_clocks_say_the_same_work_begins_in_the_same_order_and_ends_the_same(
        operations in proptest::collection::vec(operation(), 1..60),
    ) {
        let steady: Vec<Operation> =
            operations.iter().filter(|it| !matches!(it, Operation::SetWall { .. })).copied().collect();
        prop_assert_eq!(play(&operations).story(), play(&steady).story());
    }
}

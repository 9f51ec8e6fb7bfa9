//! A side's writer: batches of what arrived, and what is done once they are durable.

use mesh_node::writer::Queued;
use mesh_node_core::event::{Action, Command, Delivery, Event};
use mesh_node_core::handler::Handler as _;
use mesh_node_core::machine::Machine;
use mesh_node_core::outbox;
use mesh_protocol::delivery::ToReceiver;
use rand::RngExt;

use super::link::Frame;
use super::point::{At, Point, SideIndex};
use super::row::Row;
use super::side::{Acked, Running, Waiting, id};
use super::truth::Truth;
use super::work::{self, Work};
use super::world::World;

/// Events in one batch at most.
const BATCH: usize = 4;

/// What a batch was about.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct About {
    pub(super) publishes: bool,
    pub(super) parcel: bool,
    pub(super) acknowledged: bool,
    pub(super) work_ended: bool,
    /// Something in it does not come again by itself: the batch is durable before anybody is told.
    pub(super) durable: bool,
}

impl About {
    pub(super) fn note(&mut self, event: &Event) {
        self.durable |= !Machine::comes_again(event, &[]);
        match event {
            Event::Command(Command::Send(..) | Command::Ask(..) | Command::Run(..)) => self.publishes = true,
            Event::Delivery(_, Delivery::Parcel { .. }) => self.parcel = true,
            Event::Delivery(_, Delivery::Ack { .. } | Delivery::Resume { .. }) => self.acknowledged = true,
            Event::RunEnded { .. } | Event::JobEnded { .. } => self.work_ended = true,
            _ => {}
        }
    }
}

impl World {
    /// Runs one batch, or goes on with one that a failing disk held up.
    pub(super) fn write(&mut self, side: SideIndex) -> anyhow::Result<()> {
        let size = self.rng.random_range(1..=BATCH);
        let began = self.side(side).disk.operations();
        let Some(running) = self.running(side) else { return Ok(()) };
        let recovers = running.core.held() > 0;
        let result = if recovers {
            running.tries += 1;
            running.core.recover()
        } else {
            let count = running.inbox.len().min(size);
            if count == 0 {
                return Ok(());
            }
            running.about = About::default();
            let mut batch = Vec::new();
            for arrived in running.inbox.drain(..count) {
                running.about.note(&arrived.event);
                let Some(request) = arrived.request else {
                    batch.push(Queued::post(arrived.event, 0));
                    continue;
                };
                let (queued, mut reply) = Queued::submit(arrived.event, 0);
                running.waiting.push(Waiting { request, look: Box::new(move || reply.try_recv().ok()) });
                batch.push(queued);
            }
            running.core.run_batch(batch)
        };
        let about = running.about;
        if self.side(side).disk.is_dead() {
            return self.stopped(side, about, began, false);
        }
        if result.is_err() {
            return self.failed(side, about);
        }
        self.committed(side, about, recovers)
    }

    /// The batch is durable and known to be: actions, then replies, unless the machine stops here.
    fn committed(&mut self, side: SideIndex, about: About, recovered: bool) -> anyhow::Result<()> {
        let began = self.side(side).disk.operations();
        let Some(running) = self.running(side) else { return Ok(()) };
        running.tries = 0;
        let commits = running.database.commits();
        let now = running.now();
        let snapshot = running.database.snapshot();
        running.depth = snapshot.ok().and_then(|rows| outbox::depth(&rows, now, id(1 - side)).ok()).flatten();
        let actions = running.noted.take();
        if self.side(side).disk.is_dead() {
            return self.stopped(side, about, began, true);
        }
        let commits = commits?;
        self.trace.note("commit", &[self.ms, commits]);
        let image = self.side(side).disk.image();
        let this = self.side_mut(side);
        let published = actions.iter().any(|action| matches!(action, Action::OutboxGrew(_)));
        if about.durable || published {
            this.acked = Acked { commits, image };
        }
        this.commits += 1;
        if recovered && about.publishes {
            self.rows.insert(Row::S4);
        }
        let here = Point { side, at: At::Commit(self.side(side).commits) };
        let stops = self.point == Some(here) && !self.reached;
        let performed = if stops { self.rng.random_range(0..=actions.len()) } else { actions.len() };
        let begins = |action: &Action| matches!(action, Action::StartRun { .. } | Action::StartJob(..));
        if actions.iter().skip(performed).any(begins) {
            self.rows.insert(Row::R5);
        }
        for action in actions.into_iter().take(performed) {
            self.perform(side, action);
        }
        if stops {
            self.side(side).disk.die();
            return self.stopped(side, about, began, true);
        }
        self.hear(side);
        Ok(())
    }

    fn perform(&mut self, side: SideIndex, action: Action) {
        let peer = 1 - side;
        let Some(running) = self.side_mut(side).running.as_mut() else { return };
        match action {
            Action::SendFrame(_, session, frame) => {
                let Some(outgoing) = running.outgoing.as_mut().filter(|it| it.session == session) else {
                    return;
                };
                if let ToReceiver::Open(open) = &frame {
                    outgoing.epoch = Some(open.epoch);
                }
                self.link.push(peer, Frame::ToReceiver(session, frame));
            }
            Action::StreamFrom(_, session, seq) => {
                if let Some(outgoing) = running.outgoing.as_mut().filter(|it| it.session == session) {
                    outgoing.next = Some(seq);
                    outgoing.woken = true;
                }
            }
            Action::OutboxGrew(_) => {
                if let Some(outgoing) = running.outgoing.as_mut() {
                    outgoing.woken = true;
                }
            }
            Action::Answer(_, session, frame) if running.incoming.contains(&session) => {
                self.link.push(peer, Frame::ToSender(session, frame));
            }
            Action::Reset(_, session) if running.incoming.remove(&session) => {
                self.link.push(peer, Frame::Stop(session));
            }
            Action::Answer(..) | Action::Reset(..) | Action::Acknowledged(..) => {}
            Action::StartRun { origin, flight, attempt, task, .. } => {
                running.work.push_back(Work::Run { origin, flight, attempt });
                self.truth.run_began(side, origin, flight, task);
            }
            Action::StartJob(ticket, spec) => {
                let (origin, job, attempt) = (ticket.origin, ticket.job, ticket.attempt);
                let long = !spec.files.is_empty();
                running.work.push_back(Work::Job { origin, job, attempt, long });
                running.post(Event::JobStarted { origin, job, attempt });
                let files = spec.files.iter().map(|file| (file.path.as_str(), &file.content.0));
                if long && !files.eq(Truth::files("input").iter().map(|(path, bytes)| (path.as_str(), bytes)))
                {
                    self.truth.mangled.insert(job);
                }
                self.truth.job_began(side, origin, job, spec.code);
            }
            Action::StopRun { origin, flight } => stop(running, |work| work.is_run((origin, flight))),
            Action::StopJob { origin, job } => stop(running, |work| work.is_job((origin, job))),
            Action::CloseJob(ticket, reason) => running.post(work::close(&ticket, reason)),
            Action::AttestEnd(ticket, ..) => {
                running.post(Event::JobAttested { job: ticket.job, evidence: Vec::new() });
            }
            Action::WakeAt(at) => running.wake = running.wake.min(at),
            Action::FlightChanged(_) | Action::JobChanged(_) => {}
        }
    }
}

fn stop(running: &mut Running, is: impl Fn(Work) -> bool) {
    if let Some(at) = running.work.iter().position(|work| is(*work))
        && let Some(work) = running.work.remove(at)
    {
        running.post(work.stop());
    }
}

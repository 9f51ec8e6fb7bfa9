//! One run: the steps of a plan, the turns of both sides, and healing.

use std::collections::BTreeSet;

use mesh_node::writer::Queued;
use mesh_node_core::broker::flight::Flight;
use mesh_node_core::broker::run::{Run, RunState};
use mesh_node_core::event::{Action, Command, Delivery, Event};
use mesh_node_core::jobs::execution::{Execution, ExecutionState};
use mesh_node_core::jobs::job::Job;
use mesh_node_core::outbox;
use mesh_node_core::store::scan_prefix;
use mesh_node_core::time::NodeTime;
use mesh_node_core::view::Contact;
use mesh_protocol::delivery::{ToReceiver, ToSender};
use mesh_protocol::id::NodeId;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::judge::{self, Violation};
use super::link::{Frame, Link};
use super::plan::{Scenario, Step, steps};
use super::point::{At, Point, SIDES, SideIndex};
use super::row::Row;
use super::side::{Acked, Outgoing, Prepared, Running, Side, Waiting, id, view};
use super::truth::Truth;
use super::work::{self, Work};
use crate::Trace;

/// Rounds of healing after which a world that does not rest never will.
const HEALING_ROUNDS: u32 = 800;

/// Milliseconds a session may take to come to live, and how often a quiet one is looked at: as the node does it.
const LIVE_WITHIN_MS: u64 = 5_000;

/// Milliseconds after which the next session begins on a link that lives, likewise.
const AGAIN_AFTER_MS: u64 = 2_000;

/// Times a writer opens its database again before the node ends.
const RECOVERY_TRIES: u32 = 8;

/// Parcels put on the wire at once.
const PAGE: usize = 3;

/// Rows a world may have of a kind.
const ROWS: usize = 1_000;

/// A fault that no design survives, to show that it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Control {
    /// No such fault.
    #[default]
    Honest,
    /// Both disks say that they synced, and did not.
    LyingDisks,
}

/// What one run came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Over everything that happened.
    pub trace: Trace,
    /// What was broken; empty when all is well.
    pub violations: BTreeSet<Violation>,
    /// The rows of the table it met.
    pub rows: BTreeSet<Row>,
    /// Storage operations of each side before healing began.
    pub operations: [u64; 2],
    /// Commits of each side before healing began.
    pub commits: [u64; 2],
    /// Whether the point was reached.
    pub reached: bool,
    /// Machines started again.
    pub restarts: u64,
    /// Acknowledged commits looked for after a machine stopped.
    pub checked: u64,
    /// Commits found that nobody had been told of.
    pub survived: u64,
    /// Asks and jobs accepted, with how they ended: `(accepted, completed)`.
    pub work: (u64, u64),
}

/// Two sides, a link, and the truth about both.
pub(super) struct World {
    pub(super) rng: ChaCha8Rng,
    /// Milliseconds since the run began.
    pub(super) ms: u64,
    pub(super) sides: [Side; 2],
    pub(super) link: Link,
    pub(super) truth: Truth,
    pub(super) rows: BTreeSet<Row>,
    pub(super) violations: BTreeSet<Violation>,
    pub(super) point: Option<Point>,
    pub(super) reached: bool,
    pub(super) base: [u64; 2],
    pub(super) asleep: Option<SideIndex>,
    pub(super) trace: Trace,
    pub(super) restarts: u64,
    pub(super) checked: u64,
    pub(super) survived: u64,
}

/// What a batch was about.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct About {
    pub(super) publishes: bool,
    pub(super) parcel: bool,
    pub(super) acknowledged: bool,
    pub(super) work_ended: bool,
}

impl About {
    fn note(&mut self, event: &Event) {
        match event {
            Event::Command(Command::Send(..) | Command::Ask(..) | Command::Run(..)) => self.publishes = true,
            Event::Delivery(_, Delivery::Parcel { .. }) => self.parcel = true,
            Event::Delivery(_, Delivery::Ack { .. } | Delivery::Resume { .. }) => self.acknowledged = true,
            Event::RunEnded { .. } | Event::JobEnded { .. } => self.work_ended = true,
            _ => {}
        }
    }
}

/// Runs one seed, to its point and on.
///
/// # Errors
/// When a shipped call fails that none may fail.
pub fn simulate(
    prepared: &Prepared,
    seed: u64,
    point: Option<Point>,
    control: Control,
) -> anyhow::Result<Outcome> {
    let mut world = World::new(prepared, seed, point)?;
    if control == Control::LyingDisks {
        world.sides.iter().for_each(|side| side.disk.lie_about_sync(true));
    }
    SIDES.into_iter().try_for_each(|side| world.try_start(side))?;
    for step in steps(seed) {
        world.step(step)?;
    }
    let operations = SIDES.map(|side| world.side(side).disk.operations() - at(&world.base, side));
    let commits = SIDES.map(|side| world.side(side).commits);
    let rests = world.heal(Scenario::of(seed))?;
    judge::judge(&mut world, rests)?;
    let work = judge::work(&world)?;
    Ok(Outcome {
        trace: world.trace,
        violations: world.violations,
        rows: world.rows,
        operations,
        commits,
        reached: world.reached,
        restarts: world.restarts,
        checked: world.checked,
        survived: world.survived,
        work,
    })
}

pub(super) const fn at(numbers: &[u64; 2], side: SideIndex) -> u64 {
    let [a, b] = *numbers;
    if side == 0 { a } else { b }
}

impl World {
    fn new(prepared: &Prepared, seed: u64, point: Option<Point>) -> anyhow::Result<Self> {
        let sides = [prepared.side(0)?, prepared.side(1)?];
        let base = [0, 1].map(|side: SideIndex| {
            let [a, b] = &sides;
            if side == 0 { a.disk.operations() } else { b.disk.operations() }
        });
        let world = Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            ms: 0,
            sides,
            link: Link::default(),
            truth: Truth::default(),
            rows: BTreeSet::new(),
            violations: BTreeSet::new(),
            point,
            reached: false,
            base,
            asleep: None,
            trace: Trace::default(),
            restarts: 0,
            checked: 0,
            survived: 0,
        };
        SIDES.into_iter().for_each(|side| world.arm(side));
        Ok(world)
    }

    pub(super) fn side(&self, side: SideIndex) -> &Side {
        let [a, b] = &self.sides;
        if side == 0 { a } else { b }
    }

    pub(super) fn side_mut(&mut self, side: SideIndex) -> &mut Side {
        let [a, b] = &mut self.sides;
        if side == 0 { a } else { b }
    }

    pub(super) fn running(&mut self, side: SideIndex) -> Option<&mut Running> {
        self.side_mut(side).running.as_mut()
    }

    /// Something the database of a machine holds went wrong for good: there is nothing more to see.
    pub(super) fn is_over(&self) -> bool {
        self.violations.contains(&Violation::Unreadable)
    }

    fn step(&mut self, step: Step) -> anyhow::Result<()> {
        if self.is_over() {
            return Ok(());
        }
        self.trace.note("step", &[self.ms]);
        match step {
            Step::Join => self.link.wanted = true,
            Step::Cut => {
                self.link.wanted = false;
                self.lose_link();
            }
            Step::Send(side, bytes) => self.want(side, super::truth::Want::Send(bytes)),
            Step::Ask(side, seconds) => self.want(side, super::truth::Want::Ask(seconds)),
            Step::Job(side, seconds) => self.want(side, super::truth::Want::Job(seconds)),
            Step::Cancel(side) => self.cancel_newest(side),
            Step::EndWork(side) => self.end_work(side),
            Step::Turns(count) => return (0..count).try_for_each(|_| self.turn()),
            Step::Pass(ms) => self.ms += ms,
            Step::Sleep(side, ms) => self.sleep(side, ms)?,
            Step::Full(side, full) => self.side(side).disk.set_full(full),
            Step::Fail(side) => {
                let at = self.side(side).disk.operations() + self.rng.random_range(1..12);
                self.side(side).disk.fail_at(at);
            }
            Step::Mend(side) => self.side(side).disk.heal(),
            Step::BackUp(side) => self.back_up(side),
            Step::Restore(side) => self.restore(side)?,
            Step::Block(side) => self.block(side),
            Step::Unblock(side) => self.order(side, Command::Unblock(id(1 - side))),
            Step::Revoke(side) => self.revoke(side)?,
            Step::SetClock(side, by_ms) => self.side_mut(side).wall_offset_ms += by_ms,
            Step::Tidy(side) => self.order(side, Command::Tidy),
        }
        self.turn()
    }

    /// A command whose answer nobody waits for.
    pub(super) fn order(&mut self, side: SideIndex, command: Command) {
        if let Some(running) = self.running(side) {
            running.post(Event::Command(command));
        }
    }

    /// An agent or a sandbox ends its oldest work.
    fn end_work(&mut self, side: SideIndex) {
        let Some(work) = self.running(side).and_then(|running| running.work.pop_front()) else { return };
        let event = work.end(&mut self.truth);
        if let Some(running) = self.running(side) {
            running.post(event);
        }
    }

    fn sleep(&mut self, side: SideIndex, ms: u64) -> anyhow::Result<()> {
        self.asleep = Some(side);
        self.lose_link();
        let wanted = std::mem::replace(&mut self.link.wanted, false);
        for _ in 0..4 {
            self.ms += ms / 4;
            self.turn()?;
        }
        self.link.wanted = wanted;
        self.asleep = None;
        Ok(())
    }

    /// A moment in which both sides do something, and some frames arrive.
    pub(super) fn turn(&mut self) -> anyhow::Result<()> {
        if self.is_over() {
            return Ok(());
        }
        self.ms += self.rng.random_range(1..50);
        let first = usize::from(self.rng.random_bool(0.5));
        for side in [first, 1 - first] {
            self.side_turn(side)?;
        }
        self.join();
        for to in [first, 1 - first] {
            for _ in 0..self.rng.random_range(0..4_u32) {
                self.deliver(to);
            }
        }
        Ok(())
    }

    fn side_turn(&mut self, side: SideIndex) -> anyhow::Result<()> {
        if self.asleep == Some(side) || self.is_over() {
            return Ok(());
        }
        if self.side(side).running.is_none() {
            return self.try_start(side);
        }
        self.tick(side);
        self.stream(side)?;
        self.write(side)
    }

    /// Time passes for a process: timers, and sessions that begin and end by time.
    fn tick(&mut self, side: SideIndex) {
        let (ms, up) = (self.ms, self.link.up);
        let session = self.rng.next_u64();
        let reading = self.side(side).reading(ms);
        let Some(running) = self.running(side) else { return };
        running.clock.set(reading);
        if running.now().node >= running.wake {
            running.wake = NodeTime(u64::MAX);
            running.post(Event::Due);
        }
        let stillborn = |outgoing: &Outgoing| outgoing.next.is_none() && ms >= outgoing.began_ms + LIVE_WITHIN_MS;
        if running.outgoing.as_ref().is_some_and(stillborn) {
            self.end_session(side);
        } else if running.outgoing.is_none() && up && ms >= running.again_at_ms {
            let (next, epoch) = (None, None);
            running.outgoing = Some(Outgoing { session, began_ms: ms, next, woken: false, epoch, used: false });
            running.post(Event::Delivery(id(1 - side), Delivery::Begin { session }));
        }
    }

    /// Puts committed parcels on the wire.
    fn stream(&mut self, side: SideIndex) -> anyhow::Result<()> {
        let ms = self.ms;
        let Some(running) = self.side_mut(side).running.as_mut() else { return Ok(()) };
        let Some(outgoing) = running.outgoing.as_mut() else { return Ok(()) };
        let Some(seq) = outgoing.next else { return Ok(()) };
        if !std::mem::take(&mut outgoing.woken) && ms < outgoing.began_ms + LIVE_WITHIN_MS {
            return Ok(());
        }
        outgoing.began_ms = ms;
        let (session, epoch) = (outgoing.session, outgoing.epoch);
        let page = running.database.snapshot().map_err(Into::into).and_then(|snapshot| {
            outbox::next_parcels(&snapshot, id(1 - side), session, seq, PAGE, 1 << 20)
        });
        let Ok(Some(parcels)) = page else {
            self.end_session(side);
            return Ok(());
        };
        outgoing.woken = !parcels.is_empty();
        outgoing.used |= !parcels.is_empty();
        if let Some(last) = parcels.last() {
            outgoing.next = Some(last.seq + 1);
        }
        for parcel in parcels {
            if let Some(epoch) = epoch {
                self.truth.sent.insert((side, epoch, parcel.seq), parcel.message);
            }
            self.link.push(1 - side, Frame::ToReceiver(session, ToReceiver::Parcel(parcel)));
        }
        Ok(())
    }

    /// Runs one batch, or goes on with one that a failing disk held up.
    fn write(&mut self, side: SideIndex) -> anyhow::Result<()> {
        let size = self.rng.random_range(1..5);
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
        this.acked = Acked { commits, image };
        this.commits += 1;
        if recovered && about.publishes {
            self.rows.insert(Row::S4);
        }
        let here = Point { side, at: At::Commit(self.side(side).commits) };
        let stops = self.point == Some(here) && !self.reached;
        let performed = if stops { self.rng.random_range(0..=actions.len()) } else { actions.len() };
        let begins = |action: &Action| matches!(action, Action::StartRun { .. } | Action::StartJob(_));
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
                let Some(outgoing) = running.outgoing.as_mut().filter(|it| it.session == session) else { return };
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
            Action::Answer(..) | Action::Reset(..) => {}
            Action::StartRun { origin, flight, attempt, task, .. } => {
                running.work.push_back(Work::Run { origin, flight, attempt });
                self.truth.run_began(side, origin, flight, task);
            }
            Action::StartJob(ticket) => {
                let (origin, job, attempt) = (ticket.origin, ticket.job, ticket.attempt);
                running.work.push_back(Work::Job { origin, job, attempt });
                running.post(Event::JobStarted { origin, job, attempt });
                self.truth.job_began(side, origin, job, ticket.spec.code);
            }
            Action::StopRun { origin, flight } => stop(running, |work| work.is_run((origin, flight))),
            Action::StopJob { origin, job } => stop(running, |work| work.is_job((origin, job))),
            Action::CloseJob(ticket, reason) => running.post(work::close(&ticket, reason)),
            Action::WakeAt(at) => running.wake = running.wake.min(at),
            Action::FlightChanged(_) | Action::JobChanged(_) => {}
        }
    }

    /// The next frame arrives.
    fn deliver(&mut self, to: SideIndex) {
        if self.asleep == Some(to) {
            return;
        }
        let Some(frame) = self.link.pop(to) else { return };
        let from: NodeId = id(1 - to);
        let Some(running) = self.running(to) else { return };
        let is_current = |session: u64| running.outgoing.as_ref().is_some_and(|it| it.session == session);
        match frame {
            Frame::ToReceiver(session, ToReceiver::Open(open)) => {
                running.incoming.insert(session);
                running.post(Event::Delivery(from, Delivery::Open(open)));
            }
            Frame::ToReceiver(session, frame) if running.incoming.contains(&session) => {
                let delivery = match frame {
                    ToReceiver::Parcel(parcel) => Delivery::Parcel { session, parcel },
                    ToReceiver::Gap(gap) => Delivery::Gap { session, gap },
                    ToReceiver::Open(open) => Delivery::Open(open),
                };
                running.post(Event::Delivery(from, delivery));
            }
            Frame::ToReceiver(..) => {}
            Frame::ToSender(session, frame) if is_current(session) => match frame {
                ToSender::Resume(resume) => {
                    running.post(Event::Delivery(from, Delivery::Resume { session, resume }));
                }
                ToSender::Ack(ack) => running.post(Event::Delivery(from, Delivery::Ack { session, ack })),
                ToSender::Busy(_) => self.end_session(to),
            },
            Frame::Stop(session) if is_current(session) => self.end_session(to),
            Frame::ToSender(..) | Frame::Stop(_) => {}
        }
    }

    pub(super) fn end_session(&mut self, side: SideIndex) {
        let again_at_ms = self.ms + AGAIN_AFTER_MS;
        let Some(running) = self.running(side) else { return };
        if let Some(Outgoing { session, .. }) = running.outgoing.take() {
            running.post(Event::Delivery(id(1 - side), Delivery::Lost { session }));
            running.again_at_ms = again_at_ms;
        }
    }

    /// The link comes up when both machines run and nothing keeps it down.
    fn join(&mut self) {
        let both = self.sides.iter().all(|side| side.running.is_some());
        if self.link.up || !self.link.wanted || !both || self.asleep.is_some() {
            return;
        }
        self.link.up = true;
        for side in SIDES {
            if let Some(running) = self.running(side) {
                running.again_at_ms = 0;
                running.post(Event::View(view(side, Contact::Reachable)));
            }
        }
    }

    /// The link is gone, and with it what was on it; both sides notice.
    pub(super) fn lose_link(&mut self) {
        if !self.link.up {
            return;
        }
        self.rows.insert(Row::L1);
        if self.link.lose() {
            self.rows.insert(Row::R4);
        }
        for side in SIDES {
            self.end_session(side);
            if let Some(running) = self.running(side) {
                running.incoming.clear();
                running.post(Event::View(view(side, Contact::NotNow)));
            }
        }
    }

    /// No more faults: everything must come to rest. Whether it did.
    fn heal(&mut self, scenario: Scenario) -> anyhow::Result<bool> {
        self.trace.note("heal", &[self.ms]);
        for side in &self.sides {
            side.disk.set_full(false);
            side.disk.heal();
            side.disk.die_at(u64::MAX);
        }
        self.point = None;
        self.link.wanted = scenario != Scenario::Revoked;
        let mut quiet = 0;
        for round in 0..HEALING_ROUNDS {
            if self.is_over() {
                return Ok(false);
            }
            if round == 4 {
                self.decide_again()?;
            }
            self.turn()?;
            SIDES.into_iter().for_each(|side| self.end_work(side));
            if round < 8 || !self.is_quiet() {
                continue;
            }
            if self.rests()? {
                return Ok(true);
            }
            quiet += 1;
            // Sessions that wait for their next try; then whatever has a deadline.
            self.ms += if quiet < 12 { LIVE_WITHIN_MS } else { self.until_due() };
        }
        Ok(false)
    }

    fn is_quiet(&self) -> bool {
        let idle = |side: &Side| {
            side.running.as_ref().is_some_and(|running| {
                running.inbox.is_empty() && running.work.is_empty() && running.core.held() == 0
            })
        };
        self.link.is_empty() && self.sides.iter().all(idle)
    }

    /// Whether nothing waits any more.
    fn rests(&self) -> anyhow::Result<bool> {
        for side in &self.sides {
            let Some(running) = &side.running else { return Ok(false) };
            let snapshot = running.database.snapshot()?;
            let depth = outbox::depth(&snapshot, running.now(), id(1 - side.index))?;
            let waits = depth.is_some_and(|depth| depth.count > 0) && self.truth.revoked.is_none();
            let open = scan_prefix::<Flight>(&snapshot, &(), ROWS)?.iter().any(|(_, it)| it.outcome.is_none())
                || scan_prefix::<Job>(&snapshot, &(), ROWS)?.iter().any(|(_, it)| it.result.is_none())
                || scan_prefix::<Run>(&snapshot, &(), ROWS)?.iter().any(|(_, it)| it.state != RunState::Ended)
                || scan_prefix::<Execution>(&snapshot, &(), ROWS)?
                    .iter()
                    .any(|(_, it)| it.state != ExecutionState::Ended);
            if waits || open {
                return Ok(false);
            }
        }
        Ok(self.truth.requests.iter().all(|request| request.answered))
    }

    fn until_due(&self) -> u64 {
        let wait = |side: &Side| {
            side.running.as_ref().map(|running| running.wake.since(running.now().node).saturating_add(1))
        };
        const HOUR_MS: u64 = 3_600_000;
        self.sides.iter().filter_map(wait).min().unwrap_or(0).clamp(LIVE_WITHIN_MS, 25 * HOUR_MS)
    }
}

fn stop(running: &mut Running, is: impl Fn(Work) -> bool) {
    if let Some(at) = running.work.iter().position(|work| is(*work))
        && let Some(work) = running.work.remove(at)
    {
        running.post(work.stop());
    }
}

/// How many times the writer may try.
pub(super) const fn gives_up(tries: u32) -> bool {
    tries >= RECOVERY_TRIES
}

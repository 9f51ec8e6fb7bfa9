//! One run: the steps of a plan, the turns of both sides, and healing.

use std::collections::BTreeSet;

use mesh_node_core::event::{Command, Event};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::judge::{self, Violation};
use super::link::Link;
use super::plan::{Scenario, Step, steps};
use super::point::{Point, SIDES, SideIndex};
use super::row::Row;
use super::side::{Prepared, Running, Side, id};
use super::truth::{Truth, Want};
use crate::Trace;

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
            Step::Send(side, bytes) => self.want(side, Want::Send(bytes)),
            Step::Ask(side, seconds) => self.want(side, Want::Ask(seconds)),
            Step::Job(side, seconds) => self.want(side, Want::Job(seconds)),
            Step::LongJob(side, seconds) => self.want(side, Want::LongJob(seconds)),
            Step::Cancel(side) => self.cancel_newest(side),
            Step::EndWork(side) => self.end_work(side),
            Step::Turns(count) => return (0..count).try_for_each(|_| self.turn()),
            Step::Pass(ms) => self.ms += ms,
            Step::Sleep(side, ms) => self.sleep(side, ms)?,
            Step::Full(side, full) => self.side(side).disk.set_full(full),
            Step::Fail(side) => {
                let at = self.side(side).disk.operations() + self.rng.random_range(1..5);
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
    pub(super) fn end_work(&mut self, side: SideIndex) {
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
}

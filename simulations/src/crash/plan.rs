//! What happens in a run, from its seed: ordinary work, and one thing that goes wrong.

use mesh_protocol::limits::PARCEL_FRAME_BYTES_MAX;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::point::SideIndex;

/// What goes wrong, beside the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scenario {
    /// Nothing.
    Quiet,
    /// The link is lost and found; some work expires meanwhile.
    Cut,
    /// Work is taken back, at every stage.
    Withdrawn,
    /// The receiver's disk is full for a while.
    FullReceiver,
    /// The sender's is.
    FullSender,
    /// The sender's disk fails, and recovers.
    FailingSender,
    /// The receiver's does.
    FailingReceiver,
    /// The sender's disk is restored from a backup.
    RestoredSender,
    /// The receiver's is.
    RestoredReceiver,
    /// One side blocks the other, and takes it back.
    Blocked,
    /// One side learns that the other was revoked.
    Revoked,
    /// Wall clocks are set a day forth and back.
    Clocks,
    /// One machine sleeps for half an hour.
    Asleep,
}

impl Scenario {
    /// All of them. Seeds take turns.
    pub const ALL: [Self; 13] = [
        Self::Quiet,
        Self::Cut,
        Self::Withdrawn,
        Self::FullReceiver,
        Self::FullSender,
        Self::FailingSender,
        Self::FailingReceiver,
        Self::RestoredSender,
        Self::RestoredReceiver,
        Self::Blocked,
        Self::Revoked,
        Self::Clocks,
        Self::Asleep,
    ];

    /// The scenario of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let count = u64::try_from(Self::ALL.len()).unwrap_or(1);
        let index = usize::try_from(seed % count).unwrap_or(0);
        Self::ALL.get(index).copied().unwrap_or(Self::Quiet)
    }
}

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Join,
    Cut,
    /// A text of this many bytes, to the other side's agent.
    Send(SideIndex, usize),
    /// An ask of it, with a deadline in seconds.
    Ask(SideIndex, u64),
    /// A job for the other side's sandbox, likewise.
    Job(SideIndex, u64),
    /// The same with files to and fro, each way longer than a parcel: it goes in parts.
    LongJob(SideIndex, u64),
    /// Takes the newest work that has not ended back.
    Cancel(SideIndex),
    /// An agent or a sandbox here ends its oldest work.
    EndWork(SideIndex),
    /// So many turns of both.
    Turns(u32),
    /// Time passes, in milliseconds, and both see it.
    Pass(u64),
    /// This side's machine sleeps for so many milliseconds.
    Sleep(SideIndex, u64),
    Full(SideIndex, bool),
    Fail(SideIndex),
    Mend(SideIndex),
    BackUp(SideIndex),
    Restore(SideIndex),
    Block(SideIndex),
    Unblock(SideIndex),
    Revoke(SideIndex),
    /// The wall clock is set by so many milliseconds.
    SetClock(SideIndex, i64),
    Tidy(SideIndex),
}

const A: SideIndex = 0;
const B: SideIndex = 1;

/// Bytes of the files of a long job, each way.
pub(super) const LONG_BYTES: usize = 4_500_000;

const _: () = assert!(LONG_BYTES > PARCEL_FRAME_BYTES_MAX, "it goes in parts");

/// Of so many rounds of all scenarios one has long jobs: a run with one takes several times as long.
const LONG_ROUND: [u64; 2] = [6, 8];

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: i64 = 24 * 3_600_000;

/// The steps of a seed.
pub(super) fn steps(seed: u64) -> Vec<Step> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x706c_616e);
    let mut steps = vec![Step::Join, Step::Turns(6)];
    traffic(&mut steps, &mut rng, 3);
    if is_long(seed) {
        steps.extend([Step::LongJob(A, 86_400), Step::Turns(rng.random_range(0..8))]);
    }
    trouble(&mut steps, &mut rng, Scenario::of(seed));
    traffic(&mut steps, &mut rng, 2);
    steps
}

/// Whether a job of this seed goes in parts.
#[must_use]
pub fn is_long(seed: u64) -> bool {
    let [which, of] = LONG_ROUND;
    seed / u64::try_from(Scenario::ALL.len()).unwrap_or(1) % of == which
}

/// Ordinary work in both directions, at every stage of its life.
fn traffic(steps: &mut Vec<Step>, rng: &mut ChaCha8Rng, count: u32) {
    for _ in 0..count {
        steps.push(match rng.random_range(0..8_u32) {
            0 | 1 => Step::Send(A, size(rng)),
            2 | 3 => Step::Ask(A, 3_600),
            4 => Step::Job(A, 3_600),
            5 => Step::Ask(B, 3_600),
            6 => Step::Send(B, size(rng)),
            _ => Step::Tidy(if rng.random_bool(0.5) { A } else { B }),
        });
        steps.push(Step::Turns(rng.random_range(0..4)));
        if rng.random_bool(0.6) {
            steps.extend([Step::EndWork(B), Step::EndWork(A), Step::Turns(rng.random_range(1..4))]);
        }
    }
}

/// Mostly a sentence, at times more pages than one.
fn size(rng: &mut ChaCha8Rng) -> usize {
    if rng.random_ratio(1, 4) { rng.random_range(4_000..20_000) } else { rng.random_range(10..200) }
}

fn trouble(steps: &mut Vec<Step>, rng: &mut ChaCha8Rng, scenario: Scenario) {
    let few = |rng: &mut ChaCha8Rng| Step::Turns(rng.random_range(0..4));
    match scenario {
        Scenario::Quiet => {}
        Scenario::Cut => {
            steps.extend([Step::Ask(A, 3_600), few(rng), Step::Cut, Step::Ask(A, 60), Step::Job(A, 60)]);
            steps.extend([Step::Send(A, 50), Step::Ask(B, 60), few(rng), Step::Cancel(B), Step::Turns(2)]);
            steps.extend([
                Step::Pass(61_000),
                Step::Turns(3),
                Step::Join,
                Step::Turns(3),
                Step::Cut,
                Step::Join,
            ]);
        }
        Scenario::Withdrawn => {
            steps.extend([Step::Ask(A, 3_600), few(rng), Step::Cancel(A), few(rng), Step::Job(A, 3_600)]);
            steps.extend([
                few(rng),
                Step::Cancel(A),
                Step::Ask(A, 60),
                Step::Ask(A, 60),
                few(rng),
                Step::Cut,
            ]);
            steps.extend([Step::Cancel(A), Step::Turns(2), Step::Pass(61_000), Step::Turns(2), Step::Join]);
        }
        Scenario::FullReceiver | Scenario::FullSender => {
            let side = if scenario == Scenario::FullReceiver { B } else { A };
            steps.extend([Step::Full(side, true), Step::Ask(A, 3_600), Step::Send(A, 9_000), Step::Turns(4)]);
            steps.extend([Step::Job(A, 3_600), Step::EndWork(B), Step::Turns(rng.random_range(4..16))]);
            steps.extend([Step::Full(side, false), Step::Turns(3)]);
        }
        Scenario::FailingSender | Scenario::FailingReceiver => {
            let side = if scenario == Scenario::FailingReceiver { B } else { A };
            steps.extend([Step::Ask(A, 3_600), Step::Fail(side), Step::Send(A, 100), Step::Turns(3)]);
            steps.extend([Step::EndWork(B), Step::Turns(rng.random_range(1..14)), Step::Mend(side)]);
            steps.push(Step::Turns(3));
        }
        Scenario::RestoredSender | Scenario::RestoredReceiver => {
            let side = if scenario == Scenario::RestoredReceiver { B } else { A };
            let long = rng.random_bool(0.5);
            steps.extend([Step::Ask(A, 86_400), few(rng), Step::BackUp(side), Step::Send(A, 60), few(rng)]);
            steps.extend([Step::Ask(A, 86_400), Step::Job(A, 86_400), Step::Turns(6), Step::EndWork(B)]);
            steps.extend([Step::Ask(B, 86_400), Step::Turns(4)]);
            if long {
                // Longer than acknowledged parcels are kept: a gap is left.
                steps.extend([Step::Pass(2 * HOUR_MS), Step::Tidy(A), Step::Turns(2)]);
            }
            steps.extend([few(rng), Step::Restore(side), Step::Turns(6)]);
        }
        Scenario::Blocked => {
            steps.extend([Step::Ask(A, 3_600), few(rng), Step::Cut, Step::Send(A, 40), Step::Ask(A, 3_600)]);
            steps.extend([Step::Turns(1), Step::Block(A), Step::Turns(2), Step::Join, Step::Turns(4)]);
            steps.extend([Step::Send(A, 40), Step::Turns(2), Step::Unblock(A), Step::Turns(3)]);
        }
        Scenario::Revoked => {
            steps.extend([Step::Ask(B, 60), few(rng), Step::Cut, Step::Send(A, 40), Step::Ask(A, 3_600)]);
            steps.extend([Step::Job(A, 3_600), Step::Turns(1), Step::Revoke(A), Step::Turns(2)]);
        }
        Scenario::Clocks => {
            steps.extend([Step::Ask(A, 3_600), few(rng), Step::SetClock(A, DAY_MS), Step::Ask(A, 3_600)]);
            steps.extend([few(rng), Step::SetClock(B, -DAY_MS), Step::Job(A, 3_600), Step::Turns(3)]);
            steps.extend([
                Step::SetClock(A, -DAY_MS),
                Step::Ask(B, 3_600),
                few(rng),
                Step::SetClock(B, DAY_MS),
            ]);
        }
        Scenario::Asleep => {
            let side = if rng.random_bool(0.5) { A } else { B };
            steps.extend([Step::Ask(A, 7_200), few(rng), Step::Ask(B, 7_200), few(rng)]);
            steps.extend([Step::Sleep(side, HOUR_MS / 2), Step::Turns(4)]);
        }
    }
}

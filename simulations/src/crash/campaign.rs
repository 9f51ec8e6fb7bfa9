//! Many points on all cores, and what they came to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::judge::Violation;
use super::point::{At, Point, SIDES};
use super::row::Row;
use super::side::Prepared;
use super::world::{Control, at, simulate};

/// Points a worker takes at once.
const CHUNK: usize = 32;

/// Which points to run.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// The first seed; all points of one come before those of the next.
    pub seed: u64,
    /// How many points.
    pub points: usize,
    /// Of the points there are, every n-th.
    pub stride: usize,
    /// The distance from one seed to the next.
    pub step: u64,
    /// A fault that must be noticed.
    pub control: Control,
}

impl Default for Campaign {
    fn default() -> Self {
        Self { seed: 0, points: 1_000, stride: 1, step: 1, control: Control::Honest }
    }
}

/// A run that broke something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Its point; `None` is the run without a crash.
    pub point: Option<Point>,
    /// What it broke, or the first of that.
    pub violation: Violation,
}

/// What they came to.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Points run.
    pub points: u64,
    /// Of these, reached: the machine stopped there.
    pub reached: u64,
    /// Seeds they are of.
    pub seeds: u64,
    /// Machines started again.
    pub restarts: u64,
    /// Acknowledged commits looked for, each time a machine stopped.
    pub checked: u64,
    /// Commits found that nobody had been told of.
    pub survived: u64,
    /// Asks and jobs accepted.
    pub accepted: u64,
    /// Of these, those that came to their own end.
    pub completed: u64,
    /// How many runs met each row of the table.
    pub rows: BTreeMap<Row, u64>,
    /// Runs that broke something.
    pub failures: Vec<Failure>,
    /// Wall time.
    pub took: Duration,
}

/// Runs a campaign.
///
/// # Errors
/// When a shipped call fails that none may fail.
pub fn run(campaign: Campaign) -> anyhow::Result<Report> {
    let started = Instant::now();
    let prepared = Prepared::new()?;
    let mut report = Report::default();
    let points = enumerate(&prepared, campaign, &mut report)?;
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let parts = std::thread::scope(|scope| {
        let work = || part(&prepared, campaign.control, &points, &next);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow::anyhow!("a run panicked"))?)
            .collect::<anyhow::Result<Vec<Report>>>()
    })?;
    parts.into_iter().for_each(|part| report.merge(part));
    report.failures.sort_by_key(|failure| failure.seed);
    report.took = started.elapsed();
    Ok(report)
}

/// The points of the seeds, in order: first each seed runs without a crash, and shows how many it has.
fn enumerate(
    prepared: &Prepared,
    campaign: Campaign,
    report: &mut Report,
) -> anyhow::Result<Vec<(u64, Point)>> {
    let mut points = Vec::new();
    let mut seed = campaign.seed;
    let mut skip = 0;
    while points.len() < campaign.points {
        let whole = simulate(prepared, seed, None, Control::Honest)?;
        report.seeds += 1;
        let failures = whole.violations.iter().map(|violation| (seed, None, *violation));
        report.failures.extend(failures.map(|(seed, point, violation)| Failure { seed, point, violation }));
        for side in SIDES {
            let operations = (1..=at(&whole.operations, side)).map(At::Operation);
            let all = operations.chain((1..=at(&whole.commits, side)).map(At::Commit));
            for at in all {
                if skip == 0 {
                    points.push((seed, Point { side, at }));
                    skip = campaign.stride;
                }
                skip -= 1;
            }
        }
        seed = seed.wrapping_add(campaign.step);
    }
    points.truncate(campaign.points);
    Ok(points)
}

fn part(
    prepared: &Prepared,
    control: Control,
    points: &[(u64, Point)],
    next: &AtomicUsize,
) -> anyhow::Result<Report> {
    let mut report = Report::default();
    loop {
        let from = next.fetch_add(CHUNK, Ordering::Relaxed);
        let Some(rest) = points.get(from..).filter(|rest| !rest.is_empty()) else { return Ok(report) };
        for (seed, point) in rest.iter().take(CHUNK) {
            let outcome = simulate(prepared, *seed, Some(*point), control)?;
            report.points += 1;
            report.reached += u64::from(outcome.reached);
            report.restarts += outcome.restarts;
            report.checked += outcome.checked;
            report.survived += outcome.survived;
            report.accepted += outcome.work.0;
            report.completed += outcome.work.1;
            outcome.rows.iter().for_each(|row| *report.rows.entry(*row).or_insert(0) += 1);
            let failed =
                |violation: &Violation| Failure { seed: *seed, point: Some(*point), violation: *violation };
            report.failures.extend(outcome.violations.first().map(failed));
        }
    }
}

impl Report {
    fn merge(&mut self, part: Self) {
        self.points += part.points;
        self.reached += part.reached;
        self.restarts += part.restarts;
        self.checked += part.checked;
        self.survived += part.survived;
        self.accepted += part.accepted;
        self.completed += part.completed;
        part.rows.into_iter().for_each(|(row, times)| *self.rows.entry(row).or_insert(0) += times);
        self.failures.extend(part.failures);
    }

    /// Runs that broke this.
    #[must_use]
    pub fn broke(&self, violation: Violation) -> usize {
        self.failures.iter().filter(|failure| failure.violation == violation).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_second = self.points as f64 / self.took.as_secs_f64();
        writeln!(f, "points              {} of {} seeds, {} reached", self.points, self.seeds, self.reached)?;
        writeln!(f, "took                {:.1} s, {per_second:.0} a second", self.took.as_secs_f64())?;
        writeln!(f, "restarts            {}", self.restarts)?;
        writeln!(f, "commits checked     {}", self.checked)?;
        writeln!(f, "survived untold     {}", self.survived)?;
        writeln!(f, "unreadable          {}", self.broke(Violation::Unreadable))?;
        writeln!(f, "lost commits        {}", self.broke(Violation::LostCommit))?;
        writeln!(f, "asks and jobs       {}, {} completed", self.accepted, self.completed)?;
        let rows: Vec<String> = self.rows.iter().map(|(row, times)| format!("{row:?} {times}")).collect();
        write!(f, "rows met            {}", rows.join(", "))
    }
}

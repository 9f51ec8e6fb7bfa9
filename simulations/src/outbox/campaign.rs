//! Many schedules on all cores, and what they came to.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use super::mutant::Mutant;
use super::oracle::Violation;
use super::world::{Outcome, Restored, simulate};

/// Which schedules to run.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// The first seed; the others follow it.
    pub seed: u64,
    /// How many.
    pub schedules: u64,
    /// With which mistake.
    pub mutant: Option<Mutant>,
}

/// What they came to.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Schedules run.
    pub schedules: u64,
    /// Of these, with no restored disk.
    pub without_restore: u64,
    /// Messages accepted.
    pub published: u64,
    /// Effects that became durable.
    pub effects: u64,
    /// Machines that stopped.
    pub crashes: u64,
    /// Statements that a message was never sent.
    pub never_sent: u64,
    /// Statements that a message never arrived.
    pub never_arrived: u64,
    /// Gaps reported.
    pub gaps: u64,
    /// Restored disks found.
    pub rollbacks_found: u64,
    /// Broken invariants, each with how often and the first seed.
    pub violations: BTreeMap<Violation, (u64, u64)>,
    /// Wall time.
    pub took: Duration,
}

/// Runs a campaign.
///
/// # Errors
/// When a shipped call fails, which none may.
pub fn run(campaign: Campaign) -> anyhow::Result<Report> {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let step = u64::try_from(threads)?;
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..step).map(|offset| scope.spawn(move || part(campaign, offset, step))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow::anyhow!("a schedule panicked"))?)
            .collect::<anyhow::Result<Vec<Report>>>()
    })?;
    let mut report = Report::default();
    parts.into_iter().for_each(|part| report.merge(part));
    report.took = started.elapsed();
    Ok(report)
}

fn part(campaign: Campaign, offset: u64, step: u64) -> anyhow::Result<Report> {
    let mut report = Report::default();
    for index in (offset..campaign.schedules).step_by(usize::try_from(step)?) {
        let seed = campaign.seed.wrapping_add(index);
        report.add(seed, &simulate(seed, campaign.mutant)?);
    }
    Ok(report)
}

impl Report {
    fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.schedules += 1;
        self.without_restore += u64::from(outcome.restored == Restored::Nobody);
        self.published += outcome.published;
        self.effects += outcome.effects;
        self.crashes += outcome.crashes;
        self.never_sent += outcome.never_sent;
        self.never_arrived += outcome.never_arrived;
        self.gaps += outcome.gaps;
        self.rollbacks_found += outcome.rollbacks_found;
        for violation in &outcome.violations {
            self.count_violation(*violation, 1, seed);
        }
    }

    fn merge(&mut self, part: Self) {
        self.schedules += part.schedules;
        self.without_restore += part.without_restore;
        self.published += part.published;
        self.effects += part.effects;
        self.crashes += part.crashes;
        self.never_sent += part.never_sent;
        self.never_arrived += part.never_arrived;
        self.gaps += part.gaps;
        self.rollbacks_found += part.rollbacks_found;
        for (violation, (times, seed)) in part.violations {
            self.count_violation(violation, times, seed);
        }
    }

    fn count_violation(&mut self, violation: Violation, times: u64, seed: u64) {
        let (total, first) = self.violations.entry(violation).or_insert((0, seed));
        *total += times;
        *first = seed.min(*first);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_second = self.schedules as f64 / self.took.as_secs_f64();
        writeln!(
            f,
            "schedules        {} ({} without a restored disk)",
            self.schedules, self.without_restore
        )?;
        writeln!(f, "speed            {per_second:.0} a second")?;
        writeln!(f, "published        {}", self.published)?;
        writeln!(f, "effects          {}", self.effects)?;
        writeln!(f, "crashes          {}", self.crashes)?;
        writeln!(f, "never sent       {}", self.never_sent)?;
        writeln!(f, "never arrived    {}", self.never_arrived)?;
        writeln!(f, "rollbacks found  {}", self.rollbacks_found)?;
        write!(f, "gaps             {}", self.gaps)?;
        for (violation, (times, seed)) in &self.violations {
            write!(f, "\nBROKEN {violation:?}: {times} times, first with seed {seed}")?;
        }
        Ok(())
    }
}

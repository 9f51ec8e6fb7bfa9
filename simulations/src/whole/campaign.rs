//! Many seeds on all cores, and what they came to.

use std::fmt;
use std::time::{Duration, Instant};

use super::run::{Outcome, Tally, simulate};
use super::scenario::Scenario;

/// Which seeds to run.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The kind of world.
    pub scenario: Scenario,
    /// The first seed; the others follow it.
    pub from: u64,
    /// How many.
    pub seeds: u64,
}

/// What they came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// The kind of world.
    pub scenario: String,
    /// Its nodes.
    pub nodes: usize,
    /// Every outcome, by seed.
    pub outcomes: Vec<Outcome>,
    /// Wall time.
    pub took: Duration,
}

/// Runs a campaign.
///
/// # Errors
/// When a world itself fails.
pub fn run(campaign: &Campaign) -> anyhow::Result<Report> {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let step = u64::try_from(threads)?;
    let mut outcomes = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..step).map(|offset| scope.spawn(move || part(campaign, offset, step))).collect();
        let parts = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow::anyhow!("a seed panicked"))?)
            .collect::<anyhow::Result<Vec<_>>>()?;
        anyhow::Ok(parts.into_iter().flatten().collect::<Vec<Outcome>>())
    })?;
    outcomes.sort_by_key(|outcome| outcome.seed);
    let Scenario { name, nodes, .. } = campaign.scenario.clone();
    Ok(Report { scenario: name, nodes, outcomes, took: started.elapsed() })
}

fn part(campaign: &Campaign, offset: u64, step: u64) -> anyhow::Result<Vec<Outcome>> {
    let seeds = (offset..campaign.seeds).step_by(usize::try_from(step)?);
    seeds.map(|seed| simulate(campaign.from.wrapping_add(seed), &campaign.scenario)).collect()
}

impl Report {
    /// Runs in which something was broken.
    pub fn failures(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| !outcome.broken.is_empty())
    }

    /// All numbers added up.
    #[must_use]
    pub fn total(&self) -> Tally {
        self.outcomes.iter().fold(Tally::default(), |sum, outcome| sum.plus(&outcome.tally))
    }

    /// The longest rest after healing, in virtual milliseconds, among this share of the runs.
    #[must_use]
    pub fn rests_within_ms(&self, percent: usize) -> u64 {
        let mut rests: Vec<u64> = self.outcomes.iter().map(|outcome| outcome.tally.rests_after_ms).collect();
        rests.sort_unstable();
        let place = (rests.len() * percent).div_ceil(100).saturating_sub(1);
        rests.get(place).copied().unwrap_or(0)
    }
}

impl Tally {
    fn plus(self, other: &Self) -> Self {
        Self {
            virtual_ms: self.virtual_ms + other.virtual_ms,
            rests_after_ms: self.rests_after_ms + other.rests_after_ms,
            packets: self.packets + other.packets,
            asks: self.asks + other.asks,
            completed: self.completed + other.completed,
            not_run: self.not_run + other.not_run,
            messages: self.messages + other.messages,
            jobs: self.jobs + other.jobs,
            effects: self.effects + other.effects,
            lives: self.lives + other.lives,
            set_back: self.set_back + other.set_back,
            reports: self.reports + other.reports,
        }
    }
}

/// The one command that plays a run again.
#[must_use]
pub fn replay_command(seed: u64, scenario: &str) -> String {
    format!("cargo run -p mesh-simulations --release -- replay --seed {seed} --scenario {scenario}")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let seconds = total.virtual_ms as f64 / 1_000.0;
        let (seeds, wall) = (self.outcomes.len(), self.took.as_secs_f64());
        writeln!(f, "scenario         {}, {} nodes", self.scenario, self.nodes)?;
        writeln!(f, "seeds            {seeds} in {wall:.1} s, {:.1} a second", seeds as f64 / wall)?;
        writeln!(f, "virtual time     {seconds:.0} s, {:.0} a second", seconds / wall)?;
        writeln!(f, "asks             {}, {} completed", total.asks, total.completed)?;
        writeln!(f, "could not run    {}", total.not_run)?;
        writeln!(f, "messages         {}", total.messages)?;
        writeln!(f, "jobs             {}", total.jobs)?;
        writeln!(f, "effects          {}", total.effects)?;
        writeln!(f, "lives of nodes   {}", total.lives)?;
        writeln!(f, "disks set back   {}, {} reports", total.set_back, total.reports)?;
        writeln!(f, "packets          {}", total.packets)?;
        let (median, most) = (self.rests_within_ms(50), self.rests_within_ms(100));
        write!(f, "rest after heal  {median} ms in half of the runs, {most} ms in all")?;
        for outcome in self.failures() {
            for broken in &outcome.broken {
                write!(f, "\nBROKEN with seed {}: {broken}", outcome.seed)?;
            }
            write!(f, "\nreplay: {}", replay_command(outcome.seed, &self.scenario))?;
        }
        Ok(())
    }
}

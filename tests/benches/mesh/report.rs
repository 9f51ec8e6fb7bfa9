//! What was measured, as a table for people or one JSON document.
//!
//! A figure is printed when it is there, with the load average of that moment, so that a long run shows how it goes.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

/// Where and on what the figures were taken.
#[derive(Serialize)]
struct Machine {
    cores: usize,
    kernel: String,
    load_average: String,
}

/// One measured thing.
#[derive(Serialize)]
struct Figure {
    name: String,
    #[serde(flatten)]
    value: Value,
    /// Processes ready to run or waiting for the disk, over the last minute, when the figure was taken.
    load: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Value {
    Times {
        count: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        per_second: Option<f64>,
        p50_us: u64,
        p99_us: u64,
    },
    Ratio(f64),
    Bytes(u64),
    Skipped(String),
}

/// All figures of one run.
pub(crate) struct Report {
    json: bool,
    machine: Machine,
    figures: Vec<Figure>,
}

/// The value below which this share (in percent) of the times lies; zero when there are none.
pub(crate) fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

fn load_average() -> anyhow::Result<String> {
    Ok(fs::read_to_string("/proc/loadavg").context("the load average")?.trim().to_owned())
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Report {
    /// An empty report; a table begins at once.
    pub(crate) fn new(json: bool) -> anyhow::Result<Self> {
        let machine = Machine {
            cores: std::thread::available_parallelism()?.get(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            load_average: load_average()?,
        };
        if !json {
            println!("{} cores, Linux {}, load {}", machine.cores, machine.kernel, machine.load_average);
            println!("{:<54} {:>6} {:>8} {:>11} {:>11} {:>6}", "", "count", "per s", "p50", "p99", "load");
        }
        Ok(Self { json, machine, figures: Vec::new() })
    }

    /// Adds how long something took, each time.
    pub(crate) fn times(&mut self, name: impl Into<String>, times: &[Duration]) -> anyhow::Result<()> {
        self.rated(name, times, None)
    }

    /// Adds how long something took, each time, and how often it happened in `within`.
    pub(crate) fn rated(
        &mut self,
        name: impl Into<String>,
        times: &[Duration],
        within: Option<Duration>,
    ) -> anyhow::Result<()> {
        let count = times.len();
        let per_second = match within {
            Some(within) => Some(f64::from(u32::try_from(count)?) / within.as_secs_f64()),
            None => None,
        };
        let (p50_us, p99_us) = (microseconds(percentile(times, 50)), microseconds(percentile(times, 99)));
        self.add(name.into(), Value::Times { count, per_second, p50_us, p99_us })
    }

    /// Adds how often `floor` fits into `measured`.
    pub(crate) fn ratio(
        &mut self,
        name: impl Into<String>,
        measured: Duration,
        floor: Duration,
    ) -> anyhow::Result<()> {
        self.add(name.into(), Value::Ratio(measured.as_secs_f64() / floor.as_secs_f64()))
    }

    /// Adds how many times as fast this was as something else.
    pub(crate) fn factor(&mut self, name: impl Into<String>, factor: f64) -> anyhow::Result<()> {
        self.add(name.into(), Value::Ratio(factor))
    }

    /// Adds a size in bytes.
    pub(crate) fn bytes(&mut self, name: impl Into<String>, bytes: u64) -> anyhow::Result<()> {
        self.add(name.into(), Value::Bytes(bytes))
    }

    /// Says that something was not measured.
    pub(crate) fn skipped(&mut self, name: impl Into<String>, reason: String) -> anyhow::Result<()> {
        self.add(name.into(), Value::Skipped(reason))
    }

    fn add(&mut self, name: String, value: Value) -> anyhow::Result<()> {
        let load = load_average()?;
        let load = load.split(' ').next().unwrap_or_default().parse()?;
        if !self.json {
            print_row(&name, &value, load);
        }
        self.figures.push(Figure { name, value, load });
        Ok(())
    }

    /// Prints what is not printed yet.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        if self.json {
            let document = serde_json::json!({ "machine": self.machine, "figures": self.figures });
            println!("{}", serde_json::to_string_pretty(&document)?);
        }
        Ok(())
    }
}

fn print_row(name: &str, value: &Value, load: f64) {
    match value {
        Value::Times { count, per_second, p50_us, p99_us } => {
            let rate = per_second.map_or_else(String::new, |rate| format!("{rate:.0}"));
            let (p50, p99) = (Duration::from_micros(*p50_us), Duration::from_micros(*p99_us));
            println!("{name:<54} {count:>6} {rate:>8} {p50:>11.2?} {p99:>11.2?} {load:>6.2}");
        }
        Value::Ratio(ratio) => println!("{name:<54} {:>28} {:>11} {load:>6.2}", format!("{ratio:.2}"), ""),
        Value::Bytes(bytes) => {
            let mebibytes = format!("{}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20);
            println!("{name:<54} {mebibytes:>28} {:>11} {load:>6.2}", "");
        }
        Value::Skipped(reason) => println!("SKIPPED: {name}: {reason}"),
    }
}

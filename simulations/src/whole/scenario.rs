//! A kind of world: how many nodes, what weather, what is done to them. A file in `scenarios/`.

use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::network::Weather;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Machines that do not hear each other.
    Split,
    /// Processes killed, power cut, machines that stop in the middle of a write.
    Crash,
    /// Disks that fail for a while.
    FailDisk,
    /// Disks that take long.
    SlowDisk,
    /// Nodes stopped in order.
    Stop,
    /// Disks put back to a backup.
    SetBack,
    /// Homes that run twice.
    Double,
    /// Wall clocks that are set.
    Clock,
    /// Machines that sleep.
    Sleep,
}

/// A kind of world.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name, for people.
    #[serde(skip)]
    pub name: String,
    /// Nodes.
    pub nodes: usize,
    /// Virtual seconds of the safety phase.
    pub seconds: u64,
    /// Virtual seconds after which a healed world that is not calm never will be.
    pub heal_seconds: u64,
    /// Of a thousand packets, so many are lost.
    #[serde(default)]
    pub lose: u32,
    /// Of a thousand packets, so many come twice.
    #[serde(default)]
    pub repeat: u32,
    /// Of a thousand packets, so many are late.
    #[serde(default)]
    pub reorder: u32,
    /// The shortest and the longest way of a packet, in milliseconds.
    pub latency_ms: [u64; 2],
    /// Asks, messages, jobs and cancellations a second, over the whole mesh.
    pub work_per_second: f64,
    /// Faults a second, over the whole mesh.
    #[serde(default)]
    pub faults_per_second: f64,
    /// Which faults.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// The scenario that is meant when none is named.
pub const DEFAULT: &str = "whole";

/// The scenarios that come with the program.
const SHIPPED: [(&str, &str); 6] = [
    ("whole", include_str!("../../scenarios/whole.toml")),
    ("calm", include_str!("../../scenarios/calm.toml")),
    ("lossy", include_str!("../../scenarios/lossy.toml")),
    ("everything", include_str!("../../scenarios/everything.toml")),
    ("doubled", include_str!("../../scenarios/doubled.toml")),
    ("twenty", include_str!("../../scenarios/twenty.toml")),
];

impl Scenario {
    /// The one of this name, or in this file.
    ///
    /// # Errors
    /// When there is none, or it does not read.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        let shipped = SHIPPED.iter().find(|(known, _)| *known == name);
        let text = match shipped {
            Some((_, text)) => (*text).to_owned(),
            None => std::fs::read_to_string(Path::new(name)).with_context(|| {
                let known = SHIPPED.map(|(name, _)| name).join(", ");
                format!("`{name}` is no file and none of {known}")
            })?,
        };
        Self::parse(name, &text)
    }

    fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let scenario: Self = toml::from_str(text).with_context(|| format!("scenario {name}"))?;
        let [shortest, longest] = scenario.latency_ms;
        anyhow::ensure!((1..=200).contains(&scenario.nodes), "scenario {name}: 1 to 200 nodes");
        anyhow::ensure!(shortest <= longest, "scenario {name}: the longest way is shorter than the shortest");
        let rates = [scenario.lose, scenario.repeat, scenario.reorder];
        anyhow::ensure!(rates.iter().all(|rate| *rate <= 1_000), "scenario {name}: a rate is of a thousand");
        Ok(Self { name: name.to_owned(), ..scenario })
    }

    /// The weather of the safety phase.
    #[must_use]
    pub const fn weather(&self) -> Weather {
        let Self { lose, repeat, reorder, latency_ms: [latency_min_ms, latency_max_ms], .. } = *self;
        Weather { lose, repeat, reorder, latency_min_ms, latency_max_ms }
    }

    /// The weather after it.
    #[must_use]
    pub const fn fair(&self) -> Weather {
        Weather { lose: 0, repeat: 0, reorder: 0, ..self.weather() }
    }

    /// Whether anything but the weather is against the nodes.
    #[must_use]
    pub fn has_faults(&self) -> bool {
        self.faults_per_second > 0.0 && !self.faults.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_scenario_reads() {
        for (name, _) in SHIPPED {
            let scenario = Scenario::find(name).unwrap();
            assert_eq!(scenario.name, name);
            assert_eq!(scenario.has_faults(), !["calm", "lossy"].contains(&name));
        }
        assert!(Scenario::find(DEFAULT).is_ok());
    }

    #[test]
    fn a_scenario_that_makes_no_sense_is_refused() {
        let text = include_str!("../../scenarios/calm.toml");
        assert!(Scenario::parse("x", &text.replace("nodes = 5", "nodes = 0")).is_err());
        assert!(Scenario::parse("x", &format!("{text}\nunknown = 1\n")).is_err());
        assert!(Scenario::find("no-such-scenario").unwrap_err().to_string().contains("everything"));
    }
}

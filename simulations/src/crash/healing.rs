//! The end of a run: no more faults, and everything must come to rest.

use mesh_node_core::broker::flight::Flight;
use mesh_node_core::broker::run::{Run, RunState};
use mesh_node_core::jobs::execution::{Execution, ExecutionState};
use mesh_node_core::jobs::job::Job;
use mesh_node_core::outbox;
use mesh_node_core::store::scan_prefix;

use super::plan::Scenario;
use super::point::SIDES;
use super::sessions::LIVE_WITHIN_MS;
use super::side::{Side, id};
use super::world::World;

/// Rounds after which a world that does not rest never will.
const ROUNDS: u32 = 800;

/// Rows a world may have of a kind.
const ROWS: usize = 1_000;

/// The longest step in time: a little more than a node's silence is borne with.
const STEP_MS: u64 = 25 * 3_600_000;

impl World {
    /// No more faults: everything must come to rest. Whether it did.
    pub(super) fn heal(&mut self, scenario: Scenario) -> anyhow::Result<bool> {
        self.trace.note("heal", &[self.ms]);
        for side in &self.sides {
            side.disk.set_full(false);
            side.disk.heal();
            side.disk.die_at(u64::MAX);
        }
        self.point = None;
        self.link.wanted = scenario != Scenario::Revoked;
        let mut quiet = 0;
        for round in 0..ROUNDS {
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
            let open =
                scan_prefix::<Flight>(&snapshot, &(), ROWS)?.iter().any(|(_, it)| it.outcome.is_none())
                    || scan_prefix::<Job>(&snapshot, &(), ROWS)?.iter().any(|(_, it)| it.result.is_none())
                    || scan_prefix::<Run>(&snapshot, &(), ROWS)?
                        .iter()
                        .any(|(_, it)| it.state != RunState::Ended)
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
        self.sides.iter().filter_map(wait).min().unwrap_or(0).clamp(LIVE_WITHIN_MS, STEP_MS)
    }
}

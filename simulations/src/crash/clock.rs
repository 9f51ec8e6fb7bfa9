//! A side's clocks: the shipped rule for going on after a restart, over a system whose clocks move only when told.

use std::sync::{Mutex, PoisonError};

use mesh_node::clock::{Clock, ClockRow, Reading};
use mesh_node_core::time::{NodeTime, Now};

/// The clock of one process.
#[derive(Debug)]
pub(super) struct SideClock {
    start: (Reading, NodeTime),
    reading: Mutex<Reading>,
}

impl SideClock {
    /// Goes on from the row of the process before.
    pub(super) fn start(row: Option<&ClockRow>, reading: Reading) -> Self {
        Self { start: (reading, reading.node_time(row)), reading: Mutex::new(reading) }
    }

    pub(super) fn set(&self, reading: Reading) {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = reading;
    }

    fn reading(&self) -> Reading {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for SideClock {
    fn now(&self) -> Now {
        let reading = self.reading();
        let (first, start) = &self.start;
        let node = start.plus_ms(reading.boot_ms.saturating_sub(first.boot_ms));
        Now { node, wall_ms: reading.wall_ms }
    }

    fn row(&self) -> ClockRow {
        let Reading { boot_id, boot_ms, wall_ms } = self.reading();
        ClockRow { node: self.now().node, boot_id, boot_ms, wall_ms }
    }
}

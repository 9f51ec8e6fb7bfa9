//! The writer's loop: one batch after another, and a failed database opened again until it works.

use std::fmt;
use std::time::Duration;

use mesh_node_core::handler::Handler;
use mesh_node_core::store::StoreError;

use super::lanes::{Lanes, Trouble};
use super::{WriterCore, WriterError};
use crate::limits::{DISK_FULL_WAIT_MS, RECOVERY_TRIES_MAX, RECOVERY_WAIT_MS};
use crate::storage::is_disk_full;

/// How long the disk takes for the next batch, where that is not the disk's own business: in virtual time. The batch
/// is run when it is over, and nothing of it happened before.
pub struct Pace(Box<dyn FnMut() -> Duration + Send>);

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pace(..)")
    }
}

impl Pace {
    /// As long as this says, asked once a batch.
    pub fn new(next: impl FnMut() -> Duration + Send + 'static) -> Self {
        Self(Box::new(next))
    }
}

/// Runs batches until the lanes are stopped and empty.
pub(super) async fn run<H: Handler>(
    mut core: WriterCore<H>,
    lanes: &Lanes<H>,
    mut pace: Option<Pace>,
) -> Result<(), WriterError> {
    while let Some(batch) = lanes.next_batch().await {
        if let Some(Pace(next)) = &mut pace {
            tokio::time::sleep(next()).await;
        }
        if let Err(error) = core.run_batch(batch) {
            recover(&mut core, lanes, error).await?;
            lanes.set_trouble(None);
        }
    }
    Ok(())
}

/// Opens the database again until it works. At once first, then with growing waits; for as long as it takes while the
/// disk is full, which is no defect and which only people can end.
async fn recover<H: Handler>(
    core: &mut WriterCore<H>,
    lanes: &Lanes<H>,
    mut source: StoreError,
) -> Result<(), WriterError> {
    let mut wait = Duration::from_millis(RECOVERY_WAIT_MS);
    let mut tries = 0;
    loop {
        let full = is_disk_full(&source);
        lanes.set_trouble(Some(if full { Trouble::DiskFull } else { Trouble::Failing }));
        if full {
            tracing::error!(error = &source as &dyn std::error::Error, "the disk is full; waiting for room");
        } else {
            tries += 1;
            tracing::error!(
                tries,
                error = &source as &dyn std::error::Error,
                "the database failed; opening it again"
            );
        }
        match core.recover() {
            Ok(()) => return Ok(()),
            Err(error) => source = error,
        }
        if tries >= RECOVERY_TRIES_MAX || lanes.wait_stopped(wait).await {
            return Err(WriterError::Storage { tries, source });
        }
        wait = if full { Duration::from_millis(DISK_FULL_WAIT_MS) } else { wait.saturating_mul(2) };
    }
}

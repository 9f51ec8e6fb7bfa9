//! The writer's loop: one batch after another, and a failed database opened again until it works.

use std::fmt;
use std::time::Duration;

use mesh_node_core::handler::Handler;
use mesh_node_core::store::StoreError;

use super::lanes::Lanes;
use super::{WriterCore, WriterError};
use crate::limits::{RECOVERY_TRIES_MAX, RECOVERY_WAIT_MS};

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
            lanes.set_available(false);
            recover(&mut core, lanes, error).await?;
            lanes.set_available(true);
        }
    }
    Ok(())
}

/// Opens the database again until it works. At once first, then with growing waits.
async fn recover<H: Handler>(
    core: &mut WriterCore<H>,
    lanes: &Lanes<H>,
    mut source: StoreError,
) -> Result<(), WriterError> {
    let mut wait = Duration::from_millis(RECOVERY_WAIT_MS);
    for tries in 1..=RECOVERY_TRIES_MAX {
        tracing::error!(
            tries,
            error = &source as &dyn std::error::Error,
            "the database failed; opening it again"
        );
        match core.recover() {
            Ok(()) => return Ok(()),
            Err(error) => source = error,
        }
        if tries == RECOVERY_TRIES_MAX || lanes.wait_stopped(wait).await {
            return Err(WriterError::Storage { tries, source });
        }
        wait = wait.saturating_mul(2);
    }
    Err(WriterError::Storage { tries: RECOVERY_TRIES_MAX, source })
}

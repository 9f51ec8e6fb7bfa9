//! The writer's thread: a loop around [`WriterCore`].

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use mesh_node_core::handler::Handler;
use mesh_node_core::store::StoreError;
use tokio::sync::oneshot;

use super::lanes::{Lanes, Trouble};
use super::{WriterCore, WriterError, WriterHandle};
use crate::limits::{DISK_FULL_WAIT_MS, RECOVERY_TRIES_MAX, RECOVERY_WAIT_MS};
use crate::storage::is_disk_full;

/// A running writer. Dropping it stops the writer, after what is queued.
pub struct Writer<H: Handler> {
    handle: WriterHandle<H>,
    outcome: oneshot::Receiver<Result<(), WriterError>>,
}

impl<H: Handler> fmt::Debug for Writer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Writer").field(&self.handle).finish()
    }
}

impl<H: Handler> Drop for Writer<H> {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

impl<H: Handler> Writer<H> {
    /// Waits until the writer has ended and let go of the database: after [`WriterHandle::stop`], or by itself.
    ///
    /// # Errors
    /// [`WriterError`] when it ended by itself: stop the node.
    pub async fn ended(&mut self) -> Result<(), WriterError> {
        (&mut self.outcome).await.unwrap_or(Err(WriterError::Panicked))
    }
}

/// Runs a writer on a thread of its own. Call [`Writer::ended`] to learn when it fails.
///
/// # Errors
/// When the system gives no thread.
pub fn start<H: Handler + 'static>(core: WriterCore<H>) -> io::Result<(WriterHandle<H>, Writer<H>)> {
    let lanes = Arc::new(Lanes::new());
    let handle = WriterHandle { lanes: Arc::clone(&lanes), counters: Arc::clone(&core.counters) };
    let (ended, outcome) = oneshot::channel();
    Builder::new().name("writer".to_owned()).spawn(move || {
        // The core is dropped in here, so the database is free before anyone learns of the end.
        let result = catch_unwind(AssertUnwindSafe(|| run(core, &lanes)));
        lanes.abandon();
        // Nobody may be waiting for it.
        let _ = ended.send(result.unwrap_or(Err(WriterError::Panicked)));
    })?;
    Ok((handle.clone(), Writer { handle, outcome }))
}

fn run<H: Handler>(mut core: WriterCore<H>, lanes: &Lanes<H>) -> Result<(), WriterError> {
    while let Some(batch) = lanes.next_batch() {
        if let Err(error) = core.run_batch(batch) {
            recover(&mut core, lanes, error)?;
            lanes.set_trouble(None);
        }
    }
    Ok(())
}

/// Opens the database again until it works. At once first, then with growing waits; for as long as it takes while the
/// disk is full, which is no defect and which only people can end.
fn recover<H: Handler>(
    core: &mut WriterCore<H>,
    lanes: &Lanes<H>,
    mut source: StoreError,
) -> Result<(), WriterError> {
    let mut wait = Duration::from_millis(RECOVERY_WAIT_MS);
    let mut tries = 0;
    loop {
        let full = is_disk_full(&source);
        lanes.set_trouble(Some(if full { Trouble::DiskFull } else { Trouble::Failing }));
        let cause = &source as &dyn std::error::Error;
        if full {
            tracing::error!(error = cause, "the disk is full; waiting for room");
        } else {
            tries += 1;
            tracing::error!(tries, error = cause, "the database failed; opening it again");
        }
        match core.recover() {
            Ok(()) => return Ok(()),
            Err(error) => source = error,
        }
        if tries >= RECOVERY_TRIES_MAX || lanes.wait_stopped(wait) {
            return Err(WriterError::Storage { tries, source });
        }
        wait = if full { Duration::from_millis(DISK_FULL_WAIT_MS) } else { wait.saturating_mul(2) };
    }
}

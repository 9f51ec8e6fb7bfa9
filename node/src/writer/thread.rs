//! Where the writer's loop runs: on a thread of its own, as it blocks on the disk, or in a simulation on the runtime
//! that everything runs on, where no disk is.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::Builder;

use mesh_node_core::handler::Handler;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::lanes::Lanes;
use super::work::{self, Pace};
use super::{WriterCore, WriterError, WriterHandle};

/// A running writer. Dropping it stops the writer, after what is queued.
pub struct Writer<H: Handler> {
    handle: WriterHandle<H>,
    outcome: oneshot::Receiver<Result<(), WriterError>>,
    /// Where it can be ended between two batches: not on a thread.
    task: Option<AbortHandle>,
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

    /// Ends it now, with what is queued, as a crash does. A writer on a thread is only stopped.
    pub fn kill(&self) {
        if let Some(task) = &self.task {
            task.abort();
            self.handle.lanes.abandon();
        } else {
            self.handle.stop();
        }
    }
}

/// Runs a writer on a thread of its own. Call [`Writer::ended`] to learn when it fails.
///
/// # Errors
/// When the system gives no thread.
pub fn start<H: Handler + 'static>(core: WriterCore<H>) -> io::Result<(WriterHandle<H>, Writer<H>)> {
    let (handle, lanes, ended, outcome) = prepare(&core);
    // For its waits only. What the machine's surroundings start, they start on the node's own runtime.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    Builder::new().name("writer".to_owned()).spawn(move || {
        // The core is dropped in here, so the database is free before anyone learns of the end.
        let work = || runtime.block_on(work::run(core, &lanes, None));
        let result = catch_unwind(AssertUnwindSafe(work));
        lanes.abandon();
        // Nobody may be waiting for it.
        let _ = ended.send(result.unwrap_or(Err(WriterError::Panicked)));
    })?;
    Ok((handle.clone(), Writer { handle, outcome, task: None }))
}

/// Runs a writer on the current runtime, which stands still during a batch: for simulations. A panic that a batch does
/// not survive ends the task, and [`Writer::ended`] says so.
#[must_use]
pub fn start_here<H: Handler + 'static>(core: WriterCore<H>, pace: Pace) -> (WriterHandle<H>, Writer<H>)
where
    H::Event: Send,
    H::Reply: Send,
{
    let (handle, lanes, ended, outcome) = prepare(&core);
    let task = tokio::spawn(async move {
        let result = work::run(core, &lanes, Some(pace)).await;
        lanes.abandon();
        // Nobody may be waiting for it.
        let _ = ended.send(result);
    });
    (handle.clone(), Writer { handle, outcome, task: Some(task.abort_handle()) })
}

type Outcome = Result<(), WriterError>;
type Prepared<H> = (WriterHandle<H>, Arc<Lanes<H>>, oneshot::Sender<Outcome>, oneshot::Receiver<Outcome>);

fn prepare<H: Handler>(core: &WriterCore<H>) -> Prepared<H> {
    let lanes = Arc::new(Lanes::new());
    let handle = WriterHandle { lanes: Arc::clone(&lanes), counters: Arc::clone(&core.counters) };
    let (ended, outcome) = oneshot::channel();
    (handle, lanes, ended, outcome)
}

//! Wakes the durable machine when something is due.
//!
//! The core names times; the earliest counts. A wake-up that comes too early finds nothing due and names the next time,
//! so nothing has to be cancelled.
//!
//! Beside that, delivery is told now and then to forget what it need not keep.

use std::sync::Arc;
use std::time::Duration;

use mesh_node_core::event::{Command, Event, Reply};
use mesh_node_core::limits::TIDY_BATCH;
use mesh_node_core::machine::Machine;
use mesh_node_core::time::NodeTime;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::writer::WriterHandle;

/// Longest sleep at once: a suspended machine wakes with its deadlines at most this late.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// How often delivery looks for what it may forget.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// Has delivery forget what it need not keep, until it is aborted. Goes on at once while there is more.
pub async fn tidy(writer: WriterHandle<Machine>) {
    loop {
        tokio::time::sleep(TIDY_EVERY).await;
        while let Ok(Reply::Done(looked_at)) = writer.submit(Event::Command(Command::Tidy), 0).await {
            if looked_at < TIDY_BATCH {
                break;
            }
        }
    }
}

/// The earliest time at which something is due.
#[derive(Debug, Clone)]
pub struct Timer(watch::Sender<NodeTime>);

impl Default for Timer {
    fn default() -> Self {
        Self(watch::Sender::new(NodeTime(u64::MAX)))
    }
}

impl Timer {
    /// Something is due at this time.
    pub fn wake_at(&self, at: NodeTime) {
        self.0.send_if_modified(|earliest| {
            let earlier = at < *earliest;
            if earlier {
                *earliest = at;
            }
            earlier
        });
    }

    /// Posts [`Event::Due`] when something is, until the writer stops.
    pub async fn run(self, writer: WriterHandle<Machine>, clock: Arc<dyn Clock>) {
        let mut changes = self.0.subscribe();
        loop {
            let now = clock.now().node;
            let earliest = *changes.borrow_and_update();
            if earliest <= now {
                self.0.send_replace(NodeTime(u64::MAX));
                if writer.post(Event::Due, 0).await.is_err() {
                    return;
                }
                continue;
            }
            let sleep = Duration::from_millis(earliest.since(now)).min(SLEEP_MAX);
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }
}

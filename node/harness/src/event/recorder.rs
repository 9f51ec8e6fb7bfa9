//! Events kept in memory: for tests, and as the shape of a real store.

use std::sync::{Arc, Mutex, PoisonError};

use super::{EventSink, RunEvent, SharedSink};
use crate::model::BoxError;

/// Events kept in memory. Clones see the same ones.
#[derive(Debug, Clone, Default)]
pub struct RecordedEvents {
    events: Arc<Mutex<Vec<RunEvent>>>,
}

impl RecordedEvents {
    /// What came so far.
    #[must_use]
    pub fn all(&self) -> Vec<RunEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The names of what came so far.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).iter().map(RunEvent::name).collect()
    }
}

impl EventSink for RecordedEvents {
    fn emit(&self, event: RunEvent) -> Result<(), BoxError> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        Ok(())
    }
}

/// A sink that keeps events, and what it kept.
#[must_use]
pub fn record_run_events() -> (SharedSink, RecordedEvents) {
    let events = RecordedEvents::default();
    (Arc::new(events.clone()), events)
}

//! A stream of events between its first and its last, whatever becomes of the run.

use super::{Bookend, RunEvents};
use crate::outcome::Outcome;

/// A stream that has begun. One that is dropped is closed too, so that a run nobody waits for any more is not taken for
/// one under way.
#[derive(Debug)]
pub(crate) struct OpenRun<'a> {
    events: Option<&'a RunEvents>,
}

impl<'a> OpenRun<'a> {
    /// Emits the first event.
    pub(crate) fn begin(events: &'a RunEvents, first: Bookend) -> Self {
        events.bookend(first);
        Self { events: Some(events) }
    }

    /// Emits the last event.
    pub(crate) fn close(mut self, last: Bookend) {
        if let Some(events) = self.events.take() {
            events.bookend(last);
        }
    }
}

impl Drop for OpenRun<'_> {
    fn drop(&mut self) {
        if let Some(events) = self.events.take() {
            events.bookend(Bookend::failed(Outcome::Canceled, "the run was dropped by its caller".into()));
        }
    }
}

impl Bookend {
    /// The end of a run without a result.
    pub(crate) fn failed(outcome: Outcome, error: String) -> Self {
        Self::Finished { outcome, steps: None, text: None, error: Some(error) }
    }
}

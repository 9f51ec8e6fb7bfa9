//! Numbers events and hands them on.
//!
//! One counter a run, which advances whether or not anybody listens. Events reach the sink in the order of their
//! numbers: the counter is held while the sink takes one, so a sink must not emit into the run it listens to.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Bookend, LoopEvent, RunEvent, RunEventKind, SharedSink};
use crate::log::Log;
use crate::private::Redaction;

/// The events of one run, with its bookends. Only what runs a loop holds this.
#[derive(Clone)]
pub struct RunEvents {
    shared: Arc<Shared>,
}

struct Shared {
    sink: Option<SharedSink>,
    log: Log,
    state: Mutex<State>,
}

struct State {
    next: u64,
    /// Events kept for the result, if the caller wants them there.
    kept: Option<Vec<RunEvent>>,
    /// Some in a private run.
    redaction: Option<Redaction>,
}

impl RunEvents {
    /// Events for `sink`; what goes wrong with it is told to `log`.
    #[must_use]
    pub fn new(sink: Option<SharedSink>, log: Log) -> Self {
        Self::with(sink, log, None)
    }

    /// Events of a private run: redacted, and one line each in `log`, which gets nothing else.
    #[must_use]
    pub fn private(sink: Option<SharedSink>, log: Log) -> Self {
        Self::with(sink, log, Some(Redaction::default()))
    }

    fn with(sink: Option<SharedSink>, log: Log, redaction: Option<Redaction>) -> Self {
        let state = Mutex::new(State { next: 0, kept: None, redaction });
        Self { shared: Arc::new(Shared { sink, log, state }) }
    }

    /// Keeps events for [`take_kept`](Self::take_kept) as well.
    #[must_use]
    pub fn keeping(self) -> Self {
        self.state().kept = Some(Vec::new());
        self
    }

    /// The events that were kept, which are not kept any longer.
    #[must_use]
    pub fn take_kept(&self) -> Vec<RunEvent> {
        self.state().kept.take().unwrap_or_default()
    }

    /// Whether text is withheld.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.state().redaction.is_some()
    }

    /// What a loop gets.
    #[must_use]
    pub fn for_loop(&self) -> LoopEvents {
        LoopEvents { events: self.clone() }
    }

    /// Emits the first or the last event.
    pub fn bookend(&self, bookend: Bookend) {
        self.emit(RunEventKind::Bookend(bookend));
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn emit(&self, what: RunEventKind) {
        let mut state = self.state();
        let seq = state.next;
        state.next += 1;
        let mut event = RunEvent { seq, at: now(), redacted: false, what };
        if let Some(redaction) = &mut state.redaction {
            event = redaction.apply(event);
            self.shared.log.line(&Redaction::line(&event));
        }
        if let Some(kept) = &mut state.kept {
            kept.push(event.clone());
        }
        let Some(sink) = &self.shared.sink else { return };
        let name = event.name();
        let problem = match catch_unwind(AssertUnwindSafe(|| sink.emit(event))) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_panic) => "it panicked".into(),
        };
        // What a sink complains of may quote the event, so a private run does not repeat it.
        if state.redaction.is_none() {
            self.shared.log.line(&format!("event {seq} ({name}) was not taken: {problem}"));
        }
    }
}

impl fmt::Debug for RunEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunEvents").field("next", &self.state().next).finish_non_exhaustive()
    }
}

/// The events of one run, for its loop: everything but the bookends.
///
/// ```
/// # use mesh_harness::event::{Budget, LoopEvent, RunEvents};
/// # use mesh_harness::log::Log;
/// let events = RunEvents::new(None, Log::silent()).for_loop();
/// events.emit(LoopEvent::BudgetExhausted { kind: Budget::Steps, step: 1 });
/// ```
///
/// A bookend does not compile:
///
/// ```compile_fail
/// # use mesh_harness::event::{Bookend, RunEvents};
/// # use mesh_harness::log::Log;
/// let events = RunEvents::new(None, Log::silent()).for_loop();
/// events.emit(Bookend::Started { max_steps: 1, max_duration_ms: 1, tools: Vec::new() });
/// ```
#[derive(Debug, Clone)]
pub struct LoopEvents {
    events: RunEvents,
}

impl LoopEvents {
    /// Emits an event, numbered and dated.
    pub fn emit(&self, event: LoopEvent) {
        self.events.emit(RunEventKind::Loop(event));
    }

    /// Whether text is withheld because the run is private.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.events.is_private()
    }
}

/// Milliseconds since 1970; 0 on a machine whose clock is before that.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

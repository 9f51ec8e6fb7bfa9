//! Hands the events of running jobs to the core while they run.
//!
//! A job is watched on the thread that enforces its limits, which may not wait; the core takes events as fast as it can
//! commit them. Between them is this: one thread that looks at what is new at most every few milliseconds, so that
//! events of one moment are one commit.
//!
//! Invariant: the events of a job are handed over in order, and none after its end: whoever ends it waits for those that
//! are on their way.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mesh_node_core::event::{Event, JobTicket};
use mesh_protocol::id::{JobId, NodeId};

use super::Report;
use super::recording::Recording;

/// How long events may wait for others to go with.
const GATHER: Duration = Duration::from_millis(5);

/// One attempt that goes on.
#[derive(Debug)]
pub(super) struct Live {
    origin: NodeId,
    job: JobId,
    attempt: u32,
    /// Gone once it has ended.
    recording: Mutex<Option<Recording>>,
    /// Held while its events are handed over.
    sending: Mutex<()>,
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, Option<Recording>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_over(&self, report: &dyn Report) {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let batch = self.lock().as_mut().map(Recording::batch).unwrap_or_default();
            if batch.is_empty() {
                return;
            }
            let (origin, job, attempt) = (self.origin, self.job, self.attempt);
            report.report(Event::JobEvents { origin, job, attempt, events: batch });
        }
    }
}

#[derive(Debug, Default)]
struct State {
    live: Vec<Arc<Live>>,
    news: bool,
    closed: bool,
}

/// The attempts that go on, and whether something is new about any.
#[derive(Debug, Default)]
pub(super) struct Pump {
    state: Mutex<State>,
    changed: Condvar,
}

impl Pump {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt begins.
    pub(super) fn begin(&self, ticket: &JobTicket) -> Arc<Live> {
        let live = Arc::new(Live {
            origin: ticket.origin,
            job: ticket.job,
            attempt: ticket.attempt,
            recording: Mutex::new(Some(Recording::new(ticket))),
            sending: Mutex::default(),
        });
        self.lock().live.push(Arc::clone(&live));
        live
    }

    /// Something happens in an attempt.
    pub(super) fn record(&self, live: &Live, what: impl FnOnce(&mut Recording)) {
        let news = live.lock().as_mut().is_some_and(|recording| {
            what(recording);
            recording.has_news()
        });
        if news {
            let mut state = self.lock();
            if !state.news {
                state.news = true;
                self.changed.notify_all();
            }
        }
    }

    /// An attempt ends: what is recorded of it, once everything before has been handed over.
    pub(super) fn end(&self, live: &Arc<Live>) -> Option<Recording> {
        self.lock().live.retain(|other| !Arc::ptr_eq(other, live));
        let _sending = live.sending.lock().unwrap_or_else(PoisonError::into_inner);
        live.lock().take()
    }

    /// Ends [`Pump::run`].
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Hands events over until closed. What is new then goes with the ends of the jobs.
    pub(super) fn run(&self, report: &dyn Report) {
        loop {
            let idle = |state: &mut State| !state.news && !state.closed;
            let waited = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
            if waited.closed {
                return;
            }
            let gathering = |state: &mut State| !state.closed;
            let gathered = self.changed.wait_timeout_while(waited, GATHER, gathering);
            let (mut state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
            state.news = false;
            let live = state.live.clone();
            drop(state);
            live.iter().for_each(|live| live.hand_over(report));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use mesh_sandbox::Stream;

    use super::*;
    use crate::executor::queue::tests::ticket;

    struct Sent(Mutex<mpsc::Sender<Event>>);

    impl Report for Sent {
        fn report(&self, event: Event) {
            self.0.lock().unwrap().send(event).unwrap();
        }
    }

    #[test]
    fn events_come_while_the_job_runs_in_batches_of_at_most_64_and_in_order() {
        let pump = Pump::default();
        let (sender, events) = mpsc::channel();
        let report = Sent(Mutex::new(sender));
        let live = pump.begin(&ticket(1));
        std::thread::scope(|scope| {
            scope.spawn(|| pump.run(&report));
            for at in 0..200_u32 {
                let stream = if at % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
                pump.record(&live, |recording| recording.output(stream, at.to_string().as_bytes()));
            }
            let mut seqs = Vec::new();
            // `accepted` and two hundred of output.
            while seqs.len() < 201 {
                let Event::JobEvents { events, .. } = events.recv().unwrap() else { panic!("events") };
                assert!(events.len() <= 64);
                seqs.extend(events.iter().map(|event| event.seq));
            }
            assert_eq!(seqs, (1..=201).collect::<Vec<u64>>());
            pump.close();
        });
    }

    #[test]
    fn nothing_is_handed_over_after_the_end() {
        let pump = Pump::default();
        let (sender, events) = mpsc::channel();
        let live = pump.begin(&ticket(1));
        pump.record(&live, |recording| recording.output(Stream::Stdout, b"x"));
        let mut rest = pump.end(&live).unwrap();
        live.hand_over(&Sent(Mutex::new(sender)));
        assert!(events.try_recv().is_err());
        assert_eq!(rest.batch().len(), 2, "what was not handed over goes with the end");
    }
}

//! The hash chain over a job's events: each event's hash covers the event before it, so none can be changed, dropped
//! or moved without breaking the chain at that place, and the last hash (the head) stands for all of them.
//!
//! ```text
//!            append*                       append(finished)
//!   empty ------------> open (any kind) --------------------> closed: nothing follows
//! ```
//!
//! A chain proves order and wholeness of what was recorded; whether everything was recorded is
//! [`EventChain::complete`], the node's own word. Times are recorded, not checked: a wall clock may step back.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::canonical::Value;
use super::digest::Digest;
use super::event::{Event, EventKind, HASH_VERSION};
use super::limits::{MAX_EVENT_DATA_BYTES, MAX_EVENTS};

/// How an event does not fit its place.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Another `seq` than its place.
    #[error("its seq is not its place")]
    Sequence,
    /// A hash version we do not know.
    #[error("unknown hash version")]
    HashVersion,
    /// `prev_hash` is not the hash of the event before.
    #[error("its prev_hash is not the hash of the event before")]
    Link,
    /// `event_hash` is not the hash of the event.
    #[error("its contents do not have its hash")]
    Hash,
    /// It follows `finished`.
    #[error("it follows `finished`")]
    AfterFinished,
    /// The events end here, before `finished`.
    #[error("the chain ends before `finished`")]
    Unfinished,
    /// The receipt's head is another hash than that of the last event.
    #[error("its hash is not the head in the receipt")]
    Head,
    /// The receipt counts more or fewer events.
    #[error("the receipt counts another number of events")]
    Count,
    /// The chain calls itself complete but does not begin with `accepted`.
    #[error("a complete chain begins with `accepted`")]
    Beginning,
}

/// Events that are not a chain, or an event that cannot be appended.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum ChainError {
    /// The first event, by its place from 1, that is not what was recorded there.
    #[error("the event chain breaks at event {seq}")]
    Broken {
        /// Place in the chain, from 1.
        seq: u64,
        /// What is wrong with it.
        #[source]
        fault: Break,
    },
    /// More events than [`MAX_EVENTS`].
    #[error("more than {MAX_EVENTS} events")]
    TooManyEvents,
    /// Data larger than [`MAX_EVENT_DATA_BYTES`].
    #[error("event data of {bytes} bytes, where {MAX_EVENT_DATA_BYTES} are allowed")]
    DataTooLarge {
        /// Found, in canonical form.
        bytes: usize,
    },
}

/// What a receipt says about the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventChain {
    /// 1.
    pub version: u64,
    /// Hash of the last event, `finished`.
    pub head: Digest,
    /// How many events there are, `finished` included.
    pub events: u64,
    /// Whether the node claims that these are all the events it had for the job.
    pub complete: bool,
}

/// A chain being recorded.
#[derive(Debug, Clone)]
pub struct Chain {
    job_id: String,
    events: Vec<Event>,
    lossy: bool,
}

impl Chain {
    /// The empty chain of a job.
    #[must_use]
    pub fn new(job_id: impl Into<String>) -> Self {
        Self { job_id: job_id.into(), events: Vec::new(), lossy: false }
    }

    /// Continues a chain that was stored.
    ///
    /// # Errors
    /// When the events are not a chain of that job.
    pub fn resume(job_id: impl Into<String>, events: Vec<Event>) -> Result<Self, ChainError> {
        let job_id = job_id.into();
        check_links(&job_id, &events)?;
        Ok(Self { job_id, events, lossy: false })
    }

    /// Appends an event and returns it, to be stored.
    ///
    /// # Errors
    /// When the chain is closed or full, or the data too large. The chain is then as it was.
    pub fn append(&mut self, ts_ms: u64, kind: EventKind, data: Value) -> Result<&Event, ChainError> {
        let seq = place(self.events.len());
        let last = self.events.last();
        if last.is_some_and(|event| event.kind == EventKind::Finished) {
            return Err(ChainError::Broken { seq, fault: Break::AfterFinished });
        }
        // One place is kept for `finished`, so that every chain can be closed.
        let room = if kind == EventKind::Finished { MAX_EVENTS } else { MAX_EVENTS - 1 };
        if self.events.len() >= room {
            return Err(ChainError::TooManyEvents);
        }
        let bytes = data.to_canonical().len();
        if bytes > MAX_EVENT_DATA_BYTES {
            return Err(ChainError::DataTooLarge { bytes });
        }
        let event = Event::new(&self.job_id, seq, ts_ms, kind, data, last.map(|event| event.event_hash));
        Ok(self.events.push_mut(event))
    }

    /// Notes that an event was lost, for ever: the chain is then not complete.
    pub fn note_loss(&mut self) {
        self.lossy = true;
    }

    /// The job.
    #[must_use]
    pub fn job_id(&self) -> &str {
        &self.job_id
    }

    /// What was recorded so far.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The events, in order.
    #[must_use]
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// What the receipt says about this chain.
    ///
    /// # Errors
    /// [`Break::Unfinished`] before `finished` was appended.
    pub fn summary(&self) -> Result<EventChain, ChainError> {
        let head = check_finished(&self.events)?;
        let from_the_start = self.events.first().is_some_and(|event| event.kind == EventKind::Accepted);
        let complete = from_the_start && !self.lossy;
        Ok(EventChain { version: 1, head, events: self.events.len() as u64, complete })
    }
}

impl EventChain {
    /// Checks that `events` are exactly the events this summary stands for.
    ///
    /// # Errors
    /// The first event that is wrong, by its place.
    pub fn check(&self, job_id: &str, events: &[Event]) -> Result<(), ChainError> {
        check_links(job_id, events)?;
        let head = check_finished(events)?;
        let last = events.len() as u64;
        if self.head != head {
            return Err(ChainError::Broken { seq: last, fault: Break::Head });
        }
        if self.events != last {
            return Err(ChainError::Broken { seq: last, fault: Break::Count });
        }
        if self.complete && events.first().is_none_or(|event| event.kind != EventKind::Accepted) {
            return Err(ChainError::Broken { seq: 1, fault: Break::Beginning });
        }
        Ok(())
    }
}

/// Checks that `events` follow `last`, the last one that is known; from the beginning when that is `None`.
///
/// # Errors
/// The first event that is wrong, by its place.
pub fn check_follows(job_id: &str, last: Option<&Event>, events: &[Event]) -> Result<(), ChainError> {
    let mut last = last;
    for event in events {
        let seq = last.map_or(1, |last| last.seq.saturating_add(1));
        if last.is_some_and(|last| last.kind == EventKind::Finished) {
            return Err(ChainError::Broken { seq, fault: Break::AfterFinished });
        }
        let prev_hash = last.map(|last| last.event_hash);
        check_link(job_id, event, seq, prev_hash).map_err(|fault| ChainError::Broken { seq, fault })?;
        last = Some(event);
    }
    Ok(())
}

/// Checks that each event follows from the one before. An empty or unfinished chain passes.
///
/// # Errors
/// The first event that is wrong, by its place.
pub fn check_links(job_id: &str, events: &[Event]) -> Result<(), ChainError> {
    if events.len() > MAX_EVENTS {
        return Err(ChainError::TooManyEvents);
    }
    check_follows(job_id, None, events)
}

/// Whether `event` may stand at place `seq` after an event with hash `prev_hash`.
fn check_link(job_id: &str, event: &Event, seq: u64, prev_hash: Option<Digest>) -> Result<(), Break> {
    if event.seq != seq {
        Err(Break::Sequence)
    } else if event.hash_version != HASH_VERSION {
        Err(Break::HashVersion)
    } else if event.prev_hash != prev_hash {
        Err(Break::Link)
    } else if event.event_hash != Digest::of(&event.preimage(job_id)) {
        Err(Break::Hash)
    } else {
        Ok(())
    }
}

fn check_finished(events: &[Event]) -> Result<Digest, ChainError> {
    match events.last() {
        Some(last) if last.kind == EventKind::Finished => Ok(last.event_hash),
        _ => Err(ChainError::Broken { seq: place(events.len()), fault: Break::Unfinished }),
    }
}

/// The place, from 1, of the event at `index`.
const fn place(index: usize) -> u64 {
    index as u64 + 1
}

//! What is recorded of one attempt while it goes on: its events and its output.
//!
//! ```text
//! accepted ── started ── stdout, stderr, truncated ... ── violation* ── artifact* ── finished
//!   └ the core's  └ only after READY    └ as they are written
//! ```
//!
//! An event of output holds it, as far as it is kept; an artifact's holds the file's digest. Events are taken in batches
//! by whoever hands them to the core while the job runs; those that are left go with its end.

use std::time::Instant;

use mesh_node_core::event::JobTicket;
use mesh_protocol::evidence::artifact::{Captured, Violation};
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::Chain;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::event::{Event, EventKind};
use mesh_protocol::evidence::limits;
use mesh_protocol::evidence::receipt::{FileDigest, Limits, Outcome};
use mesh_protocol::message::JOB_EVENTS_MAX;
use mesh_sandbox::{JobReport, Stream};
use serde::Serialize;

use super::output::Keeper;
use super::record::{Full, Piece, Pieces, RECORDS_MAX};
use super::verdict::Verdict;
use super::wall_ms;

/// What a job is run as; its digest is in `started` and in `finished`.
#[derive(Debug, Serialize)]
pub(super) struct EffectiveSpec {
    pub(super) language: &'static str,
    pub(super) code_sha256: Digest,
    pub(super) stdin_sha256: Digest,
    pub(super) input_files: Vec<FileDigest>,
    pub(super) isolation_class: &'static str,
    pub(super) limits: Limits,
    pub(super) runtime_pack: Option<String>,
    pub(super) runtime_sha256: String,
    pub(super) rootfs_sha256: String,
}

/// When the sandbox reported ready.
#[derive(Debug, Clone, Copy)]
pub(super) struct Started {
    pub(super) wall_ms: u64,
    at: Instant,
    spec: Option<Digest>,
}

/// One output stream.
#[derive(Debug, Default)]
struct Channel {
    keeper: Keeper,
    records: usize,
    /// That it is cut is among its events, or waits to be.
    told: bool,
}

/// An attempt that has not ended.
#[derive(Debug)]
pub(super) struct Recording {
    chain: Chain,
    /// Events that were handed over, or were the core's own.
    taken: usize,
    stdout: Channel,
    stderr: Channel,
    pieces: Pieces,
    /// Something that belongs in the events is not there.
    lossy: bool,
    started: Option<Started>,
}

/// An attempt that has.
pub(super) struct Recorded {
    pub(super) chain: Chain,
    /// How many of the events were handed over before.
    taken: usize,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) truncated: bool,
    /// Nothing was lost.
    pub(super) complete: bool,
    pub(super) started_at_ms: Option<u64>,
    pub(super) finished_at_ms: u64,
    /// Milliseconds from ready to now.
    pub(super) duration_ms: Option<u64>,
}

impl Recorded {
    /// The events that were not handed over before.
    pub(super) fn left(&self) -> Vec<Event> {
        self.chain.events().get(self.taken..).unwrap_or_default().to_vec()
    }
}

#[derive(Serialize)]
struct AcceptedEvent<'a> {
    language: &'a str,
    requester: &'a str,
    code_sha256: Digest,
}

#[derive(Serialize)]
struct StartedEvent<'a> {
    effective_spec_sha256: Option<Digest>,
    isolation_class: &'a str,
    attempt: u32,
}

#[derive(Serialize)]
struct OutputEvent {
    content: Captured,
}

#[derive(Serialize)]
struct TruncatedEvent {
    stream: Stream,
    kept_bytes: usize,
}

#[derive(Serialize)]
struct FinishedEvent<'a> {
    outcome: Outcome,
    exit_code: Option<i32>,
    reason: Option<&'a str>,
    effective_spec_sha256: Option<Digest>,
}

impl Recording {
    /// Goes on where the core left off; where nothing is recorded yet, begins as the core would have.
    pub(super) fn new(ticket: &JobTicket) -> Self {
        let id = ticket.job.to_string();
        let resumed = Chain::resume(id.clone(), ticket.events.clone());
        let lossy = resumed.is_err();
        if let Err(error) = &resumed {
            tracing::error!(job = id, %error, "what was recorded of a job is not a chain; it begins anew");
        }
        let chain = resumed.unwrap_or_else(|_| Chain::new(id));
        let taken = chain.events().len();
        let (stdout, stderr, pieces) = Default::default();
        let mut recording = Self { chain, taken, stdout, stderr, pieces, lossy, started: None };
        if lossy {
            recording.chain.note_loss();
        }
        if taken == 0 {
            let accepted = AcceptedEvent {
                language: ticket.asked.language.name(),
                requester: &ticket.tenant,
                code_sha256: ticket.asked.code_sha256,
            };
            recording.append(ticket.created_wall_ms, EventKind::Accepted, &accepted);
        }
        recording
    }

    /// The sandbox reported ready.
    pub(super) fn started(&mut self, spec: &EffectiveSpec, attempt: u32) {
        let digest = Value::of(spec, &limits::EVENT).ok().map(|document| document.digest());
        let started = Started { wall_ms: wall_ms(), at: Instant::now(), spec: digest };
        self.started = Some(started);
        let (effective_spec_sha256, isolation_class) = (digest, spec.isolation_class);
        let data = StartedEvent { effective_spec_sha256, isolation_class, attempt };
        self.append(started.wall_ms, EventKind::Started, &data);
    }

    const fn channel(&mut self, stream: Stream) -> &mut Channel {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// The job wrote something.
    pub(super) fn output(&mut self, stream: Stream, bytes: &[u8]) {
        let kept = self.channel(stream).keeper.take(bytes);
        self.queue(stream, &kept);
    }

    /// Whether its last event was written before: then it is only put together again, for a signature.
    fn is_closed(&self) -> bool {
        self.chain.events().last().is_some_and(|event| event.kind == EventKind::Finished)
    }

    fn queue(&mut self, stream: Stream, kept: &[u8]) {
        if self.is_closed() {
            return;
        }
        if !kept.is_empty() && self.pieces.output(stream, kept) == Err(Full) {
            // It was written faster than it could be stored. What is kept of it is in the result all the same.
            self.lossy = true;
            self.chain.note_loss();
            self.channel(stream).keeper.cut();
        }
        let channel = self.channel(stream);
        if channel.keeper.is_cut() && !channel.told {
            channel.told = true;
            let kept = channel.keeper.len();
            self.pieces.cut(stream, kept);
        }
    }

    /// Whether there is something for [`Recording::batch`].
    pub(super) fn has_news(&self) -> bool {
        self.taken < self.chain.events().len() || !self.pieces.is_empty()
    }

    /// The next events that nobody took, in order.
    pub(super) fn batch(&mut self) -> Vec<Event> {
        while self.chain.events().len() < self.taken + JOB_EVENTS_MAX {
            let Some(piece) = self.pieces.next() else { break };
            self.record(piece);
        }
        let new = self.chain.events().get(self.taken..).unwrap_or_default();
        let batch: Vec<Event> = new.iter().take(JOB_EVENTS_MAX).cloned().collect();
        self.taken += batch.len();
        batch
    }

    fn record(&mut self, piece: Piece) {
        let now = wall_ms();
        let (stream, bytes) = match piece {
            Piece::Cut(stream, kept_bytes) => {
                return self.append(now, EventKind::Truncated, &TruncatedEvent { stream, kept_bytes });
            }
            Piece::Output(stream, bytes) => (stream, bytes),
        };
        let channel = self.channel(stream);
        channel.records += 1;
        let (over, told) = (channel.records > RECORDS_MAX, channel.told);
        if over {
            channel.keeper.cut();
            channel.told = true;
            let kept_bytes = channel.keeper.len();
            if !told {
                self.append(now, EventKind::Truncated, &TruncatedEvent { stream, kept_bytes });
            }
            // The result has what was kept until now, the events have not.
            self.lossy = true;
            self.chain.note_loss();
            return;
        }
        let kind = match stream {
            Stream::Stdout => EventKind::Stdout,
            Stream::Stderr => EventKind::Stderr,
        };
        self.append(now, kind, &OutputEvent { content: Captured::of(&bytes) });
    }

    /// Ends the attempt; `report` is the sandbox's, if there is one.
    pub(super) fn end(
        mut self,
        verdict: &Verdict,
        report: Option<&JobReport>,
        (violations, artifacts): (&[Violation], &[FileDigest]),
    ) -> Recorded {
        let cut = [
            (Stream::Stdout, report.is_some_and(|report| report.stdout.truncated)),
            (Stream::Stderr, report.is_some_and(|report| report.stderr.truncated)),
        ];
        for (stream, cut) in cut {
            let rest = self.channel(stream).keeper.end(cut);
            self.queue(stream, &rest);
        }
        while let Some(piece) = self.pieces.next() {
            self.record(piece);
        }
        if !verdict.complete {
            self.chain.note_loss();
        }
        let closed = self.chain.events().last().filter(|_| self.is_closed());
        let finished_at_ms = closed.map_or_else(wall_ms, |event| event.ts_ms);
        if !self.is_closed() {
            violations.iter().for_each(|broken| self.append(finished_at_ms, EventKind::Violation, broken));
            artifacts.iter().for_each(|file| self.append(finished_at_ms, EventKind::Artifact, file));
            let finished = FinishedEvent {
                outcome: verdict.outcome,
                exit_code: verdict.exit_code,
                reason: verdict.killed_by.as_deref(),
                effective_spec_sha256: self.started.and_then(|started| started.spec),
            };
            self.append(finished_at_ms, EventKind::Finished, &finished);
        }
        // Of an attempt that was recorded before, only its events tell when it started.
        let begun = self.chain.events().iter().find(|event| event.kind == EventKind::Started);
        let begun_ms = begun.map(|event| event.ts_ms);
        Recorded {
            truncated: self.stdout.keeper.is_cut() || self.stderr.keeper.is_cut(),
            complete: verdict.complete && !self.lossy,
            chain: self.chain,
            taken: self.taken,
            stdout: self.stdout.keeper.into_kept(),
            stderr: self.stderr.keeper.into_kept(),
            started_at_ms: self.started.map(|started| started.wall_ms).or(begun_ms),
            finished_at_ms,
            duration_ms: self.started.map(|started| millis_since(started.at)),
        }
    }

    /// Appends an event; one that cannot be leaves the chain incomplete, and says so in it.
    fn append(&mut self, ts_ms: u64, kind: EventKind, data: &impl Serialize) {
        let written = Value::of(data, &limits::EVENT).map_err(|error| error.to_string());
        let appended = written.and_then(|data| {
            self.chain.append(ts_ms, kind, data).map(|_| ()).map_err(|error| error.to_string())
        });
        if let Err(error) = appended {
            let (job, kind) = (self.chain.job_id(), kind.as_str());
            tracing::error!(job, kind, error, "an event of a job is lost");
            self.lossy = true;
            self.chain.note_loss();
        }
    }
}

/// Whole milliseconds since then.
pub(super) fn millis_since(then: Instant) -> u64 {
    u64::try_from(then.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::queue::tests::ticket;
    use crate::executor::record::PIECES_MAX;

    #[test]
    fn output_that_comes_faster_than_it_is_stored_is_missing_in_the_events_and_that_is_said() {
        let account = |turns: usize| {
            let mut recording = Recording::new(&ticket(1));
            for _ in 0..turns {
                recording.output(Stream::Stdout, b"o");
                recording.output(Stream::Stderr, b"e");
            }
            recording.end(&Verdict::UNAVAILABLE, None, (&[], &[]))
        };
        let kept = account(PIECES_MAX / 2);
        assert!(kept.complete && kept.chain.summary().unwrap().complete && !kept.truncated);
        let lost = account(PIECES_MAX);
        assert!(!lost.complete && !lost.chain.summary().unwrap().complete && lost.truncated);
        let told = lost.chain.events().iter().filter(|event| event.kind == EventKind::Truncated).count();
        assert_eq!(told, 2, "once for each stream");
        assert!(lost.chain.events().last().is_some_and(|event| event.kind == EventKind::Finished));
    }
}

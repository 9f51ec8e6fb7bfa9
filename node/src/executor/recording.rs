//! What is recorded of one attempt while it goes on: its events and its output.
//!
//! ```text
//! accepted ── started ── stdout* ── stderr* ── truncated* ── finished
//!               └ only after READY     └ at most 64 KiB of kept output each, by digest
//! ```
//!
//! Output is in the result artifact; the events hold digests of it, so that the chain commits to the output without
//! holding it again. They are written when the attempt ends, since only then it is known what is kept.

use std::time::Instant;

use mesh_node_core::event::JobTicket;
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::Chain;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::event::EventKind;
use mesh_protocol::evidence::limits;
use mesh_protocol::evidence::receipt::{Limits, Outcome};
use mesh_sandbox::{JobReport, Stream};
use serde::Serialize;

use super::verdict::Verdict;
use super::{output, wall_ms};

/// Bytes of output that one event stands for.
const RECORD_BYTES: usize = 64 * 1024;

/// What a job is run as; its digest is in `started` and in `finished`.
#[derive(Debug, Serialize)]
pub(super) struct EffectiveSpec {
    pub(super) language: &'static str,
    pub(super) code_sha256: Digest,
    pub(super) stdin_sha256: Digest,
    pub(super) isolation_class: &'static str,
    pub(super) limits: Limits,
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

/// An attempt that has not ended.
pub(super) struct Recording {
    chain: Chain,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    started: Option<Started>,
}

/// An attempt that has.
pub(super) struct Recorded {
    pub(super) chain: Chain,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) truncated: bool,
    pub(super) started_at_ms: Option<u64>,
    pub(super) finished_at_ms: u64,
    /// Milliseconds from ready to now.
    pub(super) duration_ms: Option<u64>,
}

#[derive(Serialize)]
struct AcceptedEvent<'a> {
    language: &'a str,
    requester: &'a str,
    code_sha256: Digest,
    attempt: u32,
}

#[derive(Serialize)]
struct StartedEvent<'a> {
    effective_spec_sha256: Option<Digest>,
    isolation_class: &'a str,
}

#[derive(Serialize)]
struct OutputEvent {
    bytes: usize,
    sha256: Digest,
}

#[derive(Serialize)]
struct TruncatedEvent {
    stream: Stream,
    kept_bytes: usize,
}

#[derive(Serialize)]
struct FinishedEvent {
    outcome: Outcome,
    exit_code: Option<i32>,
    reason: Option<&'static str>,
    effective_spec_sha256: Option<Digest>,
}

impl Recording {
    /// Begins with `accepted`, dated when the core accepted the job.
    pub(super) fn new(ticket: &JobTicket) -> Self {
        let mut recording = Self {
            chain: Chain::new(ticket.job.to_string()),
            stdout: Vec::new(),
            stderr: Vec::new(),
            started: None,
        };
        let accepted = AcceptedEvent {
            language: ticket.spec.language.name(),
            requester: &ticket.tenant,
            code_sha256: Digest::of(ticket.spec.code.as_bytes()),
            attempt: ticket.attempt,
        };
        recording.append(ticket.created_wall_ms, EventKind::Accepted, &accepted);
        recording
    }

    /// The sandbox reported ready.
    pub(super) fn started(&mut self, spec: &EffectiveSpec) {
        let digest = Value::of(spec, &limits::EVENT).ok().map(|document| document.digest());
        let started = Started { wall_ms: wall_ms(), at: Instant::now(), spec: digest };
        self.started = Some(started);
        let data = StartedEvent { effective_spec_sha256: digest, isolation_class: spec.isolation_class };
        self.append(started.wall_ms, EventKind::Started, &data);
    }

    /// The job wrote something.
    pub(super) fn output(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(bytes),
            Stream::Stderr => self.stderr.extend_from_slice(bytes),
        }
    }

    /// Ends the attempt; `report` is the sandbox's, if there is one.
    pub(super) fn end(mut self, verdict: &Verdict, report: Option<&JobReport>) -> Recorded {
        let finished_at_ms = wall_ms();
        let was_cut = |stream: fn(&JobReport) -> bool| report.is_some_and(stream);
        let cut = [
            (Stream::Stdout, EventKind::Stdout, was_cut(|report| report.stdout.truncated)),
            (Stream::Stderr, EventKind::Stderr, was_cut(|report| report.stderr.truncated)),
        ]
        .map(|(stream, kind, cut)| self.record_output(finished_at_ms, (stream, kind), cut));
        for truncated in cut.iter().flatten() {
            self.append(finished_at_ms, EventKind::Truncated, truncated);
        }
        if !verdict.complete {
            self.chain.note_loss();
        }
        let finished = FinishedEvent {
            outcome: verdict.outcome,
            exit_code: verdict.exit_code,
            reason: verdict.killed_by,
            effective_spec_sha256: self.started.and_then(|started| started.spec),
        };
        self.append(finished_at_ms, EventKind::Finished, &finished);
        Recorded {
            chain: self.chain,
            stdout: self.stdout,
            stderr: self.stderr,
            truncated: cut.iter().any(Option::is_some),
            started_at_ms: self.started.map(|started| started.wall_ms),
            finished_at_ms,
            duration_ms: self.started.map(|started| millis_since(started.at)),
        }
    }

    /// Cuts a stream to what is kept and records that. Returns what there is to say about the cut, if it was cut.
    fn record_output(
        &mut self,
        ts_ms: u64,
        (stream, kind): (Stream, EventKind),
        cut: bool,
    ) -> Option<TruncatedEvent> {
        let bytes = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let cut = output::keep(bytes, cut);
        let kept_bytes = bytes.len();
        let records: Vec<OutputEvent> = bytes
            .chunks(RECORD_BYTES)
            .map(|record| OutputEvent { bytes: record.len(), sha256: Digest::of(record) })
            .collect();
        for record in &records {
            self.append(ts_ms, kind, record);
        }
        cut.then_some(TruncatedEvent { stream, kept_bytes })
    }

    /// Appends an event; one that cannot be leaves the chain incomplete, and says so in it.
    fn append(&mut self, ts_ms: u64, kind: EventKind, data: &impl Serialize) {
        let written = Value::of(data, &limits::EVENT).map_err(|error| error.to_string());
        let appended = written.and_then(|data| {
            self.chain.append(ts_ms, kind, data).map(|_| ()).map_err(|error| error.to_string())
        });
        if let Err(error) = appended {
            tracing::error!(
                job = self.chain.job_id(),
                kind = kind.as_str(),
                error,
                "an event of a job is lost"
            );
            self.chain.note_loss();
        }
    }
}

/// Whole milliseconds since then.
pub(super) fn millis_since(then: Instant) -> u64 {
    u64::try_from(then.elapsed().as_millis()).unwrap_or(u64::MAX)
}

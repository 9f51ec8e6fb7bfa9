//! Every bound on what a node keeps or waits for, with its unit and its reason, and what happens when it is reached.

// Delivery: what lies in outboxes, and what inboxes remember.

/// Parcels one peer's outbox holds, waiting and reserved. Then new requests are refused with numbers.
pub const OUTBOX_PARCELS_MAX: u64 = 100_000;

/// Bytes of bodies one peer's outbox holds, waiting and reserved: what one commit can still rewrite when a disk turns
/// out to have gone back. Then new requests are refused with numbers.
pub const OUTBOX_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Parcels all outboxes of a node hold together. Then new requests to any peer are refused.
pub const OUTBOXES_PARCELS_MAX: u64 = 1_000_000;

/// Bytes of bodies all outboxes of a node hold together: a tenth of a small disk. Then as above.
pub const OUTBOXES_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Parcels beyond [`OUTBOX_PARCELS_MAX`] that only withdrawals and cancellations may use: a full outbox must still
/// let work be taken back.
pub const OUTBOX_CONTROL_PARCELS: u64 = 10_000;

/// Bytes beyond [`OUTBOX_BYTES_MAX`] for the same.
pub const OUTBOX_CONTROL_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes of one parcel's body: its frame has room for 1 KiB of framing. What does not fit is refused.
pub const PARCEL_BODY_BYTES_MAX: usize = mesh_protocol::limits::PARCEL_FRAME_BYTES_MAX - 1024;

/// Milliseconds an acknowledged parcel is kept at least, to send it again to a peer whose disk was restored: the
/// usual distance of a snapshot taken before an upgrade. Later such a peer is told of a gap instead.
pub const RETAINED_MS: u64 = 60 * 60 * 1000;

/// Milliseconds by which acknowledged parcels are dated together, so that an outbox remembers a dozen dates only.
pub const RETAINED_STEP_MS: u64 = 5 * 60 * 1000;

/// Acknowledged parcels kept for one peer. Then the oldest go early.
pub const RETAINED_PARCELS_MAX: u64 = 10_000;

/// Bytes of acknowledged bodies kept for one peer. Then the oldest go early.
pub const RETAINED_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Milliseconds a message that was applied is remembered at least: a sender whose disk is restored from a backup
/// older than this may have a message applied twice.
pub const SEEN_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Messages remembered for one peer: about three a second over [`SEEN_MS`], 300 MB of rows. Then the peer is told it
/// is [`Quota`](mesh_protocol::delivery::BusyReason::Quota)-busy until old ones are forgotten.
pub const SEEN_MAX: u64 = 2_000_000;

/// Numberings remembered for one peer, its own and ours: of its own the least recently used is forgotten, of ours the
/// oldest. A new one means that a disk was restored or an outbox thrown away, so more than a few are a fault or an attack.
pub const INBOX_EPOCHS_MAX: usize = 8;

/// Delivery reports kept for one peer; the oldest goes first.
pub const DELIVERY_REPORTS_MAX: u64 = 256;

/// Characters kept of the last error of a peer's link.
pub const LAST_ERROR_CHARS_MAX: usize = 200;

/// Rows read at once when a sending task fills its window.
pub const SEND_PAGE_ROWS: usize = 32;

const _: () = assert!(RETAINED_MS < SEEN_MS, "what may be sent again is still known to the receiver");

// Broker and jobs.

/// Runs accepted and not ended, over all agents. One more is answered `busy`, so that a flood cannot grow the queue.
pub const RUN_QUEUE_MAX: usize = 1_000;

/// Executions accepted and not ended. One more is refused, as an error that did not run.
pub const JOB_QUEUE_MAX: usize = 1_000;

/// Asks and jobs of one peer that are remembered as stopped before they came, for [`SEEN_MS`] each: some megabytes of
/// rows. The stop of one more is answered with the word that it may run if it still comes.
pub const EARLY_STOPS_MAX: u64 = 4_096;

/// Bytes reserved in the origin's outbox for the outcome of a run, when it is accepted. A longer reply still fits:
/// the reservation is what keeps a place.
pub const RUN_REPORT_BYTES: u64 = 32 * 1024;

/// The same for the result of a job and its evidence.
pub const JOB_REPORT_BYTES: u64 = 128 * 1024;

/// The same for a job that is asked for files. Thirty such jobs of one peer are as many as are taken in at once; their
/// results may be larger than this, by a factor that is bounded, since they are never refused.
pub const JOB_FILES_REPORT_BYTES: u64 = 2 * 1024 * 1024;

/// Bytes of programs and files that jobs waiting here hold together. One more is refused, as when the queue is full.
pub const JOB_BODIES_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Bytes that accepting a job sets aside of its tenant's quota, so that it can always end and be attested: its texts,
/// its account and its events at a size that hardly any job reaches. What it really came to is counted when it ends.
pub const JOB_COMPLETION_BYTES: u64 = 2 * 1024 * 1024;

/// Times that signing the end of a job is tried within minutes. After that it is tried once at each start.
pub const JOB_SIGNINGS_MAX: u32 = 8;

/// Ends that a start has signed at once; each further such number of them a second later. Each is read with its events.
pub const JOB_SIGNINGS_AT_ONCE: usize = 100;

/// How long after the first failure it is tried again, in milliseconds; after each further one twice as long.
pub const JOB_SIGN_AGAIN_MS: u64 = 1_000;

/// Bytes of the events of one job that an executor may have stored at its origin while the job runs.
pub const JOB_EVENTS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Events of a job read at once.
pub const EVENT_PAGE_MAX: usize = 5_000;

/// Rows of a job that is forgotten, removed in one event. It is gone for everybody from the first.
pub const SWEEP_BATCH: usize = 250;

/// How long a job that has ended is kept, in milliseconds, where the operator does not say: a week.
pub const JOB_RETAIN_MS: u64 = 7 * 24 * 3_600_000;

/// How long an executor may be out of reach before a job that may be run twice is given to another, in milliseconds.
pub const JOB_MOVE_AFTER_MS: u64 = 30_000;

/// How long an ask may take when its caller does not say, in milliseconds: a day.
pub const ASK_DEADLINE_DEFAULT_MS: u64 = 24 * 3_600_000;

/// How long a job may take from acceptance to result when its caller does not say, in milliseconds: an hour.
pub const JOB_DEADLINE_DEFAULT_MS: u64 = 3_600_000;

/// The longest deadline anyone may set, in milliseconds: thirty days.
pub const DEADLINE_MAX_MS: u64 = 30 * 24 * 3_600_000;

/// How long after its deadline a flight or a job waits for a node that has it and is silent, in milliseconds: a day.
/// Then it fails, and says that it may have run.
pub const SILENCE_MAX_MS: u64 = 24 * 3_600_000;

/// Due rows handled in one event; the rest follow in the next.
pub const DUE_BATCH: usize = 128;

/// Rows a listing may return.
pub const LIST_MAX: usize = 500;

/// Characters of a task or a body shown in listings.
pub const PREVIEW_CHARS: usize = 200;

/// Open flights or jobs of one peer ended in one event, when that peer is gone.
pub const OPEN_BATCH: usize = 10_000;

/// How long what has ended is kept for people, in milliseconds: thirty days.
pub const RETAIN_MS: u64 = 30 * 24 * 3_600_000;

/// Rows the outbox may drop in one event.
pub const TIDY_BATCH: usize = 512;

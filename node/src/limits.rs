//! Every bound inside a node, with its unit and its reason.
//!
//! Bounds on what crosses a wire are in the protocol crate. When a bound is reached new work is refused with an error
//! that says so; accepted work is never dropped.

use mesh_node_core::quota::Rate;
use mesh_protocol::sync::MEMBERS_MAX;

// --- writer and storage ---

/// Events of one batch. At 256 the disk's flush is already a small part of an event's cost; more would only raise the
/// latency of the first.
pub const BATCH_EVENTS_MAX: usize = 256;

const _: () =
    assert!(mesh_protocol::limits::SEND_BATCH_MAX <= BATCH_EVENTS_MAX, "a request of messages is one batch");

/// Bytes of the events of one batch, by their own estimate: what one transaction keeps in memory before its commit. A
/// single event may be larger; it is then a batch of its own.
pub const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Events that wait in one of the writer's two queues.
pub const LANE_EVENTS_MAX: usize = 4_096;

/// Bytes of the events that wait in one of the writer's two queues.
pub const LANE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Commands taken in one round of filling a batch while peers' events wait too.
pub const COMMANDS_PER_ROUND: usize = 1;

/// Peers' and other events taken in one round of filling a batch while commands wait too. More than commands, because
/// one command (an ask, a job) causes several of them (receipt, progress, result).
pub const EVENTS_PER_ROUND: usize = 3;

/// Times a failed commit is recovered from (database opened again, batch run again) before the node stops.
pub const RECOVERY_TRIES_MAX: u32 = 8;

/// Milliseconds between two looks at whether a full disk has room again. They are not counted as tries: what was accepted
/// waits in memory, and the node goes on when somebody made room.
pub const DISK_FULL_WAIT_MS: u64 = 500;

/// Milliseconds before the second recovery; doubled before each later one, so all of them take about 25 s: long enough
/// for someone to free a full disk, short enough that a broken one is soon called broken.
pub const RECOVERY_WAIT_MS: u64 = 200;

/// Events kept in the quarantine, oldest forgotten first. It is for people, who read the newest.
pub const QUARANTINE_ROWS_MAX: usize = 1_000;

/// Bytes of the database's page cache.
pub const DATABASE_CACHE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of the journal. A quarter is written before a commit of the tree itself begins, and up to half while it is under
/// way; all of it at most is kept in memory, and read again after a crash. Longer, those commits are fewer, and each takes
/// longer.
pub const JOURNAL_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes up to which a database file is verified page by page at start (a second or two at most). Larger files are
/// verified only where they are read.
pub const DATABASE_CHECK_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Events of one peer that wait in the writer's queue or are in a running batch: one batch that runs and one that is
/// filled, so that a peer alone keeps the disk busy and a parcel of another waits for two batches at most. The peer's
/// stream is not read meanwhile.
pub const PEER_EVENTS_MAX: usize = 2 * BATCH_EVENTS_MAX;

/// Bytes of those events: two of the longest frames.
pub const PEER_EVENT_BYTES_MAX: usize = 2 * mesh_protocol::limits::PARCEL_FRAME_BYTES_MAX;

// --- what a peer may make this node do ---

/// Datagrams of one peer. It probes this node about once a second and answers its probes; the burst is what a mesh that
/// has just healed says at once.
pub const PEER_DATAGRAMS: Rate = Rate { burst: 400, per_second: 100 };

/// Comparisons of directories that one peer begins. It has a reason every few seconds, and after news a few a second.
pub const PEER_EXCHANGES: Rate = Rate { burst: 50, per_second: 10 };

/// Those of them at once: a peer begins the next when one has ended.
pub const PEER_EXCHANGES_AT_ONCE: usize = 4;

/// Records of one peer, each of which costs two signature checks (about 0.1 ms). Twice a whole directory fits in the
/// burst; the rate is a twentieth of a processor.
pub const PEER_RECORDS: Rate = Rate { burst: 2 * MEMBERS_MAX as u32, per_second: 500 };

/// Questions of one peer. Each look at its status asks one, and people's programs look often.
pub const PEER_QUESTIONS: Rate = Rate { burst: 200, per_second: 100 };

/// Those of them at once.
pub const PEER_QUESTIONS_AT_ONCE: usize = 32;

// --- clock ---

/// Milliseconds by which the wall clock may move against the boot clock between two readings without being called a
/// jump: more than any slew between readings, less than what would confuse a reader of a listing.
pub const WALL_JUMP_MS: u64 = 5_000;

/// Jumps kept until someone takes them; further ones are added to the last.
pub const WALL_JUMPS_MAX: usize = 16;

// --- relays ---

/// Relayed paths this node is an end of, in all: a node behind a filter reaches a large part of a mesh that way.
pub const PATHS_MAX: usize = 256;

/// Relayed paths this node is an end of, through one member: as many as that member carries for one peer.
pub const PATHS_PER_RELAY_MAX: usize = RELAY_PAIRS_PER_PEER_MAX;

/// Relayed paths this node is an end of, with one other end, through whatever members: as many as connections of one
/// peer. So a member that may relay cannot use up the paths of others.
pub const PATHS_PER_PEER_MAX: usize = mesh_node_core::links::CONNECTIONS_PER_PEER_MAX;

/// Packets that wait to get into the stream of one path: a third of a megabyte, more than a path of 25 MB/s and 10 ms
/// has under way. More are lost, as at a router.
pub const PATH_QUEUE_PACKETS: usize = 256;

/// Packets of all paths that QUIC has not taken yet. While it is full no path is read.
pub const PATHS_INBOX_PACKETS: usize = 1_024;

/// Pairs of members this node carries packets between, in all.
pub const RELAY_PAIRS_MAX: usize = 256;

/// Pairs carried because one peer asked: everybody it could want to reach in a mesh where every pair has a link.
pub const RELAY_PAIRS_PER_PEER_MAX: usize = 64;

/// Bytes a second carried for one peer, both directions of all its pairs together. It keeps one peer from using up a
/// relay's line; what comes faster waits, and the peer's connections slow down.
pub const RELAY_BYTES_PER_SECOND: u64 = 32 * 1024 * 1024;

/// Packets of one direction of a pair that wait for the other end's stream. More are lost, so that a slow end holds up
/// nobody else. Six milliseconds at the rate of [`RELAY_BYTES_PER_SECOND`], and 25 MB for all pairs of one peer.
pub const RELAY_QUEUE_PACKETS: usize = 128;

/// Carriers one peer may have open to this node: the one in use and one that is ending, and as many again dialled while
/// it restarted.
pub const CARRIERS_PER_PEER_MAX: usize = 4;

/// Attempts to reach one peer that are remembered for people to read, oldest forgotten first.
pub const ATTEMPTS_REMEMBERED: usize = 16;

// --- home and configuration ---

/// Bytes of a Unix socket's path: `sun_path` is 108 bytes and ends with a zero (unix(7)).
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Bytes of `config.toml`.
pub const CONFIG_BYTES_MAX: u64 = 1024 * 1024;

/// Agents one node may run: as many as one directory record may advertise.
pub const AGENTS_MAX: usize = mesh_protocol::limits::ADVERTISED_AGENTS_MAX;

/// Words of an agent's command.
pub const COMMAND_WORDS_MAX: usize = 256;

/// Bytes of an agent's whole command, well under what Linux takes (`ARG_MAX` and 128 KiB a word, execve(2)).
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Names of environment variables an agent may be passed.
pub const ENVIRONMENT_NAMES_MAX: usize = 64;

/// Seconds one run of an agent may take at most: a day.
pub const AGENT_TIME_LIMIT_SECONDS_MAX: u32 = 24 * 60 * 60;

/// Sandboxes that may run jobs at once on one node.
pub const EXECUTOR_SLOTS_MAX: u16 = 256;

/// Sandboxes of each language that may wait for jobs on one node.
pub const EXECUTOR_READY_MAX: u16 = 256;

/// Bytes of the disk that are left for what runs to end, and for everything else: below it no job is taken in.
pub const STORAGE_RESERVE_BYTES: u64 = 1024 * 1024 * 1024;

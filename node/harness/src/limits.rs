//! Every bound of this crate, with its unit and its reason.

use std::time::Duration;

/// Text of a task, bytes. Larger inputs belong in files that the task names.
pub const TASK_BYTES: usize = 4 * 1024 * 1024;

/// Variables a run may add to its program's environment.
pub const RUN_VARIABLES: usize = 64;

/// Name of an environment variable, bytes.
pub const VARIABLE_NAME_BYTES: usize = 128;

/// Value of an environment variable, bytes. Linux refuses one string of 128 KiB when a program starts.
pub const VARIABLE_VALUE_BYTES: usize = 32 * 1024;

/// Name of a run, bytes: it becomes a file name.
pub const RUN_NAME_BYTES: usize = 64;

/// Arguments of a program, and variables an operator passes through: more is a mistake in the configuration.
pub const SPEC_ITEMS: usize = 256;

/// What a program may write to stdout, bytes. More ends the run.
pub const REPLY_BYTES: usize = 1024 * 1024;

/// The end of stderr that a failure shows, bytes. What came before is dropped.
pub const STDERR_TAIL_BYTES: usize = 16 * 1024;

/// One read from or write to a pipe, bytes: the default capacity of a pipe on Linux.
pub const PIPE_CHUNK_BYTES: usize = 64 * 1024;

/// How long a program may run when nobody says.
pub const DEFAULT_TIME: Duration = Duration::from_secs(600);

/// Between asking a process group to end and killing it.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// How long to read on when a group is dead and something that left it still holds its pipes.
pub const DRAIN_TIME: Duration = Duration::from_secs(1);

/// How long to wait for a killed process: one that hangs in the kernel is left to it.
pub const REAP_TIME: Duration = Duration::from_secs(5);

/// Run files one sweep looks at. The rest wait for the next sweep, and the report says that there are some.
pub const SWEEP_FILES: usize = 4096;

/// Size of a run file, bytes: ours have under 200.
pub const RUN_FILE_BYTES: u64 = 1024;

/// How long code that a model wrote may run when nobody says.
pub const CODE_TIME: Duration = Duration::from_secs(60);

/// What is kept of each of the two outputs of such code, bytes. The rest is read and dropped.
pub const CODE_OUTPUT_BYTES: usize = 8 * 1024 * 1024;

/// A file that a model may read as a whole, bytes.
pub const READ_FILE_BYTES: u64 = 64 * 1024;

/// Files one listing names. More are counted as cut off.
pub const LISTED_FILES: usize = 10_000;

/// Entries one listing looks at, directories and links included.
pub const LISTED_ENTRIES: usize = 100_000;

/// How deep a listing goes.
pub const LISTED_DEPTH: usize = 64;

/// How long one request of `http_fetch` may take when the host does not say, its answer's body included.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// What is kept of a body that was fetched, bytes.
pub const FETCH_BODY_BYTES: usize = 8 * 1024 * 1024;

/// Redirects one fetch follows.
pub const FETCH_REDIRECTS: usize = 5;

/// Headers one fetch may send, and addresses one name may have.
pub const FETCH_ITEMS: usize = 64;

/// A download when the host does not say, bytes.
pub const DOWNLOAD_BYTES: u64 = 1024 * 1024 * 1024;

/// How long a download may take when the host does not say, redirects included.
pub const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// How long it may take to connect to a server and to learn its tools.
pub const CONNECT_TIME: Duration = Duration::from_secs(30);

/// One message of a server, bytes.
pub const SERVER_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Tools that one server may bring.
pub const SERVER_TOOLS: usize = 1024;

/// Messages of a server that wait to be read.
pub const SERVER_QUEUE: usize = 64;

/// Before a stream of a server that broke is opened again: so often, and no more.
pub const SERVER_RECONNECT_WAITS: [Duration; 3] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1)];

/// One line of a program that does a run, bytes. A longer one is left out.
pub const AGENT_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The answer of such a program, bytes. More is cut.
pub const AGENT_ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// How long such a program may take to be ready: to answer a first request, and to say that it has its tools.
pub const AGENT_READY_TIME: Duration = Duration::from_secs(60);

/// How long it may take to say that it asks its model again, after an error.
pub const AGENT_RETRY_TIME: Duration = Duration::from_secs(1);

/// Requests of such a program that are answered before it reads what it was answered. It is not listened to beyond them.
pub const AGENT_REQUESTS: usize = 256;

/// The name such a program gives a request or a choice, bytes. One with a longer name is none.
pub const AGENT_ID_BYTES: usize = 1024;

/// How long it may take to end its turn when it is asked to.
pub const AGENT_CANCEL_TIME: Duration = Duration::from_secs(5);

/// How long it may take to end by itself when it has answered.
pub const AGENT_END_TIME: Duration = Duration::from_secs(5);

/// Calls of capabilities of one run at once.
pub const SURFACE_CALLS: usize = 64;

/// Conversations about the capabilities of one run at once. Whoever shows its token may begin one.
pub const SURFACE_SESSIONS: usize = 32;

/// A request to the capabilities of a run, bytes: what `write_file` takes, written as JSON.
pub const SURFACE_REQUEST_BYTES: usize = 6 * WRITE_FILE_BYTES;

/// What the capabilities of a run may emit, bytes of JSON. More is not handed on.
pub const EMISSIONS_BYTES: usize = 8 * 1024 * 1024;

/// The token of a capability surface, bytes.
pub const SURFACE_TOKEN_BYTES: usize = 32;

/// Steps of a loop when nobody says.
pub const DEFAULT_STEPS: u32 = 12;

/// The longest a timer may be set to: about 30 years, which a clock can represent.
pub const TIMER_MAX: Duration = Duration::from_secs(1_000_000_000);

/// What a model sees of one tool result when the host does not say, bytes. The rest is cut, and the model is told.
pub const TOOL_RESULT_BYTES: usize = 64 * 1024;

/// How long work that is under way when its run is stopped may take to end in its own way, such as telling a server.
pub const IN_FLIGHT_GRACE: Duration = Duration::from_millis(500);

/// The answer of a provider, bytes. More is an error.
pub const PROVIDER_RESPONSE_BYTES: usize = 32 * 1024 * 1024;

/// What an error shows of a server's own words, bytes.
pub const SERVER_WORDS_BYTES: usize = 2048;

/// How long one request to a provider may take when the host does not say.
pub const PROVIDER_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a request to a provider is repeated when nobody says.
pub const PROVIDER_RETRIES: u32 = 2;

/// Tokens an answer may have when nobody says.
pub const PROVIDER_MAX_TOKENS: u64 = 4096;

/// Before the first repeat of a request. Each further one waits twice as long.
pub const RETRY_FIRST_WAIT: Duration = Duration::from_millis(500);

/// Before any repeat of a request, when the server does not say.
pub const RETRY_LONGEST_WAIT: Duration = Duration::from_secs(8);

/// Before any repeat of a request, when the server says. A run's own deadline may be sooner.
pub const RETRY_SERVER_WAIT: Duration = Duration::from_secs(600);

/// Messages at the end of a conversation that a prompt cache may mark: a provider takes four marks, and two are for the
/// system prompt and the tools.
pub const CACHED_MESSAGES: u8 = 2;

/// A path that is given to us, bytes: what Linux takes.
pub const PATH_BYTES: usize = 4096;

/// Names in a path that is given to us.
pub const PATH_DEPTH: usize = 64;

/// A file of a run's environment, bytes; also one that ours is merged into.
pub const ENVIRONMENT_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Files of a run's environment.
pub const ENVIRONMENT_FILES: usize = 1024;

/// A skill's description in an index, bytes.
pub const SKILL_DESCRIPTION_BYTES: usize = 1024;

/// What `write_file` takes, bytes.
pub const WRITE_FILE_BYTES: usize = 8 * 1024 * 1024;

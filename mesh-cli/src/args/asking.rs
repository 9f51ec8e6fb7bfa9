//! Arguments of the commands about agents.

use clap::Args;
use mesh_protocol::address::Name;
use mesh_protocol::id::ConversationId;

use super::duration;
use crate::input::Source;

/// The text of an ask or a message.
#[derive(Debug, Args)]
pub(crate) struct BodyArgs {
    /// The text, or `-` to read it from standard input.
    #[arg(required_unless_present = "body_file")]
    text: Option<String>,
    /// Read the text from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    body_file: Option<Source>,
}

impl BodyArgs {
    /// The text itself, or where to read it.
    pub(crate) fn into_source(self) -> Result<String, Source> {
        match (self.text, self.body_file) {
            (_, Some(source)) => Err(source),
            (Some(text), None) if text != "-" => Ok(text),
            _ => Err(Source::Stdin),
        }
    }
}

/// `ask`
#[derive(Debug, Args)]
#[command(after_help = "\
The agent's answer alone goes to standard output. When the agent's node cannot be reached the ask \
is held and delivered when it is back; nothing is lost when this command ends first.

Exit codes: 0 answered (with `--wait 0`: accepted), 1 the ask failed, 3 no answer yet or nobody \
there, 4 refused.

  mesh-cli ask @reviewer \"is this safe?\"
  git diff | mesh-cli ask @reviewer.node:atlas -")]
pub(crate) struct AskArgs {
    /// Whom: `@name`, or `@name.node:atlas` for the one on a certain node.
    pub(crate) to: String,
    /// What to do.
    #[command(flatten)]
    pub(crate) body: BodyArgs,
    /// How long to wait for the answer; 0 prints the receipt's ref and does not wait.
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration::seconds)]
    pub(crate) wait: u64,
    /// When the answer is of no use any more; a day when absent.
    #[arg(long, value_name = "TIME", value_parser = duration::seconds)]
    pub(crate) deadline: Option<u64>,
    /// Your own id: the same id again gives the first ask again, not a second.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
}

/// `send`
#[derive(Debug, Args)]
#[command(after_help = "\
With `--lines` up to 256 lines go in one request, as they come, and `--wait` is for each request. It \
ends with the first request in which a line is refused, and says which. `--json` then prints one \
document a request, with the receipt or the error of each line.

Exit codes: 0 recorded here (with `--wait`: there too), 3 not there yet, 4 refused; 1 and 2 for a \
target that is not there or could be several.

  mesh-cli send @reviewer \"the build is green\"
  tail -f build.log | mesh-cli send @reviewer.node:atlas --lines -")]
pub(crate) struct SendArgs {
    /// Whom: `@name`, or `@name.node:atlas` for the one on a certain node.
    pub(crate) to: String,
    /// What to say.
    #[command(flatten)]
    pub(crate) body: BodyArgs,
    /// Send each line of the text as a message of its own; lines with nothing in them are passed over.
    #[arg(long)]
    pub(crate) lines: bool,
    /// How long to wait until the agent's node has it on its disk; it is sent all the same when that takes longer.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = duration::seconds)]
    pub(crate) wait: u64,
    /// Your own id: the same id again gives the first receipt again, not a second message. With `--lines` each has this
    /// id with its number: `ID-1`.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
}

/// `who`
#[derive(Debug, Args)]
pub(crate) struct WhoArgs {
    /// Show one agent: `@name` or `@name.node:atlas`.
    pub(crate) name: Option<String>,
}

/// `flights`
#[derive(Debug, Args)]
#[command(
    after_help = "With `--wait` it ends as `ask` does: the answer alone on standard output, the same exit codes."
)]
pub(crate) struct FlightsArgs {
    /// Show one ask, by its ref or id.
    pub(crate) reference: Option<String>,
    /// Wait for it to end.
    #[arg(long, value_name = "TIME", value_parser = duration::seconds, requires = "reference")]
    pub(crate) wait: Option<u64>,
    /// How many to list.
    #[arg(long, default_value_t = 20, value_name = "ROWS")]
    pub(crate) limit: usize,
}

/// `messages`
#[derive(Debug, Args)]
pub(crate) struct MessagesArgs {
    /// Only of this conversation.
    #[arg(long, value_name = "ID")]
    pub(crate) conversation: Option<ConversationId>,
    /// Only to or from this agent of this node.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<Name>,
    /// How many to list.
    #[arg(long, default_value_t = 20, value_name = "ROWS")]
    pub(crate) limit: usize,
}

/// `cancel`
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// An ask's ref or id, or a job's id or the end of it.
    #[arg(value_name = "REF|JOB")]
    pub(crate) reference: String,
}

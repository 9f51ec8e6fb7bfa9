//! `messages`: what was said, newest first.

use mesh_node::service::MessageFilter;

use crate::args::MessagesArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Lists messages.
pub(crate) async fn messages(invocation: &Invocation, args: MessagesArgs) -> Result<Exit, Failure> {
    let filter = MessageFilter { conversation: args.conversation, agent: args.agent };
    let messages = invocation.client()?.messages(&filter, args.limit).await?;
    invocation
        .printer
        .answer(&messages, |messages| render::message::messages(messages, invocation.wall_ms()));
    Ok(Exit::Done)
}

//! `join`: become a node of a mesh, with a ticket from one of its nodes.

use mesh_protocol::ticket::TICKET_LINE_MAX;

use crate::args::JoinArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::founding;
use crate::input::Source;
use crate::invocation::Invocation;

/// Joins.
pub(crate) async fn join(invocation: &Invocation, args: JoinArgs) -> Result<Exit, Failure> {
    let ticket = match args.ticket.as_str() {
        "-" => Source::Stdin.text(TICKET_LINE_MAX).await?,
        line => line.to_owned(),
    };
    founding::join(invocation, ticket.trim(), args.name, args.trust).await
}

//! Making a home that is a node of a mesh: as its founder, or with a ticket.
//!
//! The node's own library does both; here is only what people see of it.

use mesh_protocol::address::Name;
use mesh_protocol::policy::Trust;
use mesh_protocol::ticket::Ticket;

use crate::args::InitArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;

/// Makes a mesh.
pub(crate) async fn init(_: &Invocation, _: InitArgs) -> Result<Exit, Failure> {
    Err(Failure::NotBuilt { command: "init" })
}

/// Joins a mesh with the ticket in this line.
pub(crate) async fn join(_: &Invocation, line: &str, _: Option<Name>, _: Trust) -> Result<Exit, Failure> {
    let _ticket: Ticket = line.parse()?;
    Err(Failure::NotBuilt { command: "join" })
}

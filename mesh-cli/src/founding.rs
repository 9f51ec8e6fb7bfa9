//! Making a home that is a node of a mesh: as its founder, or with a ticket.
//!
//! The node's own library does both; here is only what people see of it.

use mesh_node::founding::{self, Choice, Founded, FoundingError};
use mesh_node::home::Home;
use mesh_protocol::address::Name;
use mesh_protocol::id::{MeshId, NodeId};
use mesh_protocol::policy::Trust;
use serde::Serialize;

use crate::args::InitArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;

/// What `--json` prints of a new node.
#[derive(Debug, Serialize)]
struct NewNode {
    node: NodeId,
    name: Name,
    mesh: MeshId,
    root_fingerprint: String,
    already: bool,
}

/// Makes a mesh. A home that has one is left as it is.
pub(crate) async fn init(invocation: &Invocation, args: InitArgs) -> Result<Exit, Failure> {
    let home = Home::open(&invocation.home()?)?;
    match founding::init(&home, &Choice { name: args.name, trust: args.trust }) {
        Ok(founded) => {
            tell(invocation, founded, "founded");
            invocation.printer.hint("`mesh-cli up` starts it, `mesh-cli invite` lets another node in");
            Ok(Exit::Done)
        }
        Err(FoundingError::AlreadyMember { node, mesh }) => {
            invocation
                .printer
                .note(&format!("this home is already node {} of {mesh}; nothing was changed", node.short()));
            Ok(Exit::Done)
        }
        Err(error) => Err(error.into()),
    }
}

/// Joins a mesh.
pub(crate) async fn join(
    invocation: &Invocation,
    ticket: &str,
    name: Option<Name>,
    trust: Trust,
) -> Result<Exit, Failure> {
    // Before anything is made: a mistyped line leaves no home behind.
    let ticket = ticket.parse()?;
    let home = Home::open(&invocation.home()?)?;
    let founded = founding::join(&home, &Choice { name, trust }, &ticket).await?;
    tell(invocation, founded, "joined");
    invocation.printer.hint("`mesh-cli up` starts it, `mesh-cli status` shows whom it sees");
    Ok(Exit::Done)
}

fn tell(invocation: &Invocation, founded: Founded, did: &str) {
    let Founded { node, name, mesh, root } = founded;
    let new = NewNode { node, name, mesh, root_fingerprint: root.to_string(), already: false };
    let say = |new: &NewNode| {
        format!(
            "{did} {}\nthis node is {} ({})\nroot fingerprint {}\n",
            new.mesh,
            new.name,
            new.node.short(),
            new.root_fingerprint
        )
    };
    invocation.printer.answer(&new, say);
}

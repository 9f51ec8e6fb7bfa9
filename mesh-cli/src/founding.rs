//! Making a home that is a node of a mesh: as its founder, or with a ticket.
//!
//! The node's own library does both; here is only what people see of it. Both may be repeated: a home that is where it
//! should be is left as it is.

use mesh_node::founding::{self, Choice, Founded, FoundingError};
use mesh_node::home::Home;
use mesh_protocol::address::Name;
use mesh_protocol::id::{MeshId, NodeId};
use mesh_protocol::policy::Trust;
use mesh_protocol::ticket::Ticket;
use serde::Serialize;

use crate::args::InitArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::style::{self, KEY, LITERAL};
use crate::table::key_values;

/// What a home is now, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Membership {
    node: NodeId,
    mesh: MeshId,
    /// Whether it was so before.
    already: bool,
    /// Known when it was made just now.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Name>,
    /// What people compare by eye.
    #[serde(skip_serializing_if = "Option::is_none")]
    root_fingerprint: Option<String>,
}

/// Makes a mesh, and says what comes next.
pub(crate) async fn init(invocation: &Invocation, args: InitArgs) -> Result<Exit, Failure> {
    let home = Home::open(&invocation.home()?)?;
    let choice = Choice { name: args.name, trust: args.trust };
    let membership = match founding::init(&home, &choice) {
        Ok(founded) => Membership::from(founded),
        Err(FoundingError::AlreadyMember { node, mesh }) => Membership::before(node, mesh),
        Err(error) => return Err(error.into()),
    };
    invocation.printer.answer(&membership, described);
    invocation
        .printer
        .hint("`mesh-cli up` starts the node, then `mesh-cli invite` prints a ticket for the next");
    Ok(Exit::Done)
}

/// Joins a mesh with the ticket in this line, and says what comes next.
pub(crate) async fn join(
    invocation: &Invocation,
    line: &str,
    name: Option<Name>,
    trust: Trust,
) -> Result<Exit, Failure> {
    let ticket: Ticket = line.parse()?;
    let home = Home::open(&invocation.home()?)?;
    invocation.printer.progress(&format!("joining {} ...", ticket.mesh()));
    let joined = Box::pin(founding::join(&home, &Choice { name, trust }, &ticket)).await;
    let membership = match joined {
        Ok(founded) => Membership::from(founded),
        Err(FoundingError::AlreadyMember { node, mesh }) if mesh == ticket.mesh() => {
            Membership::before(node, mesh)
        }
        Err(error) => return Err(error.into()),
    };
    invocation.printer.answer(&membership, described);
    invocation.printer.hint("`mesh-cli up` starts the node");
    Ok(Exit::Done)
}

impl From<Founded> for Membership {
    fn from(founded: Founded) -> Self {
        let Founded { node, name, mesh, root } = founded;
        Self { node, mesh, already: false, name: Some(name), root_fingerprint: Some(root.to_string()) }
    }
}

impl Membership {
    const fn before(node: NodeId, mesh: MeshId) -> Self {
        Self { node, mesh, already: true, name: None, root_fingerprint: None }
    }
}

fn described(membership: &Membership) -> String {
    let Membership { node, mesh, name, root_fingerprint, .. } = membership;
    let (Some(name), Some(fingerprint)) = (name, root_fingerprint) else {
        return format!("this home is node {} of {mesh} already\n", style::paint(LITERAL, node.short()));
    };
    key_values(&[
        ("node", format!("{} {}", style::paint(KEY, name), style::paint(LITERAL, node))),
        ("mesh", mesh.to_string()),
        ("root", fingerprint.clone()),
    ])
}

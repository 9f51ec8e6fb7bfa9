//! `mesh-cli` alone: how things are, and the next sensible command.

use mesh_node::client::ClientError;
use mesh_protocol::api::node::Status;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Shows the status; a node that is not there is a state like any other.
pub(crate) async fn overview(invocation: &Invocation) -> Result<Exit, Failure> {
    let printer = &invocation.printer;
    let status: Status = match invocation.client()?.status().await {
        Ok(status) => status,
        Err(error @ (ClientError::NoHome { .. } | ClientError::NotRunning { .. })) if !printer.json() => {
            printer.text(&error.to_string());
            error.hints().iter().for_each(|hint| printer.hint(hint));
            printer.hint("`mesh-cli --help` lists all commands");
            return Ok(Exit::Done);
        }
        Err(error) => return Err(error.into()),
    };
    printer.answer(&status, |status| render::status::status(status, invocation.wall_ms()));
    printer.note("");
    printer.hint(render::status::next_step(&status));
    Ok(Exit::Done)
}

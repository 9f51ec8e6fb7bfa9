//! `send`: say something to an agent, with no work to track.

use mesh_protocol::api::ask::SendRequest;
use mesh_protocol::limits::BODY_BYTES_MAX;

use crate::args::SendArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Sends.
pub(crate) async fn send(invocation: &Invocation, args: SendArgs) -> Result<Exit, Failure> {
    let body = match args.body.into_source() {
        Ok(text) => text,
        Err(source) => source.text(BODY_BYTES_MAX).await?,
    };
    let request = SendRequest { to: args.to, body, request_id: args.request_id };
    let receipt = invocation.client()?.send(&request, args.wait).await?;
    let printer = &invocation.printer;
    let exit = if args.wait > 0 && receipt.state != "delivered" { Exit::Unavailable } else { Exit::Done };
    if printer.json() {
        printer.answer(&receipt, |_| String::new());
        return Ok(exit);
    }
    printer.note(&render::receipt::sent(&receipt));
    if let Some(held) = render::receipt::held_by(&receipt, invocation.wall_ms()) {
        printer.note(&held);
    }
    Ok(exit)
}

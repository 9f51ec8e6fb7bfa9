//! `ask`: give an agent work, and wait for its answer as long as the caller likes.
//!
//! The receipt goes to standard error and the answer alone to standard output. The wait is this command's own: when it
//! is over, or interrupted, the ask goes on.

use mesh_node::client::Client;
use mesh_protocol::api::ask::{AskCommand, FlightView, Receipt};
use mesh_protocol::flight::FlightOutcome;
use mesh_protocol::limits::BODY_BYTES_MAX;
use serde::Serialize;

use crate::args::AskArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::printer::Stream;
use crate::render;

use super::flights::wait_for_end;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Asked {
    receipt: Receipt,
    /// Absent with `--wait 0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    flight: Option<FlightView>,
}

/// Asks.
pub(crate) async fn ask(invocation: &Invocation, args: AskArgs) -> Result<Exit, Failure> {
    let task = match args.body.into_source() {
        Ok(text) => text,
        Err(source) => source.text(BODY_BYTES_MAX).await?,
    };
    let command =
        AskCommand { to: args.to, task, request_id: args.request_id, deadline_seconds: args.deadline };
    let client = invocation.client()?;
    let receipt = client.ask(&command).await?;
    report(invocation, &receipt);
    let Some(flight) = receipt.flight_id.filter(|_| args.wait > 0) else {
        let asked = Asked { receipt, flight: None };
        invocation.printer.answer(&asked, |asked| asked.receipt.reference.clone());
        return Ok(Exit::Done);
    };
    let flight = follow(invocation, &client, &flight.to_string(), &receipt.reference, args.wait).await?;
    if invocation.printer.json() {
        let exit = ending(&flight);
        invocation.printer.answer(&Asked { receipt, flight: Some(flight) }, |_| String::new());
        return Ok(exit);
    }
    Ok(conclude(invocation, &flight))
}

/// Says what was accepted, and whether anyone is there to do it.
fn report(invocation: &Invocation, receipt: &Receipt) {
    invocation.printer.note(&render::receipt::asked(receipt));
    if let Some(held) = render::receipt::held_by(receipt, invocation.wall_ms()) {
        invocation.printer.note(&held);
    }
}

/// Waits for a flight, ready to say what goes on should the wait be interrupted.
pub(crate) async fn follow(
    invocation: &Invocation,
    client: &Client,
    flight: &str,
    reference: &str,
    wait_seconds: u64,
) -> Result<FlightView, Failure> {
    invocation.leaves_running(format!(
        "the ask goes on: `mesh-cli flights {reference} --wait 5m` waits for it,\n\
         `mesh-cli cancel {reference}` stops it"
    ));
    invocation.printer.progress(&format!("waiting up to {wait_seconds}s ..."));
    wait_for_end(client, flight, wait_seconds).await
}

/// The answer alone on standard output, or why there is none on standard error.
pub(crate) fn conclude(invocation: &Invocation, flight: &FlightView) -> Exit {
    let printer = &invocation.printer;
    match &flight.outcome {
        Some(FlightOutcome::Completed { reply }) => {
            let line_end = if reply.ends_with('\n') { "" } else { "\n" };
            printer.foreign(Stream::Out, &format!("{reply}{line_end}"));
        }
        Some(outcome) => printer.complaint(&render::flight::no_answer(outcome)),
        None => printer.note(&render::flight::pending(flight)),
    }
    ending(flight)
}

fn ending(flight: &FlightView) -> Exit {
    flight.outcome.as_ref().map_or(Exit::Unavailable, render::flight::exit)
}

//! `flights`: the asks of this node, or one of them, now or once it has ended.

use std::time::{Duration, Instant};

use mesh_node::api::limits::WAIT_SECONDS_MAX;
use mesh_node::client::Client;
use mesh_node::service::FlightFilter;
use mesh_protocol::api::ask::FlightView;

use crate::args::FlightsArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

use super::ask::{conclude, follow};

/// Lists asks, or shows or awaits one.
pub(crate) async fn flights(invocation: &Invocation, args: &FlightsArgs) -> Result<Exit, Failure> {
    let client = invocation.client()?;
    let now = invocation.wall_ms();
    let printer = &invocation.printer;
    let Some(reference) = &args.reference else {
        let flights = client.flights(&FlightFilter::default(), args.limit).await?;
        printer.answer(&flights, |flights| render::flight::flights(flights, now));
        return Ok(Exit::Done);
    };
    let Some(wait) = args.wait else {
        let flight = client.flight(reference, 0).await?;
        printer.answer(&flight, |flight| render::flight::flight(flight, now));
        return Ok(Exit::Done);
    };
    let flight = follow(invocation, &client, reference, reference, wait).await?;
    if printer.json() {
        printer.answer(&flight, |_| String::new());
        return Ok(flight.outcome.as_ref().map_or(Exit::Unavailable, render::flight::exit));
    }
    Ok(conclude(invocation, &flight))
}

/// The flight once it has ended or `seconds` are over: several requests where one may not wait so long.
pub(super) async fn wait_for_end(client: &Client, flight: &str, seconds: u64) -> Result<FlightView, Failure> {
    let begun = Instant::now();
    let budget = Duration::from_secs(seconds);
    loop {
        let left = budget.saturating_sub(begun.elapsed()).as_secs();
        let view = client.flight(flight, left.min(WAIT_SECONDS_MAX)).await?;
        if view.terminal || left <= WAIT_SECONDS_MAX {
            return Ok(view);
        }
    }
}

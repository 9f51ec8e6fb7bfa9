//! `ping`: whether a node answers, by which way, and how fast.

use std::time::Duration;

use crate::args::PingArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Between two questions, as in ping(8).
const PING_EVERY: Duration = Duration::from_secs(1);

/// Pings.
pub(crate) async fn ping(invocation: &Invocation, args: &PingArgs) -> Result<Exit, Failure> {
    let client = invocation.client()?;
    let mut replies = Vec::new();
    let mut ticks = tokio::time::interval(PING_EVERY);
    for _ in 0..args.count {
        ticks.tick().await;
        let reply = client.ping(&args.node).await?;
        if !invocation.printer.json() {
            invocation.printer.text(&render::route::pong(&reply));
        }
        replies.push(reply);
    }
    // One document, whatever the count.
    if invocation.printer.json() {
        invocation.printer.answer(&replies, |_| String::new());
    }
    Ok(Exit::Done)
}

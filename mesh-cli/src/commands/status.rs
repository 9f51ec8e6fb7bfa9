//! `status`: this node and its peers, once or again and again.

use std::time::Duration;

use crate::args::StatusArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Between two pictures: often enough to watch by, seldom enough to read.
const WATCH_EVERY: Duration = Duration::from_secs(2);

/// Shows the status.
pub(crate) async fn status(invocation: &Invocation, args: &StatusArgs) -> Result<Exit, Failure> {
    let client = invocation.client()?;
    if args.watch {
        return watch(invocation, &client).await;
    }
    let status = client.status().await?;
    invocation.printer.answer(&status, |status| render::status::status(status, invocation.wall_ms()));
    Ok(Exit::Done)
}

/// Until Ctrl-C, or until the node is not there any more.
async fn watch(invocation: &Invocation, client: &mesh_node::client::Client) -> Result<Exit, Failure> {
    let printer = &invocation.printer;
    if printer.json() {
        return Err(Failure::usage(
            "a watch is not one JSON document",
            "call `status --json` as often as needed",
        ));
    }
    printer.enter_second_screen();
    let mut ticks = tokio::time::interval(WATCH_EVERY);
    loop {
        ticks.tick().await;
        match client.status().await {
            Ok(status) => printer.page(&render::status::status(&status, invocation.wall_ms())),
            Err(error) => {
                printer.leave_second_screen();
                return Err(error.into());
            }
        }
    }
}

//! `up`: start this machine's node, in the background or here.

use crate::args::UpArgs;
use crate::daemon;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Starts the node. One that runs already is left alone.
pub(crate) async fn up(invocation: &Invocation, args: &UpArgs) -> Result<Exit, Failure> {
    let root = invocation.home()?;
    if args.foreground {
        return daemon::foreground(&root).await;
    }
    let client = invocation.client()?;
    let (status, was_up) = match client.status().await {
        Ok(status) => (status, true),
        Err(_) => {
            daemon::start(&root, &client).await?;
            // The first start makes the operator's token, which more of the status is read with.
            (invocation.client()?.status().await?, false)
        }
    };
    let printer = &invocation.printer;
    printer.note(if was_up { "the node was up already" } else { "the node is up" });
    printer.answer(&status, |status| render::status::status(status, invocation.wall_ms()));
    printer.hint(render::status::next_step(&status));
    Ok(Exit::Done)
}

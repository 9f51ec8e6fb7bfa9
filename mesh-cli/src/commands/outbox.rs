//! `outbox`: what waits for peers, and throwing it away.

use crate::args::OutboxArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::foreign;
use crate::invocation::Invocation;
use crate::{prompt, render};

/// Shows every outbox, or empties one.
pub(crate) async fn outbox(invocation: &Invocation, args: &OutboxArgs) -> Result<Exit, Failure> {
    let client = invocation.client()?;
    let Some(peer) = &args.discard else {
        let outboxes = client.outboxes().await?;
        invocation.printer.answer(&outboxes, |outboxes| render::outbox::outboxes(outboxes));
        return Ok(Exit::Done);
    };
    if !args.yes {
        let question = format!("throw away everything that waits for {}?", foreign::line(peer));
        prompt::yes(invocation, &question, "--yes").await?;
    }
    let discarded = client.discard_outbox(peer).await?;
    invocation.printer.answer(&discarded, render::outbox::discarded);
    Ok(Exit::Done)
}

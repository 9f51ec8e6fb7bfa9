//! `who`: the agents that can be asked, or one of them.

use mesh_protocol::api::ask::ResolveRequest;

use crate::args::WhoArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Lists agents, or shows one.
pub(crate) async fn who(invocation: &Invocation, args: WhoArgs) -> Result<Exit, Failure> {
    let client = invocation.client()?;
    let now = invocation.wall_ms();
    match args.name {
        Some(to) => {
            let agent = client.resolve(&ResolveRequest { to }).await?;
            invocation.printer.answer(&agent, |agent| render::agent::agent(agent, now));
        }
        None => {
            let agents = client.agents().await?;
            invocation.printer.answer(&agents, |agents| render::agent::agents(agents, now));
        }
    }
    Ok(Exit::Done)
}

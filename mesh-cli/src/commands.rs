//! What each command does: one file a command, one function a file.
//!
//! A command gets the [`Invocation`] and its own arguments, calls the node or this machine, prints through the printer
//! and says how it ended.

mod allow;
mod ask;
mod block;
mod cancel;
mod check;
mod completions;
mod demo;
mod deny;
mod doctor;
mod down;
mod explain;
mod flights;
mod init;
mod invite;
mod jobs;
mod join;
mod keys;
mod logs;
mod mcp_server;
mod messages;
mod outbox;
mod overview;
mod ping;
mod revoke;
mod run;
mod send;
mod setup;
mod status;
mod unblock;
mod up;
mod verify;
mod who;
mod whoami;

pub(crate) use keys::Listed;
pub(crate) use logs::tail;
pub(crate) use verify::{judged, member, root_in};

use crate::args::Command;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;

/// Does what was typed.
pub(crate) async fn dispatch(invocation: &Invocation, command: Option<Command>) -> Result<Exit, Failure> {
    let Some(command) = command else { return overview::overview(invocation).await };
    match command {
        Command::Init(args) => init::init(invocation, args).await,
        Command::Invite(args) => invite::invite(invocation, &args).await,
        Command::Join(args) => join::join(invocation, args).await,
        Command::Up(args) => up::up(invocation, &args).await,
        Command::Down => down::down(invocation).await,
        Command::Status(args) => status::status(invocation, &args).await,
        Command::Ping(args) => ping::ping(invocation, &args).await,
        Command::Who(args) => who::who(invocation, args).await,
        Command::Ask(args) => ask::ask(invocation, args).await,
        Command::Send(args) => send::send(invocation, args).await,
        Command::Flights(args) => flights::flights(invocation, &args).await,
        Command::Messages(args) => messages::messages(invocation, args).await,
        Command::Run(args) => run::run(invocation, args).await,
        Command::Jobs(args) => jobs::jobs(invocation, &args).await,
        Command::Cancel(args) => cancel::cancel(invocation, &args).await,
        Command::Outbox(args) => outbox::outbox(invocation, &args).await,
        Command::Allow(args) => allow::allow(invocation, args).await,
        Command::Deny(args) => deny::deny(invocation, args).await,
        Command::Block(args) => block::block(invocation, args).await,
        Command::Unblock(args) => unblock::unblock(invocation, &args).await,
        Command::Revoke(args) => revoke::revoke(invocation, args).await,
        Command::Keys(args) => keys::keys(invocation, args).await,
        Command::Verify(args) => verify::verify(invocation, &args).await,
        Command::Check => check::check(invocation).await,
        Command::Doctor => doctor::doctor(invocation).await,
        Command::Whoami => whoami::whoami(invocation).await,
        Command::Logs(args) => logs::logs(invocation, &args).await,
        Command::Setup(args) => setup::setup(invocation, &args).await,
        Command::Demo(args) => demo::demo(invocation, &args).await,
        Command::DemoAgent(args) => crate::demo::agent::answer(invocation, &args).await,
        Command::McpServer => mcp_server::mcp_server(invocation).await,
        Command::Explain(args) => explain::explain(invocation, &args).await,
        Command::Completions(args) => Ok(completions::completions(invocation, &args)),
    }
}

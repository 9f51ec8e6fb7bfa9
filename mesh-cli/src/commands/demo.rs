//! `demo`: a mesh of three nodes on this machine, and what it promises, shown in under a minute.

use tokio::signal::unix::{SignalKind, signal};

use crate::args::DemoArgs;
use crate::demo::{self, Text};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;

/// Plays it. When it is told to stop its nodes are stopped first, as on Ctrl-C.
pub(crate) async fn demo(invocation: &Invocation, args: &DemoArgs) -> Result<Exit, Failure> {
    let text = Text::read(args.input.as_ref()).await?;
    tokio::select! {
        played = demo::play(invocation, &text, args.keep) => Ok(played?),
        () = told(SignalKind::terminate()) => Ok(Exit::Interrupted),
        () = told(SignalKind::hangup()) => Ok(Exit::Interrupted),
    }
}

async fn told(kind: SignalKind) {
    match signal(kind) {
        Ok(mut stream) => drop(stream.recv().await),
        // Without a handler the signal's default ends the process.
        Err(_) => std::future::pending().await,
    }
}

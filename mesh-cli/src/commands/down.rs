//! `down`: stop this machine's node, and wait until it has stopped.

use std::time::Duration;

use mesh_node::client::{Client, ClientError};

use crate::daemon::DaemonError;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;

/// How long a node may take to stop: it lets running jobs and answers end in their own time limits.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Stops the node. One that does not run is left alone.
pub(crate) async fn down(invocation: &Invocation) -> Result<Exit, Failure> {
    let client = invocation.client()?;
    match client.shutdown().await {
        Ok(()) => {}
        Err(ClientError::NotRunning { .. }) => {
            invocation.printer.note("the node was down already");
            return Ok(Exit::Done);
        }
        Err(error) => return Err(error.into()),
    }
    match tokio::time::timeout(STOPPED_WITHIN, stopped(&client)).await {
        Ok(()) => {
            invocation.printer.note("the node is down; what it had accepted waits for it to come back");
            Ok(Exit::Done)
        }
        Err(_) => Err(DaemonError::StillRunning { after: STOPPED_WITHIN }.into()),
    }
}

async fn stopped(client: &Client) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        ticks.tick().await;
        if let Err(ClientError::NotRunning { .. }) = client.status().await {
            return;
        }
    }
}

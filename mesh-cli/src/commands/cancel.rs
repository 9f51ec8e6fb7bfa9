//! `cancel`: stop an ask or a job.

use mesh_node::client::{Client, ClientError};
use mesh_protocol::api::ask::CancelReply;
use mesh_protocol::api::error::ErrorKind;

use crate::args::CancelArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::foreign;
use crate::invocation::Invocation;
use crate::render;

use super::jobs::find_job;

/// Cancels: an ask under this ref, or else a job.
pub(crate) async fn cancel(invocation: &Invocation, args: &CancelArgs) -> Result<Exit, Failure> {
    let client = invocation.client()?;
    let reply = cancel_either(&client, &args.reference).await?;
    let what = foreign::line(&args.reference);
    invocation.printer.answer(&reply, |reply| render::flight::cancelled(&what, reply));
    Ok(Exit::Done)
}

async fn cancel_either(client: &Client, reference: &str) -> Result<CancelReply, Failure> {
    if reference.starts_with("job-") {
        return Ok(client.cancel_job(find_job(client, reference).await?).await?);
    }
    match client.cancel_flight(reference).await {
        Err(ClientError::Refused(no)) if no.kind == ErrorKind::NotFound => {
            let Ok(job) = find_job(client, reference).await else {
                return Err(ClientError::Refused(no).into());
            };
            Ok(client.cancel_job(job).await?)
        }
        answer => Ok(answer?),
    }
}

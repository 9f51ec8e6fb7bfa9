//! `jobs logs`: what a job wrote, or writes: its standard output on ours and its standard error on ours.

use mesh_node::api::limits::WAIT_SECONDS_MAX;
use mesh_node::client::Client;
use mesh_protocol::evidence::artifact::Captured;
use mesh_protocol::evidence::event::{Event, EventKind};

use super::find_job;
use crate::args::JobLogsArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::printer::Stream;

/// Shows what is there, and with `--follow` what comes, until the job has ended.
pub(super) async fn logs(
    invocation: &Invocation,
    client: &Client,
    args: &JobLogsArgs,
) -> Result<Exit, Failure> {
    let job = find_job(client, &args.job).await?;
    let (printer, mut after) = (&invocation.printer, 0);
    loop {
        let page = client.job_events(job, after, if args.follow { WAIT_SECONDS_MAX } else { 0 }).await?;
        if printer.json() {
            printer.answer(&page, |_| String::new());
        } else {
            for event in &page.events {
                if let Some((stream, text)) = written(event) {
                    printer.foreign(stream, &text);
                }
            }
        }
        let more = page.next_cursor != after;
        after = page.next_cursor;
        if page.unsigned {
            printer.warning("the job has ended, and its node could not sign that yet; it tries again");
        }
        if page.ended || (!args.follow && !more) {
            return Ok(Exit::Done);
        }
    }
}

/// What an event of output holds.
fn written(event: &Event) -> Option<(Stream, String)> {
    let stream = match event.kind {
        EventKind::Stdout => Stream::Out,
        EventKind::Stderr => Stream::Err,
        _ => return None,
    };
    let bytes = event.data.get("content")?.read::<Captured>().ok()?.to_bytes()?;
    Some((stream, String::from_utf8_lossy(&bytes).into_owned()))
}

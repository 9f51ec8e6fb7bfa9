//! `send`: say something to an agent, with no work to track; or each line of a text.

use mesh_protocol::api::ask::{Receipt, SendBatch, SendRequest, Sent};
use mesh_protocol::api::error::ApiError;
use mesh_protocol::limits::BODY_BYTES_MAX;
use serde::Serialize;

use crate::args::SendArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::lines::{Lines, Numbered};
use crate::measure;
use crate::render;

/// Sends.
pub(crate) async fn send(invocation: &Invocation, args: SendArgs) -> Result<Exit, Failure> {
    if args.lines {
        return send_lines(invocation, args).await;
    }
    let body = match args.body.into_source() {
        Ok(text) => text,
        Err(source) => source.text(BODY_BYTES_MAX).await?,
    };
    let request = SendRequest { to: args.to, body, request_id: args.request_id };
    let receipt = invocation.client()?.send(&request, args.wait).await?;
    let printer = &invocation.printer;
    let exit = if args.wait > 0 && !is_delivered(&receipt) { Exit::Unavailable } else { Exit::Done };
    if printer.json() {
        printer.answer(&receipt, |_| String::new());
        return Ok(exit);
    }
    printer.note(&render::receipt::sent(&receipt));
    if let Some(held) = render::receipt::held_by(&receipt, invocation.wall_ms()) {
        printer.note(&held);
    }
    Ok(exit)
}

fn is_delivered(receipt: &Receipt) -> bool {
    receipt.state == "delivered"
}

/// Sends each line, many in a request. The first request with a line that is refused is the last.
async fn send_lines(invocation: &Invocation, args: SendArgs) -> Result<Exit, Failure> {
    let (client, printer) = (invocation.client()?, &invocation.printer);
    let mut lines = Lines::of(args.body.into_source())?;
    let mut sent = Tally { waits: args.wait > 0, request_id: args.request_id, ..Tally::default() };
    loop {
        invocation.leaves_running(sent.summary());
        let group;
        (lines, group) = lines.next().await.inspect_err(|_| printer.note(&sent.summary()))?;
        let (Some((first, _)), Some((last, _))) = (group.first(), group.last()) else { break };
        let message = |(number, line): &Numbered| {
            let request_id = sent.request_id.as_ref().map(|id| format!("{id}-{number}"));
            SendRequest { to: args.to.clone(), body: line.clone(), request_id }
        };
        let batch = SendBatch { messages: group.iter().map(message).collect() };
        let answers = client.send_batch(&batch, args.wait).await.inspect_err(|error| {
            printer.note(&sent.summary());
            if error.leaves_open() {
                printer.warning(&format!("lines {first} to {last} may have been recorded{}", sent.again()));
            }
        })?;
        let numbers = group.iter().map(|(number, _)| *number);
        let answers: Vec<LineSent> =
            numbers.zip(answers.messages).map(|(line, sent)| LineSent { line, sent }).collect();
        if printer.json() {
            printer.answer(&answers, |_| String::new());
        }
        answers.into_iter().for_each(|answer| sent.count(answer));
        if sent.refused.is_some() {
            break;
        }
    }
    printer.note(&sent.summary());
    let hint = format!("`--json` shows what became of each line{}", sent.again());
    match sent.refused {
        Some((_, error)) if printer.json() => Ok(error.kind.into()),
        Some((line, error)) => Err(Failure::Line { line, error: Box::new(error.hint(hint)) }),
        None if sent.waits && sent.delivered < sent.accepted => Ok(Exit::Unavailable),
        None => Ok(Exit::Done),
    }
}

/// What came of a line.
#[derive(Debug, Serialize)]
struct LineSent {
    line: u64,
    #[serde(flatten)]
    sent: Sent,
}

/// How many came how far.
#[derive(Debug, Default)]
struct Tally {
    /// Whether it is known how many were delivered.
    waits: bool,
    request_id: Option<String>,
    accepted: u64,
    delivered: u64,
    not_sent: u64,
    /// The first line that was not accepted.
    refused: Option<(u64, ApiError)>,
}

impl Tally {
    fn count(&mut self, LineSent { line, sent }: LineSent) {
        match sent {
            Sent::Receipt(receipt) => {
                self.accepted += 1;
                self.delivered += u64::from(is_delivered(&receipt));
            }
            Sent::Error(error) => {
                self.not_sent += 1;
                self.refused = self.refused.take().or(Some((line, error)));
            }
        }
    }

    fn summary(&self) -> String {
        let Self { waits, accepted, delivered, not_sent, .. } = self;
        let recorded = measure::count(*accepted, "message");
        let delivered = if *waits { format!(", {delivered} of them delivered") } else { String::new() };
        let not_sent = if *not_sent > 0 { format!(", {not_sent} not") } else { String::new() };
        format!("{recorded} recorded{delivered}{not_sent}")
    }

    /// How the same lines may be sent again.
    fn again(&self) -> &'static str {
        match self.request_id {
            Some(_) => "; sent again under this request id, none is recorded twice",
            None => {
                "; sent again, they are recorded again: a `--request-id` from the first time on prevents that"
            }
        }
    }
}

//! Asks and how they end.

use mesh_protocol::api::ask::{CancelReply, DeliveryPhase, FlightView};
use mesh_protocol::flight::{FailureCode, FlightOutcome};

use crate::exit::Exit;
use crate::foreign;
use crate::measure::ago;
use crate::style::{self, BAD, KEY, LITERAL};
use crate::table::{Align, Cell, Table, key_values};
use crate::wrap::wrapped;

/// All of them, a row each.
pub(crate) fn flights(flights: &[FlightView], now_ms: u64) -> String {
    if flights.is_empty() {
        return "no asks yet\n".to_owned();
    }
    let mut table = Table::new([
        ("REF", Align::Left),
        ("STATE", Align::Left),
        ("TARGET", Align::Left),
        ("DELIVERY", Align::Left),
        ("TASK", Align::Left),
        ("AGE", Align::Left),
    ]);
    for flight in flights {
        table.row([
            Cell::styled(LITERAL, &flight.reference),
            Cell::state(flight.state.name()),
            Cell::from(&flight.target),
            Cell::from(delivery(flight.delivery)),
            Cell::from(&flight.task),
            Cell::from(ago(now_ms, flight.created_at_ms)),
        ]);
    }
    table.render()
}

/// One in full, its answer last.
pub(crate) fn flight(flight: &FlightView, now_ms: u64) -> String {
    let mut pairs = vec![
        ("ref", style::paint(LITERAL, foreign::line(&flight.reference))),
        ("state", state(flight)),
        ("target", style::paint(KEY, &flight.target)),
        ("asked by", foreign::line(&flight.requester)),
        ("task", foreign::excerpt(&flight.task, 200)),
        ("delivery", delivery(flight.delivery).to_owned()),
        ("accepted", ago(now_ms, flight.created_at_ms)),
        ("changed", ago(now_ms, flight.updated_at_ms)),
        ("flight", flight.flight_id.to_string()),
        ("conversation", flight.conversation_id.to_string()),
    ];
    if flight.late.is_some() {
        pairs.push(("late", "a result came after the outcome was decided; `--json` shows it".to_owned()));
    }
    let mut text = key_values(&pairs);
    match &flight.outcome {
        Some(FlightOutcome::Completed { reply }) => text.push_str(&format!("\n{}\n", foreign::block(reply))),
        Some(outcome) => text.push_str(&format!("\n{}", no_answer(outcome))),
        None => {}
    }
    text
}

/// Where a flight is that has not ended, and how to follow it.
pub(crate) fn pending(flight: &FlightView) -> String {
    let reference = foreign::line(&flight.reference);
    format!(
        "no answer yet: {}, {}\nthe ask goes on without this command:\n\
         `mesh-cli flights {reference} --wait 5m` waits for it\n\
         `mesh-cli cancel {reference}` stops it\n",
        state(flight),
        delivery(flight.delivery)
    )
}

/// Why there is no answer, in one line and what to do.
pub(crate) fn no_answer(outcome: &FlightOutcome) -> String {
    let begun = |may_have_run: bool| {
        if may_have_run { "the agent may have begun" } else { "the agent did not begin" }
    };
    match outcome {
        FlightOutcome::Completed { .. } => String::new(),
        FlightOutcome::Cancelled { may_have_run } => format!("cancelled; {}\n", begun(*may_have_run)),
        FlightOutcome::Failed { code, detail, remediation, may_have_run } => {
            let what = style::paint(BAD, format_args!("failed ({}):", code.name()));
            let why = format!("{what} {}; {}", foreign::line(detail), begun(*may_have_run));
            let mut text = format!("{}\n", wrapped(&why, 2));
            if let Some(remediation) = remediation {
                text.push_str(&format!(
                    "{} {}\n",
                    style::paint(LITERAL, "hint:"),
                    foreign::line(remediation)
                ));
            }
            text
        }
    }
}

/// What an outcome says through the exit code.
pub(crate) fn exit(outcome: &FlightOutcome) -> Exit {
    match outcome {
        FlightOutcome::Completed { .. } => Exit::Done,
        FlightOutcome::Cancelled { .. } => Exit::Negative,
        FlightOutcome::Failed { code, .. } => match code {
            FailureCode::Refused => Exit::Refused,
            // Nothing has begun, and the same ask may find the agent there.
            FailureCode::PeerUnreachable | FailureCode::AgentOffline | FailureCode::Busy => Exit::Unavailable,
            FailureCode::PeerSilent
            | FailureCode::OutcomeUnknown
            | FailureCode::UnknownAgent
            | FailureCode::TimedOut
            | FailureCode::EngineFailed
            | FailureCode::EmptyReply
            | FailureCode::NodeRestarted
            | FailureCode::AskLoop
            | FailureCode::PeerGone => Exit::Negative,
        },
    }
}

/// What a cancel did to an ask or a job.
pub(crate) fn cancelled(what: &str, reply: &CancelReply) -> String {
    let state = foreign::line(&reply.state);
    match reply {
        CancelReply { already_terminal: true, .. } => format!("{what} had ended before: {state}\n"),
        CancelReply { on_its_way: true, .. } => {
            format!("{what} is {state}; the request to stop is on its way to its node\n")
        }
        _ => format!("{what} is {state}\n"),
    }
}

/// How far a request has come, in words.
pub(crate) const fn delivery(phase: DeliveryPhase) -> &'static str {
    match phase {
        DeliveryPhase::Local => "local",
        DeliveryPhase::Held => "held",
        DeliveryPhase::Sent => "sent",
        DeliveryPhase::Acknowledged => "acknowledged",
    }
}

fn state(flight: &FlightView) -> String {
    let state = style::paint(style::of_state(flight.state.name()), flight.state);
    match &flight.waiting_on {
        Some(what) => format!("{state}, waiting on {}", foreign::line(what)),
        None => state,
    }
}

#[cfg(test)]
mod tests {
    use mesh_protocol::flight::FlightState;

    use super::*;
    use crate::render::specimen::{self, NOW, plain};

    fn failed(code: FailureCode) -> FlightOutcome {
        let remediation = Some("ask its operator for `mesh-cli allow`".to_owned());
        FlightOutcome::Failed { code, detail: "not allowed there".into(), remediation, may_have_run: false }
    }

    #[test]
    fn asks_are_rows_with_the_ref_to_type_first() {
        insta::assert_snapshot!(plain(&flights(&[specimen::flight(FlightState::Running)], NOW)), @r"
        REF       STATE    TARGET               DELIVERY  TASK                   AGE
        0g208104  running  @reviewer.node:nova  sent      review the last co...  10m ago
        ");
    }

    #[test]
    fn an_ask_that_has_not_ended_says_how_to_follow_it() {
        let waiting =
            FlightView { waiting_on: Some("node nova".into()), ..specimen::flight(FlightState::Waiting) };
        insta::assert_snapshot!(plain(&pending(&waiting)), @r"
        no answer yet: waiting, waiting on node nova, sent
        the ask goes on without this command:
        `mesh-cli flights 0g208104 --wait 5m` waits for it
        `mesh-cli cancel 0g208104` stops it
        ");
    }

    #[test]
    fn a_failed_ask_says_why_and_what_to_do() {
        insta::assert_snapshot!(plain(&no_answer(&failed(FailureCode::Refused))), @r"
        failed (refused): not allowed there; the agent did not begin
        hint: ask its operator for `mesh-cli allow`
        ");
    }

    #[test]
    fn an_answer_cannot_write_over_what_we_say() {
        let reply = "fine\u{1b}[2J".to_owned();
        let done = FlightView {
            outcome: Some(FlightOutcome::Completed { reply }),
            ..specimen::flight(FlightState::Completed)
        };
        assert!(flight(&done, NOW).ends_with("\nfine\\u{1b}[2J\n"));
    }

    #[test]
    fn refused_and_unavailable_are_told_apart_from_failed() {
        assert_eq!(exit(&failed(FailureCode::Refused)), Exit::Refused);
        assert_eq!(exit(&failed(FailureCode::PeerUnreachable)), Exit::Unavailable);
        assert_eq!(exit(&failed(FailureCode::EngineFailed)), Exit::Negative);
        assert_eq!(exit(&FlightOutcome::Cancelled { may_have_run: true }), Exit::Negative);
    }
}

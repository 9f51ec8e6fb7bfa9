//! What was accepted, and, where a target cannot be reached, the truth about it.

use mesh_protocol::api::ask::{Held, Receipt};

use crate::foreign;
use crate::measure::{self, ago};
use crate::style::{self, DOUBTFUL, LITERAL};
use crate::wrap::wrapped;

/// The line that says an ask was accepted.
pub(crate) fn asked(receipt: &Receipt) -> String {
    let again = if receipt.replayed { ", as before (same request id)" } else { "" };
    format!(
        "asked {}, ref {}{again}",
        receipt.target,
        style::paint(LITERAL, foreign::line(&receipt.reference))
    )
}

/// The line that says a message was accepted.
pub(crate) fn sent(receipt: &Receipt) -> String {
    let again = if receipt.replayed { ", as before (same request id)" } else { "" };
    let done = if receipt.state == "delivered" { "delivered" } else { "recorded" };
    format!("message to {} {done}, ref {}{again}", receipt.target, foreign::line(&receipt.reference))
}

/// Why what was accepted is held, if it is.
pub(crate) fn held_by(receipt: &Receipt, now_ms: u64) -> Option<String> {
    let label =
        || receipt.target.node.as_ref().map_or_else(|| receipt.target_node.short(), ToString::to_string);
    receipt.held.as_ref().map(|it| held(it, &label(), now_ms))
}

/// Why something is held: what is seen, since when, why, what waits with it, and what happens next.
pub(crate) fn held(held: &Held, node: &str, now_ms: u64) -> String {
    let since = held.since_ms.map_or_else(String::new, |since| format!(" since {}", ago(now_ms, since)));
    let state = style::paint(DOUBTFUL, foreign::line(&held.state));
    let seen = format!("held: {} is {state}{since} ({})", foreign::line(node), foreign::line(&held.cause));
    format!(
        "{}\n      {} ({}) waiting for that node; delivered when it is back\n",
        wrapped(&seen, 6),
        measure::count(held.queued, "parcel"),
        measure::bytes(held.queued_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::specimen::{self, NOW, plain};

    #[test]
    fn a_held_ask_says_state_since_cause_queue_and_what_comes_next() {
        insta::assert_snapshot!(plain(&held(&specimen::held(), "nova", NOW)), @r"
        held: nova is unreachable since 10m ago (no answer to probes)
              3 parcels (1.2 KiB) waiting for that node; delivered when it is back
        ");
    }

    #[test]
    fn a_repeated_request_is_told_apart_from_a_new_one() {
        let first = specimen::receipt(None);
        assert!(!asked(&first).contains("as before"));
        assert!(asked(&Receipt { replayed: true, ..first }).contains("as before"));
    }
}

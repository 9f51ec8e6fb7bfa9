//! What a restored disk lost is said: a message that was accepted and is on neither side's disk any more lies in a
//! range that somebody reports.
//!
//! Excused: messages that went with their sender's disk before any other node heard of them; nobody is left who could
//! know.

use mesh_node_core::outbox::{ReportKind, Side};

use crate::whole::facts::Facts;

pub(super) fn judge(facts: &Facts) -> Vec<String> {
    let book = &facts.book;
    let mut broken = Vec::new();
    for (number, entry) in &book.sends {
        let Some((_, at)) = entry.accepted.filter(|(_, at)| !book.forgot(entry.from, *at)) else { continue };
        let (Some(sender), Some(receiver)) = (facts.nodes.get(&entry.from), facts.nodes.get(&entry.to))
        else {
            continue;
        };
        if receiver.messages.contains_key(number) || entry.from == entry.to {
            continue;
        }
        let said = sender.reports.iter().any(|report| {
            report.peer == receiver.id
                && report.side == Side::Sending
                && matches!(report.kind, ReportKind::Gap | ReportKind::ReceiverRolledBack)
        });
        if !said {
            let (from, to) = (entry.from, entry.to);
            broken.push(format!("message {number} of {at} ms is gone from n{to}, and n{from} says nothing"));
        }
    }
    broken
}

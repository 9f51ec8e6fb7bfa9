//! What waits for each peer.

use mesh_protocol::api::node::PeerOutbox;

use crate::foreign;
use crate::measure::{bytes, count, rough};
use crate::style::{self, DOUBTFUL, KEY};
use crate::table::{Align, Cell, Table};

/// A row a peer, then what was found missing.
pub(crate) fn outboxes(outboxes: &[PeerOutbox]) -> String {
    if outboxes.is_empty() {
        return "no peers yet\n".to_owned();
    }
    let mut table = Table::new([
        ("PEER", Align::Left),
        ("QUEUED", Align::Right),
        ("SIZE", Align::Right),
        ("OLDEST", Align::Right),
        ("BLOCKED BY", Align::Left),
    ]);
    let mut reports = String::new();
    for PeerOutbox { name, outbox, .. } in outboxes {
        table.row([
            Cell::styled(KEY, name),
            Cell::from(outbox.count),
            Cell::from(bytes(outbox.bytes)),
            Cell::maybe(outbox.oldest_age_ms.map(rough)),
            Cell::maybe(outbox.blocked.as_ref()),
        ]);
        for report in &outbox.reports {
            let warning = style::paint(DOUBTFUL, "warning:");
            reports.push_str(&format!("{warning} {}: {}\n", foreign::line(name), foreign::line(report)));
        }
    }
    if reports.is_empty() { table.render() } else { format!("{}\n{reports}", table.render()) }
}

/// What was thrown away.
pub(crate) fn discarded(discarded: &PeerOutbox) -> String {
    let PeerOutbox { name, outbox, .. } = discarded;
    let (parcels, size) = (count(outbox.count, "parcel"), bytes(outbox.bytes));
    format!("{parcels} ({size}) for {} thrown away\n", foreign::line(name))
}

#[cfg(test)]
mod tests {
    use mesh_protocol::api::node::OutboxView;

    use super::*;
    use crate::render::specimen::{self, plain};

    #[test]
    fn what_waits_is_a_row_and_what_was_lost_a_warning() {
        let outbox = OutboxView {
            count: 3,
            bytes: 1_229,
            oldest_age_ms: Some(60_000),
            blocked: Some("unreachable".into()),
            reports: vec!["2 parcels were lost when its disk was restored".into()],
        };
        let peer = PeerOutbox { node: specimen::node(2), name: "nova".into(), outbox };
        insta::assert_snapshot!(plain(&outboxes(&[peer])), @r"
        PEER  QUEUED     SIZE  OLDEST  BLOCKED BY
        nova       3  1.2 KiB      1m  unreachable

        warning: nova: 2 parcels were lost when its disk was restored
        ");
    }
}

//! How a node is reached, or why it is not.

use mesh_protocol::api::mesh::{HearsayView, PingReply, RouteView, SightingView, TriedView};

use crate::foreign;
use crate::measure::{self, ago, bytes, count, rough};
use crate::style::{self, BAD, DOUBTFUL, GOOD, KEY};
use crate::table::{Align, Cell, Table, key_values};
use crate::wrap::wrapped;

/// The page `explain` shows for a node.
pub(crate) fn route(route: &RouteView, now_ms: u64) -> String {
    let mut page = summary(route, now_ms);
    page.push_str("\nTried, the newest first:\n");
    page.push_str(&tried(&route.tried, now_ms));
    page.push_str("\nAsked just now who reaches it:\n");
    page.push_str(&seen_by(&route.seen_by));
    if !route.heard.is_empty() {
        page.push_str("\nHeard lately, the newest first:\n");
        page.push_str(&heard(&route.heard, now_ms));
    }
    page.push('\n');
    page.push_str(&wrapped(&format!("next: {}", foreign::line(&route.next)), 2));
    page.push('\n');
    page
}

/// One answer to `ping`.
pub(crate) fn pong(reply: &PingReply) -> String {
    format!(
        "{} answered in {}, {}\n",
        foreign::line(&reply.name),
        measure::round_trip(reply.took_us),
        foreign::line(&reply.path)
    )
}

fn summary(route: &RouteView, now_ms: u64) -> String {
    let mut state = style::paint(style::of_state(&route.state), foreign::line(&route.state));
    if let Some(since) = route.since_ms {
        state.push_str(&format!(" since {}", ago(now_ms, since)));
    }
    if let Some(cause) = route.cause.as_ref().filter(|cause| !cause.is_empty()) {
        state.push_str(&format!(": {}", foreign::line(cause)));
    }
    let path = match (&route.path, route.rtt_us) {
        (Some(path), Some(rtt)) => format!("{}, {}", foreign::line(path), measure::round_trip(rtt)),
        (Some(path), None) => foreign::line(path),
        (None, _) => "none".to_owned(),
    };
    let addresses: Vec<String> = route.addresses.iter().map(|address| foreign::line(address)).collect();
    let mut pairs = vec![
        ("node", format!("{} {}", style::paint(KEY, foreign::line(&route.name)), route.node)),
        ("state", state),
        ("path", path),
        ("addresses", if addresses.is_empty() { "none known".to_owned() } else { addresses.join(", ") }),
    ];
    if let Some(error) = &route.last_error {
        pairs.push(("last error", foreign::line(error)));
    }
    if let Some(wait) = route.next_try_in_ms {
        let soon = if wait < 1_000 { "now".to_owned() } else { format!("in {}", rough(wait)) };
        pairs.push(("next try", format!("directly, {soon}")));
    }
    pairs.push(("queued", queued(route)));
    key_values(&pairs)
}

fn queued(route: &RouteView) -> String {
    let outbox = &route.outbox;
    if outbox.count == 0 {
        return "nothing".to_owned();
    }
    let mut text = format!("{}, {}", count(outbox.count, "parcel"), bytes(outbox.bytes));
    if let Some(age) = outbox.oldest_age_ms {
        text.push_str(&format!(", the oldest for {}", rough(age)));
    }
    if let Some(blocked) = &outbox.blocked {
        text.push_str(&format!("; not sent: {}", foreign::line(blocked)));
    }
    text
}

fn tried(tried: &[TriedView], now_ms: u64) -> String {
    if tried.is_empty() {
        return "  nothing since this node started\n".to_owned();
    }
    let mut table = Table::new([
        ("WHEN", Align::Left),
        ("TIMES", Align::Right),
        ("WAY", Align::Left),
        ("OUTCOME", Align::Left),
    ]);
    for try_ in tried {
        table.row([
            Cell::from(ago(now_ms, try_.at_ms)),
            Cell::from(try_.times),
            Cell::maybe(try_.way.as_ref()),
            Cell::from(&try_.outcome),
        ]);
    }
    table.render()
}

fn seen_by(sightings: &[SightingView]) -> String {
    if sightings.is_empty() {
        return "  no other member is linked with this node\n".to_owned();
    }
    let mut table = Table::new([
        ("MEMBER", Align::Left),
        ("REACHES IT", Align::Left),
        ("RTT", Align::Right),
        ("RELAYS FOR THIS NODE", Align::Left),
    ]);
    for by in sightings {
        let reaches = match by {
            SightingView { answered: false, .. } => Cell::styled(DOUBTFUL, "no answer"),
            SightingView { direct: true, .. } => Cell::styled(GOOD, "directly"),
            SightingView { alive: true, .. } => Cell::styled(GOOD, "through another"),
            SightingView { .. } => Cell::styled(BAD, "no"),
        };
        let relays = by.answered.then_some(if by.carries { "yes" } else { "no" });
        table.row([
            Cell::styled(KEY, &by.name),
            reaches,
            Cell::maybe(by.rtt_us.map(measure::round_trip)),
            Cell::maybe(relays),
        ]);
    }
    table.render()
}

fn heard(hearsay: &[HearsayView], now_ms: u64) -> String {
    let mut table = Table::new([("MEMBER", Align::Left), ("SAID", Align::Left), ("WHEN", Align::Left)]);
    let mut newest: Vec<&HearsayView> = hearsay.iter().collect();
    newest.sort_by_key(|said| std::cmp::Reverse(said.at_ms));
    for said in newest {
        let word = if said.answers {
            Cell::styled(GOOD, "it answers")
        } else {
            Cell::styled(BAD, "it does not answer")
        };
        table.row([Cell::styled(KEY, &said.name), word, Cell::from(ago(now_ms, said.at_ms))]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::specimen::{self, NOW, plain};

    #[test]
    fn a_node_that_is_not_reached_shows_what_was_tried_and_who_reaches_it() {
        insta::assert_snapshot!(plain(&route(&specimen::route(), NOW)), @r"
        node        nova aibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaiba
        state       unreachable since 10m ago: nothing answered
        path        none
        addresses   192.0.2.9:4433
        last error  nothing answered
        next try    directly, in 12s
        queued      3 parcels, 1.2 KiB, the oldest for 1m

        Tried, the newest first:
        WHEN    TIMES  WAY                    OUTCOME
        5s ago      2  relayed via borealis   it does not let this node relay
        5s ago     40  direct 192.0.2.9:4433  nothing answered

        Asked just now who reaches it:
        MEMBER    REACHES IT    RTT  RELAYS FOR THIS NODE
        borealis  directly    800us  no
        carina    no              -  no
        draco     no answer       -  -

        Heard lately, the newest first:
        MEMBER  SAID                WHEN
        fornax  it answers          4s ago
        elara   it does not answer  20s ago

        next: on node borealis: `mesh-cli allow atlas relay` lets it carry for this node
        ");
    }

    #[test]
    fn a_ping_says_the_way() {
        let reply = PingReply {
            node: specimen::node(2),
            name: "nova".into(),
            path: "relayed via atlas".into(),
            took_us: 1_370,
        };
        insta::assert_snapshot!(pong(&reply), @"nova answered in 1.3ms, relayed via atlas");
    }
}

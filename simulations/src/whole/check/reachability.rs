//! Nobody who is there is called unreachable: without faults, at any loss of packets the scenario has.

use crate::whole::facts::Facts;

pub(super) fn judge(facts: &Facts) -> Vec<String> {
    if facts.scenario.has_faults() {
        return Vec::new();
    }
    let sentence = |it: &crate::whole::facts::Sighting| {
        let (at, peer) = (it.at_ms, it.peer.short());
        format!("at {at} ms n{} called {peer} unreachable: {}", it.observer, it.cause)
    };
    facts.sightings.iter().map(sentence).collect()
}

//! What this node sees of the mesh, put together from everybody who knows a part: membership (who is there), records
//! (what they say), this node's own agents and sandbox, and who is shut out here.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_node_core::site::AgentSetting;
use mesh_node_core::view::{Contact, KnownAgent, Member, View};
use mesh_protocol::address::Name;
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::id::NodeId;
use mesh_protocol::peer::{PeerState, PeerView, SeenBy};
use mesh_protocol::record::{AgentState, Capabilities, Lifecycle, NodeRecord, VerifiedRecord};

use crate::identity::{Admission, Exclusion};

/// The parts.
#[derive(Debug)]
pub struct Sources<'a> {
    /// This node.
    pub me: NodeId,
    /// Its label.
    pub name: &'a Name,
    /// Its agents.
    pub agents: &'a BTreeMap<Name, AgentSetting>,
    /// Its sandbox.
    pub executor: &'a ExecutorView,
    /// Who is shut out here.
    pub admission: &'a Admission,
    /// What membership makes of the others.
    pub peers: &'a [PeerView],
    /// The newest records.
    pub records: &'a [VerifiedRecord],
}

/// Members named as those that reach another one, or do not. The others are counted.
const SEEN_BY_SHOWN: usize = 3;

/// The whole view.
#[must_use]
pub fn look(sources: &Sources<'_>) -> Arc<View> {
    let records: BTreeMap<NodeId, &NodeRecord> =
        sources.records.iter().map(VerifiedRecord::record).map(|record| (record.node, record)).collect();
    let here = Member {
        name: sources.name.clone(),
        contact: Contact::Here,
        state: "here".to_owned(),
        since_wall_ms: None,
        cause: String::new(),
        executor: sources.executor.clone(),
        as_of_ms: None,
    };
    let others = sources.peers.iter().map(|peer| {
        let record = records.get(&peer.node).copied();
        (peer.node, member(peer, record, &records, sources.admission))
    });
    let members: BTreeMap<NodeId, Member> = std::iter::once((sources.me, here)).chain(others).collect();
    let mine = sources.agents.iter().map(|(name, setting)| KnownAgent {
        name: name.clone(),
        node: sources.me,
        harness: setting.harness.clone(),
        profile: Some(setting.profile),
        offline: setting.offline.clone(),
        description: setting.description.clone(),
    });
    let theirs =
        records.values().filter(|record| record.node != sources.me).flat_map(|record| advertised(record));
    // An agent without a member would be nobody's: a record always comes with its peer.
    let mut agents: Vec<KnownAgent> =
        mine.chain(theirs).filter(|agent| members.contains_key(&agent.node)).collect();
    agents.sort_by(|a, b| (&a.name, a.node).cmp(&(&b.name, b.node)));
    Arc::new(View { members, agents })
}

fn member(
    peer: &PeerView,
    record: Option<&NodeRecord>,
    records: &BTreeMap<NodeId, &NodeRecord>,
    admission: &Admission,
) -> Member {
    let (contact, state, cause) = match admission.check(peer.node) {
        Err(exclusion) => {
            let word = match exclusion {
                Exclusion::Revoked => "revoked",
                Exclusion::Blocked => "blocked",
            };
            (Contact::Gone, word, exclusion.to_string())
        }
        Ok(()) => {
            let contact = match peer.state {
                PeerState::Alive => Contact::Reachable,
                // In a large mesh most members have no link until one is needed.
                PeerState::Known if !peer.neighbour && peer.seen_by.iter().all(|seen| seen.answers) => {
                    Contact::Reachable
                }
                PeerState::Left | PeerState::Revoked => Contact::Gone,
                PeerState::Known
                | PeerState::Suspect
                | PeerState::Unreachable
                | PeerState::Incompatible
                | PeerState::Duplicate => Contact::NotNow,
            };
            (contact, peer.state.name(), cause(peer) + &seen_by(peer, records))
        }
    };
    let label = record.map(|record| record.advertisement.name.clone());
    Member {
        name: label.unwrap_or_else(|| short_name(peer.node)),
        contact,
        state: state.to_owned(),
        since_wall_ms: Some(peer.since.wall_ms).filter(|ms| *ms > 0),
        cause,
        executor: record.map(|record| claims(&record.advertisement.capabilities)).unwrap_or_default(),
        as_of_ms: record.map(|record| record.wall_ms),
    }
}

/// Why, with the last error and where it was met: what a person needs to look further.
fn cause(peer: &PeerView) -> String {
    let stopped = matches!(peer.lifecycle, Some(Lifecycle::Leaving));
    let said = if stopped { "it said that it is stopping" } else { peer.cause.as_str() };
    match (&peer.last_error, peer.address_tried) {
        (Some(error), Some(address)) if peer.state != PeerState::Alive && !said.contains(&error.text) => {
            format!("{said}; {} at {address}", error.text)
        }
        _ => said.to_owned(),
    }
}

/// Who else lately said whether it answers: what helps to find the fault, and tells nothing while all is well.
fn seen_by(peer: &PeerView, records: &BTreeMap<NodeId, &NodeRecord>) -> String {
    if peer.state == PeerState::Alive {
        return String::new();
    }
    let name = |node: &NodeId| {
        records.get(node).map_or_else(|| node.short(), |record| record.advertisement.name.to_string())
    };
    let say = |answers: bool, what: &str| {
        let those: Vec<&SeenBy> = peer.seen_by.iter().filter(|seen| seen.answers == answers).collect();
        let names: Vec<String> = those.iter().take(SEEN_BY_SHOWN).map(|seen| name(&seen.node)).collect();
        let more = those.len().saturating_sub(SEEN_BY_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if names.is_empty() { String::new() } else { format!("; {what} {}{more}", names.join(", ")) }
    };
    say(true, "it answers") + &say(false, "it does not answer")
}

fn claims(capabilities: &Capabilities) -> ExecutorView {
    ExecutorView {
        classes: capabilities.isolation_classes.clone(),
        languages: capabilities.languages.iter().map(|language| language.name().to_owned()).collect(),
        slots: capabilities.slots.into(),
        running: 0,
        runtimes: None,
        unavailable: None,
    }
}

fn advertised(record: &NodeRecord) -> impl Iterator<Item = KnownAgent> + '_ {
    record.advertisement.agents.iter().map(|agent| KnownAgent {
        name: agent.name.clone(),
        node: record.node,
        harness: agent.harness.clone(),
        profile: None,
        offline: match &agent.state {
            AgentState::Online => None,
            AgentState::Offline(reason) => Some(reason.clone()),
        },
        description: agent.description.clone(),
    })
}

fn short_name(node: NodeId) -> Name {
    // Base32 in lower case is always a name.
    node.short().parse().unwrap_or_else(|_| unreachable!("base32 is a name"))
}

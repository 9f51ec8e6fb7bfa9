//! The resolver's claims.

use super::*;
use crate::view::Member;
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::policy::PermissionProfile;

fn member(name: &str, contact: Contact) -> Member {
    Member {
        name: name.parse().unwrap(),
        contact,
        state: "alive".into(),
        since_wall_ms: None,
        cause: String::new(),
        executor: ExecutorView::default(),
        as_of_ms: None,
    }
}

fn agent(name: &str, node: u8, offline: Option<&str>) -> KnownAgent {
    KnownAgent {
        name: name.parse().unwrap(),
        node: NodeId::from_bytes([node; 32]),
        harness: "command".into(),
        profile: Some(PermissionProfile::Review),
        offline: offline.map(str::to_owned),
        description: String::new(),
    }
}

/// Three nodes; `reviewer` on two of them, `planner` offline on a reachable one, `writer` on one that is away.
fn view() -> View {
    let members = [("atlas", Contact::Here), ("nova", Contact::Reachable), ("vega", Contact::NotNow)];
    View {
        members: (1..)
            .zip(members)
            .map(|(id, (name, c))| (NodeId::from_bytes([id; 32]), member(name, c)))
            .collect(),
        agents: vec![
            agent("planner", 2, Some("python3 is not there")),
            agent("reviewer", 1, None),
            agent("reviewer", 2, None),
            agent("writer", 3, None),
        ],
    }
}

#[test]
fn one_match_resolves() {
    assert_eq!(resolve(&view(), "@writer").unwrap().node, NodeId::from_bytes([3; 32]));
    assert_eq!(resolve(&view(), "@reviewer.node:nova").unwrap().node, NodeId::from_bytes([2; 32]));
}

#[test]
fn two_matches_are_ambiguous_and_the_retry_resolves() {
    let view = view();
    let error = resolve(&view, "@reviewer").unwrap_err();
    assert_eq!(error.code, "ambiguous_target");
    assert_eq!(error.candidates.len(), 2);
    let retry = error.hints[0].split('`').nth(1).unwrap();
    assert!(resolve(&view, retry).is_ok(), "{retry}");
}

#[test]
fn a_misspelt_name_is_unknown_with_its_neighbours_and_is_not_routed() {
    let error = resolve(&view(), "@wirter").unwrap_err();
    assert_eq!(error.code, "unknown_target");
    assert_eq!(error.hints, ["did you mean `@writer`?"]);
}

#[test]
fn a_name_on_another_node_is_unknown_here_and_says_where() {
    let error = resolve(&view(), "@writer.node:atlas").unwrap_err();
    assert_eq!(error.code, "unknown_target");
    assert_eq!(error.candidates[0].full.to_string(), "@writer.node:vega");
}

#[test]
fn an_unknown_name_without_neighbours_names_the_next_command() {
    let error = resolve(&view(), "@zzzzzzzz").unwrap_err();
    assert!(error.candidates.is_empty());
    assert!(error.hints[0].contains("mesh-cli who"));
    assert!(resolve(&View::default(), "@a").unwrap_err().hints[0].contains("[[agent]]"));
}

#[test]
fn an_unknown_node_is_not_an_unknown_agent() {
    let error = resolve(&view(), "@writer.node:vegas").unwrap_err();
    assert_eq!((error.code.as_str(), error.hints[0].as_str()), ("unknown_node", "did you mean `vega`?"));
}

#[test]
fn unreachable_is_not_offline() {
    let view = view();
    let writer = resolve(&view, "@writer").unwrap();
    assert_eq!(view.reachability(writer), "unreachable");
    assert!(check_ready(&view, writer).is_ok(), "work for an unreachable node is accepted and held");
    let planner = resolve(&view, "@planner").unwrap();
    assert_eq!(view.reachability(planner), "offline");
    assert_eq!(check_ready(&view, planner).unwrap_err().code, "agent_offline");
}

#[test]
fn two_nodes_of_one_name_are_told_apart_by_id() {
    let mut view = view();
    view.members.insert(NodeId::from_bytes([9; 32]), member("atlas", Contact::Reachable));
    let error = resolve_node(&view, "atlas").unwrap_err();
    assert_eq!(error.code, "ambiguous_node");
    let by_id = error.hints[0].split('`').nth(1).unwrap();
    assert!(resolve_node(&view, by_id).is_ok());
}

#[test]
fn who_is_gone_makes_no_name_ambiguous() {
    let mut view = view();
    let nova = NodeId::from_bytes([2; 32]);
    view.members.insert(nova, member("nova", Contact::Gone));
    assert_eq!(resolve(&view, "@reviewer").unwrap().node, NodeId::from_bytes([1; 32]));
    let gone = resolve(&view, "@planner").unwrap();
    assert_eq!(check_there(&view, gone).unwrap_err().code, "peer_gone");
}

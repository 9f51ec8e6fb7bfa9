//! One resolver, one answer: who an address means, or exactly why it means nobody.
//!
//! Pure over a [`View`]. It never guesses: two agents of a name are ambiguous even when one of them is here, and a
//! misspelt name is answered with its neighbours, never routed to one of them. Every refusal ends in a command that
//! itself resolves.

use mesh_protocol::address::{AgentAddress, Name};
use mesh_protocol::api::error::{ApiError, Candidate, ErrorKind};
use mesh_protocol::id::NodeId;

use crate::view::{Contact, KnownAgent, View};

/// Neighbours offered for a misspelt name, nearest first.
const SUGGESTIONS_MAX: usize = 5;

/// Agents listed when one address means several; the message says how many there are.
const CANDIDATES_SHOWN: usize = 20;

/// The agent an address means: exactly one.
///
/// # Errors
/// `invalid_target`, `ambiguous_target`, `unknown_target` or `unknown_node`, with candidates and hints.
pub fn resolve<'v>(view: &'v View, text: &str) -> Result<&'v KnownAgent, ApiError> {
    let address: AgentAddress = text.parse().map_err(|error| {
        let error: mesh_protocol::address::AddressError = error;
        ApiError::new(ErrorKind::Invalid, "invalid_target", error.to_string())
            .hint("`mesh-cli who` lists the agents; an address is `@name` or `@name.node:host`")
    })?;
    let nodes = address.node.as_ref().map(|node| find_nodes(view, node)).transpose()?;
    let matching: Vec<&KnownAgent> = view
        .agents
        .iter()
        .filter(|agent| agent.name == address.agent)
        .filter(|agent| nodes.as_ref().is_none_or(|nodes| nodes.contains(&agent.node)))
        .collect();
    // Who is no longer in the mesh does not make a name ambiguous, and is named only when there is nobody else.
    let (gone, there): (Vec<_>, Vec<_>) =
        matching.into_iter().partition(|agent| view.reachability(agent) == "gone");
    let matching = if there.is_empty() { gone } else { there };
    match matching.as_slice() {
        [agent] => Ok(agent),
        [] => Err(unknown(view, &address)),
        several => Err(ambiguous(view, &address, several)),
    }
}

/// Whether anything may be accepted for this agent.
///
/// # Errors
/// `peer_gone` when its node left, was revoked or is blocked here.
pub fn check_there(view: &View, agent: &KnownAgent) -> Result<(), ApiError> {
    if view.reachability(agent) != "gone" {
        return Ok(());
    }
    let message = format!("the node of {} is no longer in the mesh", view.full_address(agent));
    let error = ApiError::new(ErrorKind::Refused, "peer_gone", message);
    Err(error.hint("`mesh-cli who` lists the agents there are"))
}

/// Whether work may be accepted for this agent now. An unreachable node is no obstacle: its work is held.
///
/// # Errors
/// `agent_offline` when its reachable node says it cannot run; `peer_gone` when its node left or was revoked.
pub fn check_ready(view: &View, agent: &KnownAgent) -> Result<(), ApiError> {
    check_there(view, agent)?;
    let address = view.full_address(agent);
    let contact = view.members.get(&agent.node).map(|member| member.contact);
    match (contact, &agent.offline) {
        (Some(Contact::Here), Some(reason)) => {
            let message = format!("{address} is offline: {reason}");
            Err(ApiError::new(ErrorKind::Unavailable, "agent_offline", message)
                .hint("mend its entry in config.toml, then `mesh-cli down` and `mesh-cli up`"))
        }
        (Some(Contact::Reachable), Some(reason)) => {
            let message = format!("{address} is offline on its node: {reason}");
            let hint = format!(
                "on node {}: mend its entry in config.toml and restart the node",
                view.label(agent.node)
            );
            Err(ApiError::new(ErrorKind::Unavailable, "agent_offline", message).hint(hint))
        }
        _ => Ok(()),
    }
}

/// The one member a name or the beginning of an id means.
///
/// # Errors
/// `invalid_target`, `unknown_node` or `ambiguous_node`.
pub fn resolve_node(view: &View, text: &str) -> Result<NodeId, ApiError> {
    if let Ok(id) = text.parse::<NodeId>() {
        return if view.members.contains_key(&id) { Ok(id) } else { Err(unknown_node(view, text)) };
    }
    let name: Name = text.parse().map_err(|error: mesh_protocol::address::AddressError| {
        ApiError::new(ErrorKind::Invalid, "invalid_target", error.to_string())
            .hint("`mesh-cli status` lists the nodes")
    })?;
    match find_nodes(view, &name)?.as_slice() {
        [node] => Ok(*node),
        several => {
            let ids: Vec<String> = several.iter().map(NodeId::short).collect();
            let message = format!("`{name}` could be {} nodes: {}", several.len(), ids.join(", "));
            let hint = format!(
                "name it by the beginning of its id, as in `{}`",
                ids.first().map_or("", String::as_str)
            );
            Err(ApiError::new(ErrorKind::Ambiguous, "ambiguous_node", message).hint(hint))
        }
    }
}

fn find_nodes(view: &View, name: &Name) -> Result<Vec<NodeId>, ApiError> {
    let found = view.members_called(name);
    if found.is_empty() { Err(unknown_node(view, name.as_str())) } else { Ok(found) }
}

fn unknown_node(view: &View, text: &str) -> ApiError {
    let mut near: Vec<&str> = view.members.values().map(|member| member.name.as_str()).collect();
    near.sort_by_key(|name| strsim::damerau_levenshtein(name, text));
    near.dedup();
    let error = ApiError::new(ErrorKind::NotFound, "unknown_node", format!("no node is called `{text:.80}`"));
    match near.first() {
        Some(name) if is_near(name, text) => error.hint(format!("did you mean `{name}`?")),
        _ => error.hint("`mesh-cli status` lists the nodes"),
    }
}

fn ambiguous(view: &View, address: &AgentAddress, several: &[&KnownAgent]) -> ApiError {
    let message = format!("{address} could be {} agents", several.len());
    let mut error = ApiError::new(ErrorKind::Ambiguous, "ambiguous_target", message);
    error.candidates = several.iter().take(CANDIDATES_SHOWN).map(|agent| candidate(view, agent)).collect();
    // The best retry is one that can answer now.
    let best = several.iter().find(|agent| view.reachability(agent) == "online").or_else(|| several.first());
    match best {
        Some(agent) => error.hint(format!("say which, as in `{}`", view.full_address(agent))),
        None => error,
    }
}

fn unknown(view: &View, address: &AgentAddress) -> ApiError {
    let elsewhere: Vec<&KnownAgent> =
        view.agents.iter().filter(|agent| agent.name == address.agent).collect();
    let (reason, near) = if elsewhere.is_empty() {
        (format!("no agent is called `{}`", address.agent), neighbours(view, &address.agent))
    } else {
        (format!("no agent is {address}; there is one of that name on another node"), elsewhere)
    };
    let mut error = ApiError::new(ErrorKind::NotFound, "unknown_target", reason);
    error.candidates = near.iter().take(SUGGESTIONS_MAX).map(|agent| candidate(view, agent)).collect();
    match near.first() {
        Some(agent) => error.hint(format!("did you mean `{}`?", view.address(agent))),
        None if view.agents.is_empty() => error
            .hint("no agent is configured: add an `[[agent]]` to config.toml on the node where it is to run"),
        None => error.hint("`mesh-cli who` lists the agents"),
    }
}

fn neighbours<'v>(view: &'v View, name: &Name) -> Vec<&'v KnownAgent> {
    let mut near: Vec<&KnownAgent> =
        view.agents.iter().filter(|agent| is_near(agent.name.as_str(), name.as_str())).collect();
    near.sort_by_key(|agent| strsim::damerau_levenshtein(agent.name.as_str(), name.as_str()));
    near
}

/// Two edits, or one the beginning of the other.
fn is_near(name: &str, text: &str) -> bool {
    let prefix = text.len() >= 3 && (name.starts_with(text) || text.starts_with(name));
    prefix || strsim::damerau_levenshtein(name, text) <= 2
}

fn candidate(view: &View, agent: &KnownAgent) -> Candidate {
    let reachability = view.reachability(agent).to_owned();
    Candidate { address: view.address(agent), full: view.full_address(agent), reachability }
}

#[cfg(test)]
mod tests;

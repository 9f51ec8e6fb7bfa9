//! Agents, as `who` shows them.

use mesh_protocol::api::ask::{AgentView, Whoami};
use mesh_protocol::policy::PermissionProfile;

use crate::foreign;
use crate::measure::ago;
use crate::style::{self, KEY, LITERAL};
use crate::table::{Align, Cell, Table, key_values};

/// All of them, a row each.
pub(crate) fn agents(agents: &[AgentView], now_ms: u64) -> String {
    if agents.is_empty() {
        return "no agents are known here\n".to_owned();
    }
    let mut table = Table::new([
        ("AGENT", Align::Left),
        ("NODE", Align::Left),
        ("STATE", Align::Left),
        ("PROFILE", Align::Left),
        ("DESCRIPTION", Align::Left),
        ("AS OF", Align::Left),
    ]);
    for agent in agents {
        table.row([
            Cell::styled(KEY, &agent.address),
            Cell::from(&agent.node_name),
            Cell::state(&agent.reachability),
            Cell::maybe(agent.profile.map(profile)),
            Cell::from(&agent.description),
            Cell::maybe(agent.as_of_ms.map(|then| ago(now_ms, then))),
        ]);
    }
    table.render()
}

/// One in full.
pub(crate) fn agent(agent: &AgentView, now_ms: u64) -> String {
    let mut state = style::paint(style::of_state(&agent.reachability), foreign::line(&agent.reachability));
    if let Some(reason) = &agent.reason {
        state.push_str(&format!(": {}", foreign::line(reason)));
    }
    let as_of = agent.as_of_ms.map_or_else(|| "-".to_owned(), |then| ago(now_ms, then));
    key_values(&[
        ("agent", style::paint(KEY, &agent.address)),
        ("in full", agent.full.to_string()),
        ("state", state),
        ("node", format!("{} {}", foreign::line(&agent.node_name), style::paint(LITERAL, agent.node))),
        ("run by", foreign::line(&agent.harness)),
        ("profile", agent.profile.map_or("-", profile).to_owned()),
        ("for", foreign::line(&agent.description)),
        ("as of", as_of),
    ])
}

/// The caller.
pub(crate) fn whoami(whoami: &Whoami) -> String {
    let may: Vec<String> = whoami.may.iter().map(|word| foreign::line(word)).collect();
    key_values(&[
        ("you are", style::paint(KEY, foreign::line(&whoami.principal))),
        ("on", format!("{} {}", foreign::line(&whoami.node_name), style::paint(LITERAL, whoami.node))),
        ("you may", if may.is_empty() { "-".to_owned() } else { may.join(", ") }),
    ])
}

const fn profile(profile: PermissionProfile) -> &'static str {
    match profile {
        PermissionProfile::Observe => "observe",
        PermissionProfile::Review => "review",
        PermissionProfile::WorkspaceWrite => "workspace_write",
        PermissionProfile::TrustedLocal => "trusted_local",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::specimen::{self, NOW, plain};

    #[test]
    fn agents_are_rows_with_the_address_to_type_first() {
        insta::assert_snapshot!(plain(&agents(&[specimen::agent("unreachable")], NOW)), @r"
        AGENT      NODE  STATE        PROFILE  DESCRIPTION  AS OF
        @reviewer  nova  unreachable  review   reads diffs  10m ago
        ");
    }

    #[test]
    fn one_agent_says_why_it_is_not_online() {
        let offline =
            AgentView { reason: Some("its program is not installed".into()), ..specimen::agent("offline") };
        let text = plain(&agent(&offline, NOW));
        assert!(text.contains("state    offline: its program is not installed"), "{text}");
    }
}

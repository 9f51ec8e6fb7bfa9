//! What a peer may do here.

use mesh_protocol::api::mesh::GrantReply;
use mesh_protocol::policy::{Grant, Permission, Trust};

use crate::foreign;
use crate::style::{self, KEY};

/// The permissions in a word where there is one, otherwise by name.
pub(crate) fn in_short(grant: &Grant) -> String {
    let preset = |trust| Grant::from(trust).permissions == grant.permissions;
    match grant.permissions.as_slice() {
        [] => "nothing".to_owned(),
        _ if preset(Trust::Mine) => "all".to_owned(),
        _ if preset(Trust::Team) => "team".to_owned(),
        permissions => names(permissions, ","),
    }
}

/// What a peer may do here, and what this node may do there if the peer has said so.
pub(crate) fn both_ways(here: &Grant, there: Option<&Grant>) -> String {
    format!("{}/{}", in_short(here), there.map_or_else(|| "-".to_owned(), in_short))
}

fn names(permissions: &[Permission], between: &str) -> String {
    let names: Vec<&str> = permissions.iter().map(|permission| permission.name()).collect();
    names.join(between)
}

/// The grant after a change, as a sentence.
pub(crate) fn changed(reply: &GrantReply) -> String {
    let name = style::paint(KEY, foreign::line(&reply.name));
    if reply.grant.permissions.is_empty() {
        return format!("{name} may do nothing here\n");
    }
    let agents = match &reply.grant.agents {
        None => "any agent shown to the mesh".to_owned(),
        Some(agents) if agents.is_empty() => "no agent".to_owned(),
        Some(agents) => {
            agents.iter().map(|agent| format!("@{}", foreign::line(agent))).collect::<Vec<_>>().join(", ")
        }
    };
    format!("{name} may here: {}; it reaches {agents}\n", names(&reply.grant.permissions, ", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::specimen::{self, plain};

    #[test]
    fn a_grant_is_said_in_full_after_each_change() {
        let mut reply =
            GrantReply { node: specimen::node(2), name: "nova".into(), grant: Trust::Team.into() };
        assert_eq!(
            plain(&changed(&reply)),
            "nova may here: resolve, message, ask; it reaches any agent shown to the mesh\n"
        );
        reply.grant = Trust::None.into();
        assert_eq!(plain(&changed(&reply)), "nova may do nothing here\n");
    }
}

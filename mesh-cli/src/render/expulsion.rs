//! What revoking, blocking and unblocking did.

use mesh_protocol::api::mesh::ExpelReply;

use crate::foreign;
use crate::measure::count;
use crate::style::{self, KEY};

/// One sentence: `nova is revoked, 1 link closed`. `state` is how the node is now.
pub(crate) fn expelled(reply: &ExpelReply, state: &str) -> String {
    let name = style::paint(KEY, foreign::line(&reply.name));
    if reply.already {
        return format!("{name} was {state} already\n");
    }
    let links = if reply.links_closed == 0 {
        String::new()
    } else {
        format!(", {} closed", count(reply.links_closed as u64, "link"))
    };
    format!("{name} is {state}{links}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::specimen::{self, plain};

    #[test]
    fn repeating_it_says_that_it_was_so() {
        let reply =
            ExpelReply { node: specimen::node(2), name: "nova".into(), already: false, links_closed: 1 };
        assert_eq!(plain(&expelled(&reply, "revoked")), "nova is revoked, 1 link closed\n");
        let again = ExpelReply { already: true, links_closed: 0, ..reply };
        assert_eq!(plain(&expelled(&again, "revoked")), "nova was revoked already\n");
    }
}

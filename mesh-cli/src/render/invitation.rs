//! A ticket: the line itself for standard output, and beside it what to do with it.

use mesh_protocol::api::mesh::InviteReply;

use crate::measure::rough;
use crate::style::{self, LITERAL};

/// What to do with the ticket. The ticket is not in it.
pub(crate) fn advice(invitation: &InviteReply, now_ms: u64) -> String {
    // The second in which the ticket was made counts.
    let left = rough(invitation.expires_at_ms.saturating_sub(now_ms) + 999);
    format!(
        "on the other machine type {} and paste the line below\n\
         it lets one node join, for {left}; until then it is a secret\n",
        style::paint(LITERAL, "`mesh-cli join -`"),
    )
}

#[cfg(test)]
mod tests {
    use mesh_protocol::id::TicketId;

    use super::*;
    use crate::render::specimen::{NOW, plain};

    #[test]
    fn the_advice_never_repeats_the_secret() {
        let invitation = InviteReply {
            ticket_id: TicketId::mint(NOW, [0; 10]),
            ticket: "mesh1secret".into(),
            expires_at_ms: NOW + 3_600_000,
        };
        let text = plain(&advice(&invitation, NOW));
        assert!(text.contains("for 1h"), "{text}");
        assert!(!text.contains("secret\u{0}") && !text.contains("mesh1"), "{text}");
    }
}

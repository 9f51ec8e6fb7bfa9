//! `invite` and `revoke`, against a stand-in: a secret and something that cannot be undone.

use mesh_protocol::api::mesh::{ExpelReply, InviteReply};
use mesh_protocol::id::{NodeId, TicketId};

use crate::command::Place;
use crate::stand_in::StandIn;

#[test]
fn a_ticket_alone_is_on_standard_output() {
    let place = Place::new();
    let ticket_id = TicketId::mint(0, [0; 10]);
    let expires_at_ms = 0;
    let invitation = InviteReply { ticket_id, ticket: "mesh1example".into(), expires_at_ms };
    StandIn::default().gives("POST /v1/tickets", &invitation).serve(&place);
    insta::assert_snapshot!(place.picture(&["invite", "--trust", "team"]), @r"
    exit code 0
    ----- stdout -----
    mesh1example
    ----- stderr -----
    on the other machine type `mesh-cli join -` and paste the line below
    it lets one node join, for 0s; until then it is a secret
    ");
}

#[test]
fn nobody_is_expelled_without_a_word() {
    let place = Place::new();
    let gone = ExpelReply {
        node: NodeId::from_bytes([2; 32]),
        name: "nova".into(),
        already: false,
        links_closed: 1,
    };
    let requests = StandIn::default().gives("POST /v1/revocations", &gone).serve(&place);
    insta::assert_snapshot!(place.picture(&["revoke", "nova"]), @r"
    exit code 4
    ----- stderr -----
    warning: nova will be expelled by every node, and cannot come back as it is
    error: this needs your word, and it was not given

    hint: add `--yes` to say it beforehand
    ");
    assert!(requests.all().is_empty());
    insta::assert_snapshot!(place.picture(&["revoke", "nova", "--yes", "--reason", "lost"]), @r"
    exit code 0
    ----- stdout -----
    nova is revoked, 1 link closed
    ");
    assert!(requests.all().remove(0).contains("\"reason\":\"lost\""));
}

//! Meshes too large for a link between every pair.

use mesh_protocol::peer::PeerState;
use mesh_simulations::members::Mesh;

use crate::{halves, heals_within};

fn is_linked(mesh: &Mesh, observer: usize, peer: usize) -> bool {
    mesh.view(observer, peer).is_some_and(|view| view.linked)
}

#[test]
fn a_hundred_nodes_join_keep_few_links_and_rest_cheaply() {
    let mut mesh = Mesh::joined_through_the_first(100, 0, 1);
    heals_within(&mut mesh, 5_000, "joining");
    mesh.run_for(90_000);
    let linked = |observer: usize| mesh.up().filter(|(peer, _)| is_linked(&mesh, observer, *peer)).count();
    let links: usize = (0..100).map(linked).sum();
    assert!((1_000..2_200).contains(&links), "{links} ends of links");
    let before = mesh.cost();
    mesh.run_for(60_000);
    let spent = mesh.cost() - before;
    let each = (spent.datagram_bytes + spent.exchange_bytes) / 60 / 100;
    assert!(each <= 150, "an idle node costs {each} B/s");
    assert_eq!(spent.dials, 0, "nobody dials in an idle mesh");
    assert_eq!(mesh.verdicts().count(), 0);
}

#[test]
fn sixty_nodes_in_halves_agree_within_two_seconds() {
    let mut mesh = Mesh::joined_through_the_first(60, 0, 2);
    heals_within(&mut mesh, 5_000, "joining");
    mesh.run_for(70_000);
    mesh.split(halves(60));
    mesh.run_for(30_000);
    (0..60).for_each(|index| mesh.change(index, 9));
    mesh.run_for(30_000);
    let across = mesh.verdicts().filter(|change| (change.peer < 30) == (change.observer < 30)).count();
    assert_eq!(across, 0, "nobody is blamed within a half");
    mesh.heal();
    let took = mesh.run_until(5_000, Mesh::has_every_record_everywhere);
    assert!(took.is_some_and(|ms| ms <= 2_000), "{took:?}");
    heals_within(&mut mesh, 5_000, "links");
}

#[test]
fn a_member_that_is_no_neighbour_is_linked_while_it_is_needed() {
    let mut mesh = Mesh::joined_through_the_first(60, 0, 3);
    heals_within(&mut mesh, 5_000, "joining");
    mesh.run_for(90_000);
    let far = |mesh: &Mesh| {
        let mut others = (1..60).filter(|peer| !is_linked(mesh, 0, *peer));
        others.next()
    };
    let peer = far(&mesh).unwrap();
    assert!(mesh.sees(0, peer, PeerState::Known));
    let needed = mesh_node_core::membership::Input::Needed(mesh.hosts[peer].id);
    mesh.feed(0, needed.clone());
    let linked = |mesh: &Mesh| is_linked(mesh, 0, peer);
    assert!(mesh.run_until(1_000, linked).is_some());
    for _ in 0..6 {
        mesh.run_for(40_000);
        mesh.feed(0, needed.clone());
    }
    assert!(linked(&mesh) && mesh.sees(0, peer, PeerState::Alive));
    mesh.run_for(200_000);
    assert!(!linked(&mesh) && mesh.sees(0, peer, PeerState::Known));
    assert_eq!(mesh.verdicts().count(), 0);
}

#[test]
fn a_member_that_is_no_neighbour_is_unreachable_by_ones_own_dials_only() {
    let mut mesh = Mesh::joined_through_the_first(60, 0, 4);
    heals_within(&mut mesh, 5_000, "joining");
    mesh.run_for(90_000);
    let peer = (1..60).find(|peer| !is_linked(&mesh, 0, *peer)).unwrap();
    mesh.crash(peer);
    mesh.run_for(120_000);
    assert!(mesh.sees(0, peer, PeerState::Known), "it never tried");
    assert!(mesh.verdicts().all(|change| change.peer == peer) && mesh.verdicts().count() > 5);
    mesh.feed(0, mesh_node_core::membership::Input::Needed(mesh.hosts[peer].id));
    let unreachable = |mesh: &Mesh| mesh.sees(0, peer, PeerState::Unreachable);
    assert!(mesh.run_until(60_000, unreachable).is_some());
    mesh.start(peer);
    heals_within(&mut mesh, 40_000, "it is back");
    assert!(mesh.run_until(40_000, |mesh| !unreachable(mesh)).is_some());
}

#[test]
fn a_crash_is_heard_of_by_everybody_and_judged_by_neighbours_only() {
    let mut mesh = Mesh::joined_through_the_first(60, 0, 5);
    heals_within(&mut mesh, 5_000, "joining");
    mesh.run_for(90_000);
    mesh.crash(7);
    let told = |mesh: &Mesh| mesh.up().all(|(observer, _)| mesh.finds_silent(observer, 7));
    let took = mesh.run_until(30_000, told);
    assert!(took.is_some_and(|ms| ms <= 20_000), "{took:?}");
    mesh.run_for(60_000);
    let judges = mesh.verdicts().filter(|change| change.peer == 7).count();
    assert!((5..40).contains(&judges), "{judges} judged");
    assert!(mesh.verdicts().all(|change| change.peer == 7));
}

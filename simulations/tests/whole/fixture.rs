//! Small worlds for single faults.

use std::time::Duration;

use mesh_node::service::{Principal, Service as _};
use mesh_protocol::api::ask::{AskCommand, FlightView, Receipt, SendRequest};
use mesh_protocol::api::error::ApiError;
use mesh_protocol::flight::FlightState;
use mesh_simulations::whole::World;
use mesh_simulations::whole::network::Weather;

pub(crate) const FAIR: Weather =
    Weather { lose: 0, repeat: 0, reorder: 0, latency_min_ms: 2, latency_max_ms: 20 };

/// Longer than a mesh of a few nodes takes to meet again after anything, in virtual milliseconds.
pub(crate) const SOON_MS: u64 = 60_000;

pub(crate) fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(future)
}

/// A mesh whose nodes have met.
pub(crate) async fn mesh(seed: u64, members: usize) -> World {
    let mut world = World::new(seed, members, FAIR).unwrap();
    world.start_all().await.unwrap();
    world.until_whole(SOON_MS).await.expect("a fair world meets");
    world
}

/// An ask's end.
pub(crate) async fn ended(world: &World, number: u64) -> FlightView {
    for _ in 0..SOON_MS / 100 {
        if let Some(flight) = world.flight(number).await.filter(|flight| flight.terminal) {
            return flight;
        }
        world.pass(100).await;
    }
    panic!("ask {number} does not end: {:?}", world.flight(number).await);
}

/// Asks and expects the answer.
pub(crate) async fn answered(world: &World, from: usize, to: usize) -> FlightView {
    let number = world.ask(from, to, 10);
    world.pass(5).await;
    let flight = ended(world, number).await;
    assert_eq!(flight.state, FlightState::Completed, "{flight:?}");
    flight
}

/// How often a message is recorded at a node.
pub(crate) async fn copies(world: &World, at: usize, number: u64) -> u64 {
    world.facts().await.unwrap()[&at].messages.get(&number).copied().unwrap_or(0)
}

/// Asks, and hands out what the caller is told at once.
pub(crate) async fn receipt(world: &World, from: usize, to: usize, task: &str) -> Result<Receipt, ApiError> {
    let command = AskCommand {
        to: format!("@worker.node:n{to}"),
        task: task.to_owned(),
        request_id: None,
        deadline_seconds: Some(60),
    };
    world.local(from).unwrap().ask(&Principal::Operator, command).await
}

/// Sends a body, and hands out what the caller is told at once.
pub(crate) async fn sent(world: &World, from: usize, to: usize, body: &str) -> Result<Receipt, ApiError> {
    let to = format!("@worker.node:n{to}");
    let request = SendRequest { to, body: body.to_owned(), request_id: None };
    world.local(from).unwrap().send(&Principal::Operator, request, Duration::ZERO).await
}

//! Whole nodes in virtual time.

use mesh_simulations::whole::World;
use mesh_simulations::whole::network::Weather;

const FAIR: Weather =
    Weather { lose: 0, repeat: 0, reorder: 0, latency_min_ms: 2, latency_max_ms: 20 };

fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(future)
}

#[test]
fn three_nodes_meet_and_one_asks_another() {
    let go = || {
        in_virtual_time(async {
            let mut world = World::new(1, 3, FAIR).unwrap();
            world.start_all().await.unwrap();
            let took = world.until_whole(20_000).await;
            println!("whole after {took:?} ms");
            let number = world.ask(0, 2, 100);
            world.pass(2_000).await;
            let flight = world.flight(number).await.unwrap();
            println!("{flight:?} {:?}", world.network().counts());
            assert!(flight.terminal);
            world.trace()
        })
    };
    assert_eq!(go(), go());
}

//! Faults drawn from seeds.

use mesh_simulations::whole::{Campaign, Scenario, operations, play, run, simulate};

/// Seeds of five nodes, when nobody asks for more.
const SEEDS: u64 = 200;
/// Tests they are shared by, so that one which is stuck is soon found, and named.
const PARTS: u64 = 8;

fn seeds(default: u64) -> u64 {
    std::env::var("MESH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn campaign(scenario: &str, seeds: u64) -> Campaign {
    Campaign { scenario: Scenario::find(scenario).unwrap(), from: 0, seeds }
}

fn nothing_breaks(part: u64) {
    let share = seeds(SEEDS).div_ceil(PARTS);
    let report = run(&Campaign { from: part * share, ..campaign("whole", share) }).unwrap();
    assert!(report.failures().next().is_none(), "{report}");
    // A quiet world would hold every invariant.
    let (total, runs) = (report.total(), report.outcomes.len() as u64);
    assert!(total.completed > 5 * runs && total.messages > 5 * runs && total.jobs > runs, "{report}");
    assert!(total.lives > 6 * runs, "{report}");
}

#[test]
fn splits_crashes_and_loss_break_nothing_in_the_first_part_of_the_seeds() {
    nothing_breaks(0);
}

#[test]
fn splits_crashes_and_loss_break_nothing_in_the_second_part_of_the_seeds() {
    nothing_breaks(1);
}

#[test]
fn splits_crashes_and_loss_break_nothing_in_the_third_part_of_the_seeds() {
    nothing_breaks(2);
}

#[test]
fn splits_crashes_and_loss_break_nothing_in_the_fourth_part_of_the_seeds() {
    nothing_breaks(3);
}

#[test]
fn splits_crashes_and_loss_break_nothing_in_the_fifth_part_of_the_seeds() {
    nothing_breaks(4);
}

#[test]
fn splits_crashes_and_loss_break_nothing_in_the_sixth_part_of_the_seeds() {
    nothing_breaks(5);
}

#[test]
fn splits_crashes_and_loss_break_nothing_in_the_seventh_part_of_the_seeds() {
    nothing_breaks(6);
}

#[test]
fn splits_crashes_and_loss_break_nothing_in_the_eighth_part_of_the_seeds() {
    nothing_breaks(7);
}

#[test]
fn a_home_that_runs_twice_is_noticed_and_nothing_is_lost_or_doubled_in_silence() {
    let report = run(&campaign("doubled", seeds(SEEDS).div_ceil(50))).unwrap();
    assert!(report.failures().next().is_none(), "{report}");
    assert!(report.total().lives > 4 * report.outcomes.len() as u64, "homes did run twice: {report}");
}

#[test]
fn every_kind_of_fault_together_breaks_nothing() {
    let report = run(&campaign("everything", seeds(SEEDS).div_ceil(50))).unwrap();
    assert!(report.failures().next().is_none(), "{report}");
    assert!(report.total().set_back > 0, "{report}");
}

#[test]
fn without_faults_nobody_is_called_unreachable_at_any_loss_of_packets() {
    for scenario in ["calm", "lossy"] {
        let report = run(&campaign(scenario, seeds(SEEDS).div_ceil(100))).unwrap();
        assert!(report.failures().next().is_none(), "{report}");
        // What did not complete was taken back by its caller.
        let total = report.total();
        assert!(total.completed * 10 > total.asks * 9, "{report}");
    }
}

#[test]
fn the_same_seed_goes_the_same_way_and_another_another() {
    let scenario = Scenario { seconds: 10, ..Scenario::find("everything").unwrap() };
    let trace = |seed| simulate(seed, &scenario).unwrap().trace;
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

#[test]
fn operations_come_from_the_seed_and_leaving_some_out_is_another_run() {
    let scenario = Scenario { seconds: 5, ..Scenario::find("whole").unwrap() };
    let list = operations(3, &scenario);
    assert_eq!(list, operations(3, &scenario));
    assert_ne!(list, operations(4, &scenario));
    let whole = play(3, &scenario, &list).unwrap();
    let fewer = play(3, &scenario, &list[..list.len() / 2]).unwrap();
    assert_ne!(whole.trace, fewer.trace);
}

#[test]
fn seeds_that_once_failed_hold() {
    let kept = include_str!("../../seeds/whole.txt").lines().filter(|line| !line.starts_with('#'));
    for line in kept {
        let mut words = line.split_whitespace();
        let (Some(seed), Some(scenario)) = (words.next(), words.next()) else { continue };
        let outcome = simulate(seed.parse().unwrap(), &Scenario::find(scenario).unwrap()).unwrap();
        assert!(outcome.broken.is_empty(), "seed {seed} of {scenario}: {:?}", outcome.broken);
    }
}

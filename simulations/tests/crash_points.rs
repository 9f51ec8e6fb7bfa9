//! Whole durable sides under crashes at every operation of their disks: what holds, and that the check can fail.
//!
//! `MESH_CRASH_POINTS=100000` runs more of them than the default, which is chosen to take seconds unoptimised.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use mesh_simulations::crash::{
    At, Campaign, Control, Point, Prepared, Report, Row, Scenario, Violation, is_long, run, simulate,
};

/// Points when nobody asks for more: spread over all scenarios, at a distance that meets every kind of operation.
const POINTS: usize = 200;

/// Points of one row's own test.
const POINTS_OF_A_ROW: usize = 72;

/// Points of one seed whose jobs go in parts.
const LONG_POINTS: usize = 4;

/// A distance between points that is in step with nothing.
const STRIDE: usize = 61;

/// Seeds after which the same scenario comes again.
const ROUND: u64 = Scenario::ALL.len() as u64;

fn clean(report: &Report) {
    assert!(report.failures.is_empty(), "{report}\n{:?}", report.failures);
    assert_eq!(report.reached, report.points, "every machine stopped where it should");
}

fn first_seed(scenario: Scenario) -> u64 {
    (0..ROUND).find(|seed| Scenario::of(*seed) == scenario).unwrap()
}

/// Points of one scenario: nothing breaks, and the row is met so often at least.
fn survives(row: Row, scenario: Scenario, stride: usize, at_least: u64) {
    let seed = first_seed(scenario);
    let campaign = Campaign { seed, points: POINTS_OF_A_ROW, stride, step: ROUND, control: Control::Honest };
    let report = run(campaign).unwrap();
    clean(&report);
    let met = report.rows.get(&row).copied().unwrap_or(0);
    assert!(met >= at_least, "{row:?} was met {met} times\n{report}");
}

#[test]
fn no_crash_loses_forgets_doubles_or_invents() {
    let asked = std::env::var("MESH_CRASH_POINTS").ok().and_then(|text| text.parse().ok());
    let campaign = Campaign { points: asked.unwrap_or(POINTS), stride: STRIDE, ..Campaign::default() };
    let report = run(campaign).unwrap();
    clean(&report);
    // A quiet model would hold every invariant.
    assert!(report.survived > 0 && report.checked > report.points, "{report}");
    assert!(report.completed > report.accepted / 3, "{report}");
}

#[test]
fn a_disk_that_lies_about_syncs_is_noticed() {
    let campaign = Campaign { points: 24, stride: 31, control: Control::LyingDisks, ..Campaign::default() };
    let report = run(campaign).unwrap();
    assert!(report.failures.len() > 8, "{report}");
    assert!(report.broke(Violation::Unreadable) + report.broke(Violation::LostCommit) > 4, "{report}");
}

#[test]
fn the_same_seed_and_point_go_the_same_way() {
    let prepared = Prepared::new().unwrap();
    let points =
        [None, Some(Point { side: 0, at: At::Operation(60) }), Some(Point { side: 1, at: At::Commit(9) })];
    let trace = |seed, point| simulate(&prepared, seed, point, Control::Honest).unwrap().trace;
    let traces = || [1, 9].map(|seed| points.map(|point| trace(seed, point)));
    let first = traces();
    assert_eq!(first, traces());
    let distinct: std::collections::BTreeSet<String> =
        first.iter().flatten().map(ToString::to_string).collect();
    assert_eq!(distinct.len(), 6, "other seeds and points go other ways");
}

/// Without a crash and without trouble everything that was accepted comes to its own end.
#[test]
fn a_quiet_run_completes_all_work() {
    let prepared = Prepared::new().unwrap();
    for seed in (0..10).map(|round| round * ROUND) {
        let outcome = simulate(&prepared, seed, None, Control::Honest).unwrap();
        assert!(outcome.violations.is_empty(), "seed {seed}: {:?}", outcome.violations);
        assert_eq!(outcome.work.0, outcome.work.1, "seed {seed}");
    }
}

/// Wall clocks a day off, and a machine that slept half an hour, charge no deadline: all of them are longer.
#[test]
fn clocks_that_are_set_and_machines_that_sleep_cost_no_work() {
    let prepared = Prepared::new().unwrap();
    for scenario in [Scenario::Clocks, Scenario::Asleep] {
        let first = first_seed(scenario);
        for seed in (0..10).map(|round| first + round * ROUND) {
            let outcome = simulate(&prepared, seed, None, Control::Honest).unwrap();
            assert!(outcome.violations.is_empty(), "seed {seed}: {:?}", outcome.violations);
            assert_eq!(outcome.work.0, outcome.work.1, "seed {seed} of {scenario:?}");
        }
    }
}

#[test]
fn crashes_while_clocks_are_set_or_machines_sleep_lose_and_repeat_nothing() {
    for scenario in [Scenario::Clocks, Scenario::Asleep] {
        survives(Row::L1, scenario, 29, 20);
    }
}

/// Both ways of such a job are longer than a parcel: every part of it, its last word and what is put together of them
/// is met by some point.
#[test]
fn crashes_while_a_job_and_its_files_go_in_parts_lose_mangle_and_repeat_nothing() {
    let prepared = Prepared::new().unwrap();
    let long = (0..u64::MAX).filter(|seed| is_long(*seed)).take(Scenario::ALL.len());
    for seed in long.step_by(3) {
        let outcome = simulate(&prepared, seed, None, Control::Honest).unwrap();
        assert!(outcome.violations.is_empty(), "seed {seed}: {:?}", outcome.violations);
        let campaign = Campaign { seed, points: LONG_POINTS, stride: 17, ..Campaign::default() };
        clean(&run(campaign).unwrap());
    }
}

#[test]
fn points_that_once_failed_hold() {
    let prepared = Prepared::new().unwrap();
    let lines = include_str!("../seeds/crash_points.txt").lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let mut words = line.split_whitespace();
        let (Some(seed), Some(point)) = (words.next(), words.next()) else { continue };
        let (seed, point) = (seed.parse().unwrap(), point.parse().unwrap());
        let outcome = simulate(&prepared, seed, Some(point), Control::Honest).unwrap();
        assert!(outcome.violations.is_empty(), "{line}: {:?}", outcome.violations);
    }
}

#[test]
fn s1_a_crash_before_the_commit_that_publishes() {
    survives(Row::S1, Scenario::Quiet, 3, 1);
}

#[test]
fn s2_a_crash_during_the_commit_that_publishes() {
    survives(Row::S2, Scenario::Quiet, 5, 5);
}

#[test]
fn s3_a_crash_before_the_caller_is_told() {
    boundaries(0, Row::S3);
}

#[test]
fn s4_a_commit_that_fails_is_looked_up_and_work_goes_on() {
    survives(Row::S4, Scenario::FailingSender, 37, 2);
}

#[test]
fn s5_a_crash_before_a_parcel_is_sent() {
    survives(Row::S5, Scenario::Cut, 7, 3);
}

#[test]
fn s6_a_crash_before_a_parcel_is_acknowledged() {
    survives(Row::S6, Scenario::Quiet, 7, 3);
}

#[test]
fn s7_a_crash_before_the_acknowledgement_is_recorded() {
    survives(Row::S7, Scenario::Quiet, 5, 3);
}

#[test]
fn s8_a_restored_sender() {
    survives(Row::S8, Scenario::RestoredSender, 29, 12);
}

#[test]
fn r1_a_crash_before_a_parcel_is_committed() {
    survives(Row::R1, Scenario::Cut, 19, 1);
}

#[test]
fn r2_a_crash_during_the_commit_of_a_parcel() {
    survives(Row::R2, Scenario::Quiet, 7, 3);
}

#[test]
fn r3_a_crash_before_the_acknowledgement_is_sent() {
    boundaries(1, Row::R3);
}

#[test]
fn r4_an_acknowledgement_that_is_lost() {
    survives(Row::R4, Scenario::Cut, 41, 3);
}

#[test]
fn r5_a_crash_before_what_a_parcel_asks_for_begins() {
    boundaries(1, Row::R5);
}

#[test]
fn r6_a_crash_before_an_effect_is_committed() {
    survives(Row::R6, Scenario::Withdrawn, 7, 3);
}

#[test]
fn r7_a_crash_before_the_end_of_an_effect_outside_is_recorded() {
    survives(Row::R7, Scenario::Clocks, 29, 1);
}

#[test]
fn r8_a_crash_before_the_answer_of_a_recorded_end_is_sent() {
    boundaries(1, Row::R8);
}

#[test]
fn r9_a_restored_receiver() {
    survives(Row::R9, Scenario::RestoredReceiver, 29, 12);
}

#[test]
fn r10_a_receiver_whose_disk_is_full() {
    survives(Row::R10, Scenario::FullReceiver, 61, 3);
}

#[test]
fn l1_a_link_that_is_lost() {
    survives(Row::L1, Scenario::Cut, 9, 20);
}

#[test]
fn l2_a_peer_that_is_blocked_or_revoked() {
    survives(Row::L2, Scenario::Blocked, 29, 12);
    survives(Row::L2, Scenario::Revoked, 29, 12);
}

#[test]
fn l3_a_message_that_expires_before_it_is_sent() {
    survives(Row::L3, Scenario::Cut, 9, 12);
}

/// Every boundary between a commit and its actions, of one side, in quiet runs: nothing breaks, and the row is met.
fn boundaries(side: usize, row: Row) {
    let prepared = Prepared::new().unwrap();
    let mut met = 0;
    for seed in [0, ROUND] {
        let whole = simulate(&prepared, seed, None, Control::Honest).unwrap();
        for commit in 1..=whole.commits[side] {
            let point = Point { side, at: At::Commit(commit) };
            let outcome = simulate(&prepared, seed, Some(point), Control::Honest).unwrap();
            assert!(outcome.violations.is_empty(), "seed {seed} at {point}: {:?}", outcome.violations);
            met += u32::from(outcome.rows.contains(&row));
        }
    }
    assert!(met > 0, "{row:?} was not met");
}

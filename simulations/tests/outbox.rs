//! Delivery under random schedules: what holds, and that the model would notice if it did not.
//!
//! `MESH_SCHEDULES=100000` runs more of them than the default, which is chosen to take seconds unoptimised.

use mesh_simulations::outbox::{Campaign, Mutant, Violation, run, simulate};

/// Schedules without a mistake, when nobody asks for more.
const SCHEDULES: u64 = 2_000;

/// Schedules after which a mutant should have been noticed: several times what the most elusive one takes.
const SCHEDULES_TO_CATCH: u64 = 2_000;

fn schedules() -> u64 {
    std::env::var("MESH_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(SCHEDULES)
}

#[test]
fn nothing_is_lost_doubled_reordered_or_invented() {
    let report = run(Campaign { seed: 0, schedules: schedules(), mutant: None }).unwrap();
    assert!(report.violations.is_empty(), "{report}");
    // A quiet model would hold every invariant.
    assert!(report.effects > report.schedules && report.crashes > report.schedules / 2, "{report}");
    assert!(report.never_sent > 0 && report.never_arrived > 0 && report.rollbacks_found > 0, "{report}");
    assert!(report.gaps > 0, "{report}");
}

#[test]
fn the_same_seed_goes_the_same_way() {
    let traces = || (0..50).map(|seed| simulate(seed, None).unwrap().trace).collect::<Vec<_>>();
    let first = traces();
    assert_eq!(first, traces());
    assert_ne!(first.first(), first.last());
}

#[test]
fn seeds_that_once_failed_hold() {
    let seeds = include_str!("../seeds/outbox.txt").lines().filter(|line| !line.starts_with('#'));
    for seed in seeds.filter_map(|line| line.split_whitespace().next()) {
        let outcome = simulate(seed.parse().unwrap(), None).unwrap();
        assert!(outcome.violations.is_empty(), "seed {seed}: {:?}", outcome.violations);
    }
}

/// The first seed with which this mistake breaks this invariant.
fn catches(mutant: Mutant, expected: Violation) {
    let caught = (0..SCHEDULES_TO_CATCH).find(|seed| {
        simulate(*seed, Some(mutant)).is_ok_and(|outcome| outcome.violations.contains(&expected))
    });
    assert!(caught.is_some(), "{mutant:?} went unnoticed");
}

#[test]
fn a_counter_without_a_chain_loses_messages_of_a_restored_sender() {
    catches(Mutant::CounterWithoutChain, Violation::SilentLoss);
}

#[test]
fn without_a_check_of_epochs_a_restored_sender_loses_messages() {
    catches(Mutant::NoEpochCheck, Violation::SilentLoss);
}

#[test]
fn without_reports_a_restored_receiver_loses_messages_silently() {
    catches(Mutant::RollbackUnreported, Violation::SilentLoss);
}

#[test]
fn a_receiver_that_accepts_holes_loses_messages() {
    catches(Mutant::AcceptsHoles, Violation::SilentLoss);
}

#[test]
fn marks_kept_in_memory_double_effects() {
    catches(Mutant::MarkInMemory, Violation::DoubleEffect);
}

#[test]
fn effects_outside_the_commit_are_doubled() {
    catches(Mutant::EffectOutsideTransaction, Violation::DoubleEffect);
}

#[test]
fn a_mark_committed_before_its_effect_loses_it() {
    catches(Mutant::MarkBeforeEffect, Violation::SilentLoss);
}

#[test]
fn an_acknowledgement_before_the_commit_is_a_false_delivery() {
    catches(Mutant::AckBeforeCommit, Violation::FalseDelivery);
}

#[test]
fn a_parcel_sent_before_its_commit_looks_like_a_restored_disk() {
    catches(Mutant::SendBeforeCommit, Violation::InventedRollback);
}

#[test]
fn without_the_fence_never_arrived_is_false() {
    catches(Mutant::NoFence, Violation::FalseClaim);
}

#[test]
fn without_remembered_messages_a_restored_sender_doubles_effects() {
    catches(Mutant::ForgetsMessages, Violation::DoubleEffect);
}

#[test]
fn a_timeout_is_no_proof_that_nothing_ran() {
    catches(Mutant::TimeoutMeansNotRun, Violation::FalseClaim);
}

#[test]
fn every_mutant_can_be_named_on_the_command_line() {
    for mutant in Mutant::ALL {
        assert_eq!(Mutant::named(&format!("{mutant:?}")), Some(mutant));
    }
}

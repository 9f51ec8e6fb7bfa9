//! `setup`: a plan before anything is changed. What the plan holds depends on the machine the test runs on.

use crate::command::Place;

#[test]
fn a_dry_run_prints_a_plan_and_changes_nothing() {
    let place = Place::new();
    let output = place.program(&["setup", "gvisor", "--dry-run"]).output().unwrap();
    let plan = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    let nothing = plan == "nothing to do: this machine has what jobs need\n";
    assert!(nothing || plan.starts_with("[1/"), "{plan}");
    assert!(!place.home().exists());
}

#[test]
fn a_dry_run_for_programs_is_one_document() {
    let output = Place::new().program(&["--json", "setup", "gvisor", "--dry-run"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema_version"], 1);
    assert!(document["data"].is_array());
}

//! `check`: what it finds on a machine with a sandbox, and on one without.

use serde_json::Value;

use crate::command::Place;

/// The checks that were printed, and whether they are well.
fn check(place: &Place) -> (Vec<Value>, bool) {
    let output = place.program(&["--json", "check"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    (document["data"].as_array().unwrap().clone(), output.status.success())
}

#[test]
fn every_probe_of_a_machine_with_a_sandbox_is_told_and_nothing_is_left_running() {
    if std::process::Command::new("runsc").arg("--version").output().is_err() {
        assert!(std::env::var_os("MESH_REQUIRE_SANDBOX").is_none(), "no runsc on this machine");
        eprintln!("SKIPPED: no runsc on this machine");
        return;
    }
    let place = Place::new();
    let (checks, well) = check(&place);
    assert!(well, "{checks:?}");
    assert!(checks.len() > 5, "{checks:?}");
    let last = checks.last().unwrap();
    assert_eq!(last["name"], "sandbox");
    assert!(last["finding"].as_str().unwrap().contains("gvisor-application-kernel"), "{last}");
    assert!(!place.home().join("check").exists());
}

#[test]
fn a_machine_without_a_runtime_is_a_negative_answer_with_a_fix() {
    let place = Place::new();
    std::fs::create_dir_all(place.home()).unwrap();
    let runsc = place.home().join("no-such-runsc");
    let config = format!("[executor]\nrunsc = {runsc:?}\n");
    std::fs::write(place.home().join("config.toml"), config).unwrap();
    make_private(&place.home());
    let (checks, well) = check(&place);
    assert!(!well);
    let failed: Vec<&Value> = checks.iter().filter(|check| check["verdict"] == "fail").collect();
    assert!(!failed.is_empty() && failed.iter().all(|check| check["fix"].is_string()), "{checks:?}");
}

fn make_private(directory: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).unwrap();
}

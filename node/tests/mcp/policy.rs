//! What the operator sets in the environment, and what becomes of contradictions.

use std::ffi::OsString;

use mesh_node::mcp::{Policy, PolicyError};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::Language;
use proptest::prelude::*;

fn read(variables: &[(&str, &str)]) -> Result<Policy, PolicyError> {
    Policy::from_environment(|name| {
        variables.iter().find(|(set, _)| *set == name).map(|(_, value)| OsString::from(value))
    })
}

#[test]
fn nothing_set_means_gvisor_every_language_and_the_nodes_own_choice() {
    let policy = read(&[]).unwrap();
    assert_eq!(policy, Policy::default());
    assert_eq!(policy.minimum_isolation, IsolationClass::GvisorApplicationKernel);
}

#[test]
fn either_spelling_sets_and_the_same_value_twice_is_no_conflict() {
    let ours = [
        ("MESH_MCP_MINIMUM_ISOLATION", "linux-shared-kernel"),
        ("MESH_MCP_ALLOWED_LANGUAGES", "bash, python"),
    ];
    let theirs = [
        ("ROOKHOLD_MCP_MINIMUM_ISOLATION", "linux-shared-kernel"),
        ("ROOKHOLD_MCP_ALLOWED_LANGUAGES", "python,bash"),
    ];
    let policy = read(&ours).unwrap();
    assert_eq!(policy, read(&theirs).unwrap());
    assert_eq!(policy.minimum_isolation, IsolationClass::LinuxSharedKernel);
    assert_eq!(policy.allowed_languages, [Language::Python, Language::Bash].into());
    let both = [("MESH_MCP_EXECUTOR", "atlas"), ("ROOKHOLD_MCP_EXECUTOR", "atlas")];
    assert_eq!(read(&both).unwrap().executor.as_deref(), Some("atlas"));
}

proptest! {
    #[test]
    fn different_values_name_both_variables_and_neither_value(one in "[a-z0-9]{8,20}", other in "[a-z0-9]{8,20}") {
        prop_assume!(one != other);
        let error = read(&[("MESH_MCP_EXECUTOR", &one), ("ROOKHOLD_MCP_EXECUTOR", &other)]).unwrap_err();
        let said = format!("{error} {error:?} {}", error.hint());
        prop_assert!(said.contains("MESH_MCP_EXECUTOR") && said.contains("ROOKHOLD_MCP_EXECUTOR"));
        prop_assert!(!said.contains(&one) && !said.contains(&other));
    }
}

#[test]
fn a_value_that_is_not_understood_stops_the_start_and_is_not_repeated() {
    for (name, value) in
        [("MESH_MCP_MINIMUM_ISOLATION", "none-at-all"), ("ROOKHOLD_MCP_ALLOWED_LANGUAGES", "perl")]
    {
        let error = read(&[(name, value)]).unwrap_err();
        assert!(error.to_string().contains(name) && !error.to_string().contains(value), "{error}");
    }
}

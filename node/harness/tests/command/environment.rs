//! What a program sees of this process's environment. The engine's process is one of its own, whose environment the
//! test chooses.

use std::collections::BTreeSet;
use std::process::Command;

use mesh_harness::{CommandSpec, Secret};

use super::shell::{reply, run, task};

#[test]
fn a_program_sees_the_allow_list_and_what_was_given_to_it_and_nothing_else() {
    let owner = std::env::current_exe().unwrap();
    let output = Command::new(owner)
        .args(["--exact", "environment::prints_what_a_program_sees", "--ignored", "--nocapture"])
        .env_clear()
        .envs(["HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER"].map(|name| (name, "/tmp")))
        .env("PATH", "/usr/bin:/bin")
        .envs([("MODE", "plain"), ("MODEL", "canary"), ("GITHUB_TOKEN", "canary"), ("LC_CTYPE", "canary")])
        .output()
        .unwrap();

    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let seen: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("sees ")).collect();
    let expected = [
        "HOME=/tmp",
        "LANG=/tmp",
        "LC_ALL=/tmp",
        "MODE=plain",
        "PATH=/usr/bin:/bin",
        "SESSION=tok-12345",
        "TMPDIR=/tmp",
        "TZ=/tmp",
        "USER=of the run",
    ];
    assert_eq!(seen, BTreeSet::from(expected));
}

#[tokio::test]
#[ignore = "started by another test, in an environment of its own"]
async fn prints_what_a_program_sees() {
    let spec = CommandSpec::new("env", "/").with_passed_variables(["MODE", "NOT_SET"]);
    let task = task("").with_variable("SESSION", Secret::new("tok-12345")).unwrap();
    let task = task.with_variable("USER", Secret::new("of the run")).unwrap();
    for line in reply(run(spec, task).await).lines() {
        println!("\nsees {line}");
    }
}

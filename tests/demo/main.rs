//! The demo as a whole: the real program, three real nodes, a real job in gVisor.
//!
//! Every run has a temporary folder of its own, so what it leaves behind can be told from everything else. Where gVisor
//! is not installed the job's part says `SKIPPED`; with `MESH_REQUIRE_SANDBOX=1` that fails instead.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own preparation fails")]
#![expect(clippy::print_stderr, reason = "a test that skips itself says so")]

mod counting;
mod run;

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use counting::counted;
use run::{Place, step};

const PROSE: &str = "Lanterns answer lanterns.\nNothing is told twice, nothing is lost;\nlanterns keep it.\n";
const VERSE: &str = "beacon harbour beacon\n\n  \u{e9}toile, beacon! harbour; (harbour) harbour\tkeeper";

/// A run over `text`, judged: every step held, and the answers are what is in the text.
fn judged(place: &Place, text: &str, more: &[&str]) -> Value {
    let file = place.file("text", text);
    let report = place.report(&[&["--input", file.to_str().unwrap()], more].concat());
    assert_eq!(report["ok"], true, "{report:#}");
    let names: Vec<_> = report["steps"].as_array().unwrap().iter().map(|step| &step["name"]).collect();
    assert_eq!(names, ["found", "look", "ask", "verify", "hold", "resume"]);
    assert!(report["steps"].as_array().unwrap().iter().all(|step| step["ok"] == true));
    let expected = counted(text);
    for name in ["ask", "resume"] {
        assert_eq!(step(&report, name)["found"]["answer"]["counts"], expected, "{name}");
    }
    report
}

/// The job's evidence, or a word that there was no sandbox for a job.
fn the_evidence_is_authentic_and_complete(report: &Value) {
    let job = &step(report, "ask")["found"]["answer"]["job"];
    let verify = step(report, "verify");
    if let Some(skipped) = verify.get("skipped") {
        assert!(std::env::var_os("MESH_REQUIRE_SANDBOX").is_none(), "{skipped}");
        assert!(job.is_null() && skipped["fix"] == "mesh-cli setup gvisor", "{report:#}");
        eprintln!("SKIPPED: the job of the demo: {}", skipped["why"].as_str().unwrap());
        return;
    }
    let nodes = &step(report, "found")["found"]["nodes"];
    let (nova, proof) = (&nodes[1]["node"], &verify["found"]);
    assert_eq!((&proof["job"], &proof["node"], &proof["node_name"]), (job, nova, &"nova".into()));
    let verdict = &proof["verdict"];
    assert_eq!(verdict["verified"], true);
    let claims = &verdict["claims"];
    assert_eq!((&claims["signers"][0], &claims["job"]), (nova, job));
    assert_eq!((&claims["outcome"], &claims["exit_code"]), (&"succeeded".into(), &0.into()));
    assert_eq!(claims["isolation"], "gvisor-application-kernel");
    for what in ["evidence_complete", "event_chain_complete", "events_checked", "output_checked"] {
        assert_eq!(claims[what], true, "{what}");
    }
    assert_eq!(proof["attestation"]["state"], "verified");
}

#[test]
fn every_step_holds_and_nothing_is_left() {
    let place = Place::new();
    let report = judged(&place, PROSE, &[]);
    the_evidence_is_authentic_and_complete(&report);

    let found = &step(&report, "found")["found"];
    let names: Vec<_> = found["nodes"].as_array().unwrap().iter().map(|node| &node["name"]).collect();
    assert_eq!(names, ["atlas", "nova", "vega"]);
    assert_eq!(found["tickets"], 2);
    let peers = step(&report, "look")["found"]["status"]["peers"].as_array().unwrap();
    assert!(peers.len() == 2 && peers.iter().all(|peer| peer["state"] == "alive"), "{peers:?}");

    let hold = &step(&report, "hold")["found"];
    let held = &hold["receipt"]["held"];
    assert_eq!((&held["state"], &held["queued"]), (&"unreachable".into(), &1.into()));
    assert!(held["since_ms"].is_u64() && !held["cause"].as_str().unwrap().is_empty(), "{held}");
    assert!(held["queued_bytes"].as_u64().unwrap() > PROSE.len() as u64, "{held}");
    let resumed = &step(&report, "resume")["found"];
    assert_eq!((&resumed["runs"], &resumed["flight"]), (&1.into(), &hold["receipt"]["flight_id"]));

    place.holds_only(&["text"]);
}

#[test]
fn another_text_gets_another_answer_and_kept_nodes_go_on_until_they_are_told() {
    let place = Place::new();
    let report = judged(&place, VERSE, &["--keep"]);
    assert_ne!(counted(VERSE), counted(PROSE));
    let homes = report["left"]["homes"].as_array().unwrap();
    assert_eq!(homes.len(), 3);
    for home in homes.iter().map(|home| home.as_str().unwrap()) {
        let status = place.document(&["--home", home, "status"]);
        assert!(Path::new(home).ends_with(status["name"].as_str().unwrap()), "{status}");
    }
    for home in homes.iter().map(|home| home.as_str().unwrap()) {
        assert!(place.program(&["--home", home, "down"]).status().unwrap().success());
    }
    std::fs::remove_dir_all(report["left"]["folder"].as_str().unwrap()).unwrap();
    place.holds_only(&["text"]);
}

#[test]
fn told_to_stop_half_way_it_leaves_nothing() {
    let place = Place::new();
    let mut demo = place.program(&["demo"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // All three run when this is said.
    run::wait_for_line(demo.stderr.as_mut().unwrap(), "waiting until all see each other");
    let processes = place.processes();
    let nodes = processes.iter().filter(|(_, line)| line.contains("up --foreground"));
    assert_eq!(nodes.count(), 3, "{processes:?}");
    kill_process(Pid::from_child(&demo), Signal::TERM).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    place.holds_only(&[]);
}

#[test]
fn a_text_that_is_not_there_is_wrong_usage_and_starts_nothing() {
    let place = Place::new();
    let output = place.program(&["demo", "--input", "absent.txt"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read absent.txt"), "{output:?}");
    assert!(output.stdout.is_empty());
    place.holds_only(&[]);
}

#[test]
fn without_gvisor_the_demo_allows_its_own_nodes_the_hosts_kernel_and_says_so() {
    if !rustix::process::geteuid().is_root() || !Path::new("/usr/bin/bwrap").exists() {
        assert!(std::env::var_os("MESH_REQUIRE_SANDBOX").is_none(), "needs root and bubblewrap");
        eprintln!(
            "SKIPPED: the demo in the weaker class: gVisor is hidden as root, and bubblewrap is needed"
        );
        return;
    }
    let place = Place::new();
    let demo = place.program(&["demo"]);
    // In a mount namespace of its own the runtime is a file that is no program.
    let hide = "runsc=$(command -v runsc) && mount --bind /dev/null \"$runsc\"; exec \"$0\" demo";
    let mut hidden = std::process::Command::new("unshare");
    hidden.args(["--mount", "sh", "-c", hide]).arg(demo.get_program()).env_clear();
    let variables = demo.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let output = hidden.envs(variables).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("linux-shared-kernel") && words.contains("a weaker class"), "{said}");
    assert!(words.contains("in a sandbox on nova"), "{said}");
}

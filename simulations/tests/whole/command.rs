//! The program around the seeds.

use std::process::Command;

fn program(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_mesh-simulations")).args(arguments).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// A world that has no time to come to rest: what it breaks is known before.
const HOPELESS: &str = "
nodes = 2
seconds = 4
heal_seconds = 0
latency_ms = [2, 20]
work_per_second = 5.0
faults_per_second = 1.0
faults = ['slow_disk']
";

#[test]
fn a_failing_seed_prints_the_one_command_that_replays_it() {
    let directory = std::env::temp_dir().join(format!("mesh-simulations-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("hopeless.toml");
    std::fs::write(&file, HOPELESS.replace("heal_seconds = 0", "heal_seconds = 0\nlose = 1000")).unwrap();
    let file = file.to_str().unwrap();
    let (held, printed) = program(&["run", "--seeds", "1", "--from", "5", "--scenario", file]);
    assert!(!held && printed.contains("BROKEN with seed 5"), "{printed}");
    let command = printed.lines().find_map(|line| line.strip_prefix("replay: ")).expect("a command");
    let arguments: Vec<&str> = command.split_once(" -- ").expect("arguments").1.split(' ').collect();
    let (held, replayed) = program(&arguments);
    assert!(!held, "{replayed}");
    let broken = |text: &str, mark: &str| -> Vec<String> {
        text.lines().filter_map(|line| Some(line.split_once(mark)?.1.to_owned())).collect()
    };
    assert_eq!(broken(&printed, "seed 5: "), broken(&replayed, "BROKEN "));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_seed_that_breaks_nothing_is_a_success_and_needs_no_shrinking() {
    let directory = std::env::temp_dir().join(format!("mesh-simulations-{}-well", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("well.toml");
    std::fs::write(&file, HOPELESS.replace("heal_seconds = 0", "heal_seconds = 100")).unwrap();
    let file = file.to_str().unwrap();
    let (held, printed) = program(&["run", "--seeds", "1", "--scenario", file]);
    assert!(held && !printed.contains("BROKEN"), "{printed}");
    let (held, printed) = program(&["shrink", "--seed", "0", "--scenario", file]);
    assert!(held && printed.contains("breaks nothing"), "{printed}");
    std::fs::remove_dir_all(&directory).unwrap();
}

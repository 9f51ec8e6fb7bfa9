//! A process is killed again and again, also while a round of its journal goes into the tree, and nothing it acknowledged
//! is missing afterwards.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use mesh_node::storage::Database;
use mesh_node::writer::start;
use mesh_node_core::store::get;

use super::machine::{Ballast, Event, Recorder, core_over, value};

const DATABASE: &str = "CRASH_TEST_DATABASE";
const ROUNDS: usize = 12;
const SUBMITTERS: u64 = 8;
/// So many that a round of the journal is over after twenty.
const BALLAST_BYTES: usize = 100_000;

/// Counts up and prints each acknowledged value, until it is killed.
#[tokio::test]
#[ignore = "the child of the test below; endless"]
async fn child() {
    let Some(path) = std::env::var_os(DATABASE).map(PathBuf::from) else { return };
    let database = Arc::new(Database::open_file(&path).unwrap());
    let recorder = Recorder::new(&database);
    let (handle, _writer) = start(core_over(database, recorder)).unwrap();
    for counter in 0..SUBMITTERS {
        let handle = handle.clone();
        tokio::spawn(async move {
            loop {
                let value = handle.submit(Event::AddWithBallast(counter, BALLAST_BYTES), 100).await.unwrap();
                io::stdout().write_all(format!("ack {counter} {value}\n").as_bytes()).unwrap();
            }
        });
    }
    std::future::pending().await
}

/// Runs the child until it has acknowledged this many, kills it, and adds the last value of each counter.
fn run_and_kill(path: &PathBuf, acks: usize, acknowledged: &mut BTreeMap<u64, u64>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--ignored", "--nocapture"])
        .env(DATABASE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let parse = |line: String| {
        let (_, ack) = line.split_once("ack ")?;
        let (counter, value) = ack.split_once(' ')?;
        Some((counter.parse::<u64>().ok()?, value.parse::<u64>().ok()?))
    };
    acknowledged.extend(lines.by_ref().filter_map(parse).take(acks));
    child.kill().unwrap();
    // What it printed before it died is acknowledged too.
    acknowledged.extend(lines.filter_map(parse));
    child.wait().unwrap();
}

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("mesh.redb");
    drop(Database::create_file(&path).unwrap());
    let mut acknowledged = BTreeMap::new();
    for round in 0..ROUNDS {
        let before: u64 = acknowledged.values().sum();
        run_and_kill(&path, 20 + 13 * round, &mut acknowledged);
        assert!(acknowledged.values().sum::<u64>() > before, "the child acknowledged something");
        let database = Database::open_file(&path).unwrap();
        for (counter, value_acknowledged) in &acknowledged {
            let kept = value(&database, *counter).unwrap_or(0);
            assert!(kept >= *value_acknowledged, "round {round}: {kept} of {value_acknowledged}");
            let ballast = get::<Ballast>(&database.snapshot().unwrap(), counter).unwrap();
            let whole = ballast.is_some_and(|Ballast(bytes)| bytes == [kept.to_le_bytes()[0]; BALLAST_BYTES]);
            assert!(whole, "round {round}: what was written with {kept} is not there");
        }
    }
}

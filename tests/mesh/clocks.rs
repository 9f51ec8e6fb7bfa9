//! Wall clocks that are set under a running node, and processes that do not run for a while.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mesh_protocol::flight::FlightOutcome;
use mesh_tests::network::{Network, skipped};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::load::{Round, noting};
use crate::node::{NO_JOBS, Node, agent, lines};

/// A wall clock that is set by writing to a file (libfaketime). Boot time and waits stay the system's.
struct WallClock(PathBuf);

impl WallClock {
    /// `None` where the library is not installed, having said so.
    fn of(node: &mut Node, file: &Path) -> Option<Self> {
        let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().filter_map(Result::ok);
        let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
        let Some(library) = libraries.find(|library| library.exists()) else {
            skipped::<()>("no libfaketime: the wall clock cannot be set for one process").unwrap();
            return None;
        };
        let clock = Self(file.to_owned());
        clock.set("+0");
        node.environment = vec![
            ("LD_PRELOAD", library.into()),
            ("FAKETIME_TIMESTAMP_FILE", file.into()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ];
        Some(clock)
    }

    /// Moves it so far from the system's.
    fn set(&self, offset: &str) {
        let next = self.0.with_extension("next");
        std::fs::write(&next, offset).unwrap();
        std::fs::rename(next, &self.0).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_set_a_day_on_or_back_costs_no_link_and_loses_and_repeats_nothing() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), network.host(0), "atlas", &noting(root.path(), "atlas")).await;
    let mut nova = atlas.join(root.path(), network.host(1), "nova", &noting(root.path(), "nova")).await;
    nova.kill();
    let Some(clock) = WallClock::of(&mut nova, &root.path().join("wall")) else { return };
    nova.start().await;
    nova.peer_when("atlas", "linked", |peer| peer.path.is_some()).await;
    atlas.peer_when("nova", "linked", |peer| peer.path.is_some()).await;
    let taken_in = async |node: &Node| node.client.status().await.unwrap().connections.accepted;
    let before = [taken_in(&atlas).await, taken_in(&nova).await];

    for (number, offset) in ["+86400", "-86400", "+0"].into_iter().enumerate() {
        let round = Round::begin(number, &atlas, &nova);
        round.reached(10).await;
        clock.set(offset);
        nova.status_when("it noticed", |status| {
            status.warnings.iter().any(|warning| warning.contains("the wall clock jumped"))
        })
        .await;
        let (_, cut) = round.settle(root.path(), &atlas, &nova).await;
        assert_eq!(cut, 0, "nothing was interrupted");
        for (node, peer) in [(&atlas, "nova"), (&nova, "atlas")] {
            let seen = node.peer_when(peer, "as it was", |_| true).await;
            assert_eq!(seen.state, "alive", "{offset}: {seen:?}");
        }
    }
    assert_eq!([taken_in(&atlas).await, taken_in(&nova).await], before, "nobody had to connect again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_for_a_while_loses_and_repeats_nothing_and_judges_nobody() {
    /// Longer than a connection lives without a packet.
    const STOPPED: Duration = Duration::from_secs(20);
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let runs = root.path().join("runs");
    let note = agent("note", &format!("cat >> {0}; echo >> {0}; echo done", runs.display()));
    let atlas = Node::found(root.path(), network.host(0), "atlas", NO_JOBS).await;
    let nova = atlas.join(root.path(), network.host(1), "nova", &format!("{NO_JOBS}{note}")).await;
    let first = atlas.ask("@note", "first", None).await;
    atlas.ended(&first).await;

    nova.signal(Signal::STOP);
    let asked = atlas.ask("@note", "meanwhile", None).await;
    atlas.sees("nova", "unreachable").await;
    sleep(STOPPED).await;
    nova.signal(Signal::CONT);
    // What it says in its first moments is about others that were there all the while.
    let woken = Instant::now();
    while woken.elapsed() < Duration::from_secs(3) {
        let status = nova.client.status().await.unwrap();
        let seen = status.peers.iter().find(|peer| peer.name == "atlas").unwrap();
        assert!(seen.state != "unreachable", "{seen:?}");
        sleep(Duration::from_millis(50)).await;
    }
    let done = Some(FlightOutcome::Completed { reply: "done".into() });
    assert_eq!(atlas.ended(&asked).await.outcome, done);
    nova.sees("atlas", "alive").await;
    atlas.sees("nova", "alive").await;
    let after = atlas.ask("@note", "after", None).await;
    assert_eq!(atlas.ended(&after).await.outcome, done);
    assert_eq!(lines(&runs), ["first", "meanwhile", "after"], "each ran once");
}

//! A disk that fills up and has room again later, and one that lost the database or damaged it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use mesh_node::client::ClientError;
use mesh_node::service::{LIST_ROWS_MAX, MessageFilter};
use mesh_protocol::api::ask::SendRequest;
use mesh_tests::network::{Network, skipped};
use tokio::time::{Instant, sleep};

use crate::node::{NO_JOBS, Node, WITHIN, agent};

/// A file system of its own below a folder, taken away again with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where nothing may be mounted, having said why.
    fn mount(at: &Path, mib: u32) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let size = format!("size={mib}m,mode=700");
        let output =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "mesh-test"]).arg(at).output().unwrap();
        if !output.status.success() {
            skipped::<()>(&format!("no file system: {}", String::from_utf8_lossy(&output.stderr))).unwrap();
            return None;
        }
        Some(Self(at.to_owned()))
    }

    /// Fills what is left but for a few megabytes, as another program of the machine would.
    fn fill(&self, all_but_bytes: u64) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.0.join("ballast")).unwrap();
        while file.write_all(&[0; 4_096]).is_ok() {}
        let whole = file.metadata().unwrap().len();
        file.set_len(whole.saturating_sub(all_but_bytes)).unwrap();
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A process that is just ending may be in it still; the file system goes with that.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

/// How often each body that begins so is recorded at a node.
async fn recorded(node: &Node, begins: &str) -> BTreeMap<String, usize> {
    let newest = node.client.messages(&MessageFilter::default(), LIST_ROWS_MAX).await.unwrap();
    let mut bodies = BTreeMap::new();
    for message in newest.into_iter().filter(|message| message.body.starts_with(begins)) {
        *bodies.entry(message.body).or_default() += 1;
    }
    bodies
}

/// Sends numbered messages until one is refused for the disk. Returns the bodies that were accepted, the one whose
/// outcome was not known, and what was said at the end.
async fn send_until_full(node: &Node, to: &str) -> (Vec<String>, Vec<String>, String) {
    let (mut accepted, mut unknown) = (Vec::new(), Vec::new());
    let deadline = Instant::now() + WITHIN;
    for number in 0.. {
        let body = format!("message {number:04} {}", "x".repeat(20_000));
        let request =
            SendRequest { to: to.to_owned(), body: body.clone(), request_id: Some(format!("n-{number}")) };
        match node.client.send(&request, 0).await {
            Ok(_) => accepted.push(body),
            Err(ClientError::Refused(error)) if error.code == "disk_full" => {
                return (accepted, unknown, format!("{} {}", error.message, error.hints.join(" ")));
            }
            // The one that met the end of the disk.
            Err(ClientError::Refused(error)) if error.code == "storage_unavailable" => unknown.push(body),
            Err(error) => panic!("{error:?}"),
        }
        assert!(Instant::now() < deadline && number < LIST_ROWS_MAX, "the disk does not fill");
    }
    unreachable!("numbers do not end")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_new_work_and_loses_nothing_at_either_end() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&root.path().join("atlas"), 64) else { return };
    let sink = format!("{NO_JOBS}{}", agent("sink", "cat > /dev/null"));
    let atlas = Node::found(root.path(), network.host(0), "atlas", &sink).await;
    let nova = atlas.join(root.path(), network.host(1), "nova", &sink).await;
    nova.tell("@sink.node:atlas", "hello").await;
    atlas.tell("@sink.node:nova", "hello").await;
    nova.peer_when("atlas", "all is there", |peer| peer.outbox.count == 0).await;

    // The sender's end.
    disk.fill(4 * 1024 * 1024);
    let (accepted, unknown, said) = send_until_full(&atlas, "@sink.node:nova").await;
    eprintln!("{} accepted, {} not known, then: {said}", accepted.len(), unknown.len());
    assert!(said.contains("the disk is full") && said.contains("free some"), "{said}");
    assert!(unknown.len() <= 1, "every other was accepted or refused");
    let doctor = atlas.client.doctor().await.unwrap();
    let storage = doctor.iter().find(|check| check.name == "storage").unwrap();
    assert_ne!(storage.verdict, "ok", "{storage:?}");

    // The receiver's end: the same node. The sender keeps what cannot be taken there.
    for number in 0..20 {
        nova.tell("@sink.node:atlas", &format!("back {number:04}")).await;
    }
    sleep(std::time::Duration::from_secs(2)).await;
    let waiting = nova.peer_when("atlas", "linked", |peer| peer.path.is_some()).await.outbox.count;
    assert!(waiting > 0, "nothing is acknowledged that is not on a disk");

    disk.make_room();
    nova.peer_when("atlas", "all is taken", |peer| peer.outbox.count == 0).await;
    atlas.tell("@sink.node:nova", "message last").await;
    atlas.peer_when("nova", "all is delivered", |peer| peer.outbox.count == 0).await;
    let there = recorded(&nova, "message ").await;
    assert!(there.values().all(|times| *times == 1), "nothing twice");
    assert!(accepted.iter().all(|body| there.contains_key(body)), "nothing lost");
    // The last, and each that was accepted; the one that was not known may be there, and then once.
    let certain = accepted.len() + 1;
    assert!(there.len() == certain || there.len() == certain + unknown.len(), "{} of {certain}", there.len());
    let back = recorded(&atlas, "back ").await;
    assert_eq!((back.len(), back.values().max()), (20, Some(&1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_damaged_database_stops_the_start_and_is_named_and_left_as_it_is() {
    let Some(network) = Network::new(1).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let mut atlas = Node::found(root.path(), network.host(0), "atlas", NO_JOBS).await;
    atlas.kill();
    let database = atlas.home.join("mesh.redb");
    let aside = root.path().join("aside");
    std::fs::rename(&database, &aside).unwrap();
    let refused = |node: &Node| {
        let output = node.cli(&["up", "--foreground"], "");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("mesh.redb"), "{said}");
        said
    };
    assert!(refused(&atlas).contains("missing"));
    assert!(!database.exists(), "no empty one is put in its place");

    let damaged = vec![0xee; 100_000];
    std::fs::write(&database, &damaged).unwrap();
    refused(&atlas);
    assert!(std::fs::read(&database).unwrap() == damaged, "what may be mended is left as it is");

    std::fs::rename(&aside, &database).unwrap();
    atlas.start().await;
}

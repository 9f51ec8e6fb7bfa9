//! Jobs across whole nodes: what the asking node gets is what the executor did, and signed.
//!
//! Where gVisor is not installed the ones that run something are skipped, and say so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mesh_node::client::ClientError;
use mesh_protocol::api::job::{AttestationView, JobFilter, JobView, RunRequest};
use mesh_protocol::evidence::artifact::Captured;
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::chain::check_links;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::event::{Event, EventKind};
use mesh_protocol::evidence::trust::TrustSet;
use mesh_protocol::evidence::verify::{Expected, verify};
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::job::{Contents, InputFile, JobLimits, JobSpec, JobStatus, Language};
use mesh_protocol::policy::Trust;

use crate::mesh::Node;

/// Longest a sandbox is looked at on a busy machine.
const LOOKED_AT_WITHIN: Duration = Duration::from_secs(120);

const RUNS_JOBS: &str = "[executor]\nslots = 1\n";

/// A node that asks and one that runs, or nothing where nothing can run.
async fn pair(root: &Path) -> Option<(Node, Node)> {
    pair_in(root, root).await
}

/// The same, each with its home in a directory of its own.
async fn pair_in(asking: &Path, running: &Path) -> Option<(Node, Node)> {
    let atlas = Node::found(asking, "atlas", "", Trust::Mine).await;
    let nova = atlas.join(running, "nova", RUNS_JOBS, Trust::Mine).await;
    atlas.sees("nova", "alive").await;
    let deadline = tokio::time::Instant::now() + LOOKED_AT_WITHIN;
    loop {
        let executor = atlas.client.status().await.unwrap().peers[0].executor.clone();
        if !executor.classes.is_empty() {
            return Some((atlas, nova));
        }
        let why = nova.client.status().await.unwrap().executor.unavailable;
        if let Some(why) = why.filter(|why| why.contains("not installed")) {
            assert!(std::env::var_os("MESH_REQUIRE_SANDBOX").is_none(), "{why}");
            eprintln!("SKIPPED: {why}");
            return None;
        }
        assert!(tokio::time::Instant::now() < deadline, "nova offers a sandbox: {executor:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn id_of(node: &Node) -> NodeId {
    node.client.status().await.unwrap().node
}

fn on_nova(spec: JobSpec) -> RunRequest {
    RunRequest { on: Some("nova".into()), ..RunRequest::new(spec) }
}

async fn ended(node: &Node, job: JobId) -> JobView {
    loop {
        let view = node.client.job_result(job, 60).await.unwrap();
        if view.terminal && view.attestation != AttestationView::Pending {
            return view;
        }
    }
}

/// Every event of a job, from the asking node.
async fn all_events(node: &Node, job: JobId) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let page = node.client.job_events(job, events.last().map_or(0, |event| event.seq), 60).await.unwrap();
        events.extend(page.events);
        if page.ended {
            return events;
        }
    }
}

fn written(events: &[Event]) -> Vec<u8> {
    let output = events.iter().filter(|event| event.kind == EventKind::Stdout);
    let content = |event: &Event| event.data.get("content")?.read::<Captured>().ok()?.to_bytes();
    output.filter_map(content).flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_on_another_node_takes_files_leaves_files_and_is_proven_to_the_one_that_asked() {
    let root = tempfile::tempdir().unwrap();
    let Some((atlas, nova)) = pair(root.path()).await else { return };
    let bytes: Vec<u8> = (0..3 * 1024 * 1024_u32).map(|at| (at % 251) as u8).collect();
    let code = "import os\nfor name in ('a', 'b'):\n    data = open('input/' + name, 'rb').read()\n    \
                open('output/' + name, 'wb').write(data[::-1])\nprint('done')";
    let spec = JobSpec {
        files: ["a", "b"]
            .map(|name| InputFile { path: format!("input/{name}"), content: Contents(bytes.clone()) })
            .into(),
        outputs: vec!["output/a".into(), "output/b".into()],
        ..JobSpec::new(Language::Python, code)
    };
    let job = atlas.client.run(&on_nova(spec.clone())).await.unwrap().job_id;
    let view = ended(&atlas, job).await;
    let result = view.result.unwrap();
    assert_eq!(
        (result.status, result.stdout.as_str()),
        (JobStatus::Succeeded, "done\n"),
        "{}",
        result.stderr
    );
    let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
    let outputs = atlas.client.job_outputs(job).await.unwrap();
    assert_eq!(outputs.len(), 2);
    assert!(
        outputs.iter().all(|file| file.content_base64.0 == reversed && file.sha256 == Digest::of(&reversed))
    );
    let nova_id = id_of(&nova).await;
    assert!(matches!(view.attestation, AttestationView::Verified { signer, .. } if signer == nova_id));
    assert!(view.effective_limits.is_some_and(|limits| limits.wall_seconds == Some(15)));
    assert_eq!(view.input_files, spec.file_digests());

    // Offline, from the exact bytes, and for nobody else's key.
    let envelope = atlas.client.attestation(job).await.unwrap();
    let artifact = atlas.client.result_artifact(job).await.unwrap();
    let events = all_events(&atlas, job).await;
    let expected = Expected {
        artifact: Some(&artifact),
        events: Some(&events),
        job_id: Some(&job.to_string()),
        tenant: Some("atlas/operator"),
    };
    let verified = verify(&envelope, &TrustSet::node(&nova_id).unwrap(), &expected).unwrap();
    assert!(verified.evidence_complete() && verified.event_chain_complete());
    assert_eq!(verified.receipt().execution.artifacts, result.artifacts);
    assert!(verify(&envelope, &TrustSet::node(&id_of(&atlas).await).unwrap(), &expected).is_err());
    assert_eq!(atlas.client.attestation(job).await.unwrap(), envelope, "they never change");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_writes_elsewhere_is_followed_here_and_a_cancel_reaches_it() {
    let root = tempfile::tempdir().unwrap();
    let Some((atlas, nova)) = pair(root.path()).await else { return };
    let code = "echo first; sleep 1; echo second; sleep 300";
    let limits = JobLimits { wall_seconds: 300, ..JobLimits::default() };
    let spec = JobSpec { limits, ..JobSpec::new(Language::Bash, code) };
    let job = atlas.client.run(&on_nova(spec)).await.unwrap().job_id;
    let mut events: Vec<Event> = Vec::new();
    while written(&events) != b"first\nsecond\n" {
        let after = events.last().map_or(0, |event| event.seq);
        let page = atlas.client.job_events(job, after, 60).await.unwrap();
        assert!(!page.ended && page.next_cursor >= after);
        events.extend(page.events);
    }
    assert_eq!(atlas.client.job(job).await.unwrap().status, JobStatus::Running);
    assert!(!atlas.client.cancel_job(job).await.unwrap().already_terminal);
    let view = ended(&atlas, job).await;
    let result = view.result.unwrap();
    assert_eq!((result.status, result.killed_by.as_deref()), (JobStatus::Cancelled, Some("cancelled")));
    let told = all_events(&atlas, job).await;
    assert!(told.starts_with(&events), "what was told is what was signed");
    check_links(&job.to_string(), &told).unwrap();
    assert_eq!(told.iter().filter(|event| event.kind == EventKind::Finished).count(), 1);
    let again = atlas.client.cancel_job(job).await.unwrap();
    assert_eq!((again.already_terminal, again.state.as_str()), (true, "cancelled"));
    drop(nova);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_executor_is_gone_is_shown_as_such_and_its_end_is_attested_here() {
    let root = tempfile::tempdir().unwrap();
    let Some((atlas, nova)) = pair(root.path()).await else { return };
    let nova = nova.stop().await;
    atlas.sees("nova", "unreachable").await;
    let request = on_nova(JobSpec::new(Language::Bash, "true"));
    let receipt = atlas.client.run(&request).await.unwrap();
    assert_eq!(receipt.held.unwrap().state, "unreachable");
    let waiting = atlas.client.job(receipt.job_id).await.unwrap();
    assert!(waiting.waiting_on.unwrap().starts_with("node nova: unreachable"), "it says on whom it waits");
    atlas.client.cancel_job(receipt.job_id).await.unwrap();
    let view = ended(&atlas, receipt.job_id).await;
    let me = id_of(&atlas).await;
    assert_eq!(view.status, JobStatus::Cancelled);
    assert!(matches!(view.attestation, AttestationView::Verified { signer, .. } if signer == me));
    let evidence = atlas.client.evidence(receipt.job_id).await.unwrap();
    let bundle = Bundle::parse(&evidence).unwrap();
    let verified = bundle.verify(&TrustSet::node(&me).unwrap(), None, Some("operator")).unwrap();
    assert!(verified.evidence_complete(), "nothing ran, and nothing of it is missing");
    assert_eq!(verified.receipt().execution.observed, None);

    // Back, it never hears of the job.
    let nova = Node::start(nova).await;
    atlas.sees("nova", "alive").await;
    assert_eq!(nova.client.status().await.unwrap().executor.running, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_jobs_follow_each_other_while_new_ones_come() {
    let root = tempfile::tempdir().unwrap();
    let atlas = Node::found(root.path(), "atlas", RUNS_JOBS, Trust::Mine).await;
    if !atlas.runs_jobs().await {
        return;
    }
    let submit = async |language| {
        let request = RunRequest::new(JobSpec::new(language, "print(1)"));
        let job = atlas.client.run(&request).await.unwrap().job_id;
        // Ids of one millisecond are in no order: the next is of a later one.
        let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        while now_ms() <= u128::from(job.wall_ms()) {
            tokio::task::yield_now().await;
        }
        job
    };
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.insert(0, submit(Language::Python).await);
    }
    let filter = |cursor| JobFilter { cursor, ..JobFilter::default() };
    let ids = |jobs: &[JobView]| jobs.iter().map(|job| job.job_id).collect::<Vec<_>>();
    let first = atlas.client.jobs(&filter(None), 2).await.unwrap();
    assert_eq!(ids(&first.jobs), jobs[..2]);
    submit(Language::Bash).await;
    let second = atlas.client.jobs(&filter(first.next_cursor), 2).await.unwrap();
    assert_eq!(ids(&second.jobs), jobs[2..4]);
    let last = atlas.client.jobs(&filter(second.next_cursor), 2).await.unwrap();
    assert_eq!((ids(&last.jobs), last.next_cursor), (jobs[4..].to_vec(), None));
    let bash = JobFilter { language: Some(Language::Bash), ..JobFilter::default() };
    assert_eq!(atlas.client.jobs(&bash, 10).await.unwrap().jobs.len(), 1);
    let error = atlas.client.jobs(&filter(Some("1:job".into())), 2).await.unwrap_err();
    assert!(error.to_string().contains("cursor"), "{error}");
    // An id that nobody has and one that is no job of the caller's read alike.
    let error = atlas.client.job_events(JobId::from_bytes([9; 16]), 0, 0).await.unwrap_err();
    assert!(error.to_string().contains("there is no job"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_submissions_of_one_moment_under_one_key_are_one_job() {
    let root = tempfile::tempdir().unwrap();
    let Some((atlas, nova)) = pair(root.path()).await else { return };
    let mut submissions = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let client = atlas.another_client();
        submissions.spawn(async move {
            let spec = JobSpec::new(Language::Bash, "echo once");
            let request = RunRequest { idempotency_key: Some("one".into()), ..on_nova(spec) };
            loop {
                match client.run(&request).await {
                    Ok(receipt) => return receipt,
                    // A node that reads many bodies already asks to try again, which is what a key is for.
                    Err(error) => assert!(error.to_string().contains("too many"), "{error}"),
                }
            }
        });
    }
    let receipts = submissions.join_all().await;
    let first = receipts[0].job_id;
    assert!(receipts.iter().all(|receipt| receipt.job_id == first));
    assert_eq!(receipts.iter().filter(|receipt| !receipt.replayed).count(), 1);
    assert_eq!(atlas.client.jobs(&JobFilter::default(), 10).await.unwrap().jobs.len(), 1);
    assert_eq!(ended(&atlas, first).await.result.unwrap().stdout, "once\n");
    drop(nova);
}

/// A disk in memory, of a size that can be changed. It is gone when dropped.
struct Disk(PathBuf);

impl Disk {
    /// One of this size at a new directory, or nothing where this user may not mount one.
    fn new(at: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let disk = Self(at);
        let mounted = disk.mount(&format!("size={size}"));
        if !mounted {
            eprintln!("SKIPPED: no disk can be mounted here");
        }
        mounted.then_some(disk)
    }

    fn resize(&self, size: &str) {
        assert!(self.mount(&format!("remount,size={size}")));
    }

    fn mount(&self, options: &str) -> bool {
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&self.0).output();
        mount.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: the node may still have files there. Where nothing was mounted it has no effect.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_nearly_full_takes_in_no_new_job_and_repeats_what_it_took_in() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::new(root.path().join("disk"), "4G") else { return };
    let Some((atlas, nova)) = pair_in(&disk.0, root.path()).await else { return };
    let keyed = |key: &str, code: &str| {
        let spec = JobSpec::new(Language::Bash, code);
        RunRequest { idempotency_key: Some(key.into()), ..on_nova(spec) }
    };
    let first = atlas.client.run(&keyed("first", "echo 1")).await.unwrap();
    disk.resize("64M");
    let code = async |request: &RunRequest| match atlas.client.run(request).await {
        Err(ClientError::Refused(refusal)) => refusal.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(&keyed("second", "echo 1")).await, "storage_reserve");
    assert_eq!(code(&keyed("first", "echo 2")).await, "idempotency_key_reused");
    let again = atlas.client.run(&keyed("first", "echo 1")).await.unwrap();
    assert_eq!((again.job_id, again.replayed), (first.job_id, true));
    assert_eq!(ended(&atlas, first.job_id).await.status, JobStatus::Succeeded, "what was taken in can end");
    disk.resize("4G");
    assert!(!atlas.client.run(&keyed("second", "echo 1")).await.unwrap().replayed);
    atlas.stop().await;
    nova.stop().await;
}

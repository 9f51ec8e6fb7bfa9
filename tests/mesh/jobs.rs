//! Jobs on other hosts, in real sandboxes.

use std::fs;
use std::path::{Path, PathBuf};

use mesh_protocol::api::job::{AttestationView, JobFilter, JobView, RunRequest};
use mesh_protocol::id::JobId;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobLimits, JobSpec, JobStatus, Language};
use mesh_tests::network::{Network, skipped};
use tokio::time::{Duration, Instant};

use crate::node::{NO_JOBS, Node, until};

/// One job at a time, in gVisor. Nothing is kept ready: whatever is there belongs to the job.
const ONE_SLOT: &str = "[executor]\nslots = 1\nready = 0\n";

/// How long a cancelled job may take to be gone, with all its processes, on another host that does much else. What it
/// took is printed.
const GONE_WITHIN: Duration = Duration::from_secs(15);

/// An asking node and one that runs jobs; `None` where nothing can run jobs.
async fn pair(network: &Network, root: &Path) -> Option<(Node, Node)> {
    let atlas = Node::found(root, network.host(0), "atlas", NO_JOBS).await;
    let nova = atlas.join(root, network.host(1), "nova", ONE_SLOT).await;
    looked_at(&nova).await?;
    atlas.peer_when("nova", "its sandbox is known", |peer| !peer.executor.classes.is_empty()).await;
    Some((atlas, nova))
}

/// Waits until a node has looked at its sandbox; `None` when there is no gVisor.
async fn looked_at(node: &Node) -> Option<()> {
    let looked = |reason: &String| !reason.contains("still being looked at");
    let status = node.status_when("it looked at its sandbox", |status| {
        status.executor.unavailable.as_ref().is_none_or(looked)
    });
    match status.await.executor.unavailable {
        None => Some(()),
        Some(why) if why.contains("not installed") => skipped(&why).unwrap(),
        Some(why) => panic!("{why}: {:#?}", node.client.doctor().await),
    }
}

fn bash(code: &str) -> RunRequest {
    let limits = JobLimits { wall_seconds: 300, ..JobLimits::default() };
    let spec = JobSpec { limits, ..JobSpec::new(Language::Bash, code) };
    RunRequest { on: Some("nova".into()), ..RunRequest::new(spec) }
}

/// What a node's jobs have on its machine now: processes, control groups and directories.
fn traces(node: &Node, short: &str) -> Vec<PathBuf> {
    let jobs = node.home.join("sandbox/jobs");
    let needle = jobs.to_str().unwrap().as_bytes().to_vec();
    let names_jobs = |process: &PathBuf| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        line.windows(needle.len()).any(|part| part == needle)
    };
    let mut found: Vec<PathBuf> = entries(Path::new("/proc")).into_iter().filter(names_jobs).collect();
    found.extend(groups(Path::new("/sys/fs/cgroup"), &format!("mesh-sandbox-{short}")));
    found.extend(entries(&jobs));
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()).collect()
}

/// The groups below every group of this name, in any tree.
fn groups(at: &Path, name: &str) -> Vec<PathBuf> {
    let folders = || entries(at).into_iter().filter(|path| path.is_dir() && !path.is_symlink());
    if at.file_name().is_some_and(|last| last == name) {
        return folders().collect();
    }
    folders().flat_map(|folder| groups(&folder, name)).collect()
}

/// A job, once it runs.
async fn running(atlas: &Node, request: &RunRequest) -> JobId {
    let job = atlas.client.run(request).await.unwrap().job_id;
    job_when(atlas, job, "it runs", |view| view.status == JobStatus::Running).await;
    job
}

async fn job_when(node: &Node, job: JobId, what: &str, holds: impl Fn(&JobView) -> bool) -> JobView {
    let deadline = Instant::now() + crate::node::WITHIN;
    loop {
        let view = node.client.job_result(job, 1).await.unwrap();
        if holds(&view) {
            return view;
        }
        assert!(Instant::now() < deadline && !view.terminal, "{what}: {view:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_on_another_host_in_gvisor_and_its_result_comes_back_attested() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let Some((atlas, nova)) = pair(&network, root.path()).await else { return };
    let nova_id = nova.client.status().await.unwrap().node;

    let proof = root.path().join("proof.json");
    let proof = proof.to_str().unwrap();
    let code = "cat /proc/version; echo to stdout; echo to stderr >&2; exit 7";
    let ran = atlas.cli(&["run", "--on", "nova", "-l", "bash", "-e", code, "--evidence", proof], "");
    let (out, err) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
    assert_eq!(ran.status.code(), Some(7), "the job's own: {out}{err}");
    assert!(out.contains("to stdout"), "{out}");
    let kernel = fs::read_to_string("/proc/version").unwrap();
    assert!(out.contains("Linux version") && !out.contains(&kernel), "a kernel of its own: {out}");
    assert!(err.contains("to stderr"), "{err}");

    let listed = atlas.client.jobs(&JobFilter::default(), 10).await.unwrap().jobs;
    assert_eq!(listed.len(), 1);
    let job = atlas.client.job(listed[0].job_id).await.unwrap();
    assert_eq!((job.status, job.node), (JobStatus::Failed, nova_id));
    assert_eq!(job.result.unwrap().isolation, Some(IsolationClass::GvisorApplicationKernel));
    match job.attestation {
        AttestationView::Verified { signer, event_chain_complete: true, .. } => assert_eq!(signer, nova_id),
        other => panic!("{other:?}"),
    }
    let verified = atlas.cli(&["verify", proof, "--key", &nova_id.to_string()], "");
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_on_another_host_is_gone_with_all_its_processes_in_seconds() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let Some((atlas, nova)) = pair(&network, root.path()).await else { return };
    let short = nova.client.status().await.unwrap().node.short();
    let tree = "for i in 1 2 3; do (trap '' TERM INT; sleep 1000 & sleep 1000; sleep 1000) & done; wait";
    let job = running(&atlas, &bash(tree)).await;
    assert!(!traces(&nova, &short).is_empty(), "the check bites");

    let asked = Instant::now();
    let reply = atlas.client.cancel_job(job).await.unwrap();
    assert!(!reply.already_terminal);
    until("everything is gone", || traces(&nova, &short).is_empty()).await;
    let took = asked.elapsed();
    eprintln!("gone after {took:?}");
    assert!(took < GONE_WITHIN, "it took {took:?}");
    let view = job_when(&atlas, job, "it is cancelled", |view| view.terminal).await;
    assert_eq!(view.status, JobStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_in_mid_job_leaves_nothing_behind_and_the_job_ends_as_an_error() {
    let Some(network) = Network::new(2).unwrap() else { return };
    let root = tempfile::tempdir().unwrap();
    let Some((atlas, mut nova)) = pair(&network, root.path()).await else { return };
    let short = nova.client.status().await.unwrap().node.short();
    let job = running(&atlas, &bash("sleep 1000 & sleep 1000")).await;
    assert!(!traces(&nova, &short).is_empty(), "the check bites");

    nova.kill();
    assert!(!traces(&nova, &short).is_empty(), "nobody was there to clear away");
    nova.start().await;
    looked_at(&nova).await;
    assert_eq!(traces(&nova, &short), [] as [PathBuf; 0]);

    let view = job_when(&atlas, job, "it ends", |view| view.terminal).await;
    let result = view.result.unwrap();
    assert_eq!((view.status, result.killed_by.as_deref()), (JobStatus::Error, Some("server_restarted")));
    assert!(result.may_have_run, "it had begun");
    assert!(matches!(view.attestation, AttestationView::Verified { .. }), "{:?}", view.attestation);

    // There is one slot: a job that ran again would still be in it.
    let next = atlas.client.run(&bash("echo next")).await.unwrap().job_id;
    let next = job_when(&atlas, next, "the next one ends", |view| view.terminal).await;
    assert_eq!(next.status, JobStatus::Succeeded);
    until("nothing runs", || traces(&nova, &short).is_empty()).await;
}

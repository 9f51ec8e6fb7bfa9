//! `run`, against a stand-in: the job's outputs and exit code are the command's own.

use mesh_protocol::api::ask::DeliveryPhase;
use mesh_protocol::api::job::{AttestationView, JobReceipt, JobView};
use mesh_protocol::id::{JobId, NodeId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobLimits, JobResult, JobStatus, Language};

use crate::command::Place;
use crate::stand_in::{Requests, StandIn};

fn job() -> JobId {
    JobId::mint(0, [4; 10])
}

pub(crate) fn receipt() -> JobReceipt {
    JobReceipt {
        job_id: job(),
        status: JobStatus::Queued,
        node: NodeId::from_bytes([2; 32]),
        node_name: "nova".into(),
        held: None,
        replayed: false,
    }
}

pub(crate) fn ended(status: JobStatus, exit_code: Option<i32>) -> JobView {
    let result = JobResult {
        status,
        exit_code,
        killed_by: None,
        stdout: "out\n".into(),
        stderr: "err\n".into(),
        truncated: false,
        duration_ms: 840,
        isolation: Some(IsolationClass::GvisorApplicationKernel),
        may_have_run: true,
        violations: Vec::new(),
        artifacts: Vec::new(),
    };
    let signer = NodeId::from_bytes([2; 32]);
    JobView {
        job_id: job(),
        language: Language::Bash,
        status,
        terminal: true,
        node: signer,
        node_name: "nova".into(),
        requester: "operator".into(),
        delivery: DeliveryPhase::Acknowledged,
        waiting_on: None,
        minimum_isolation: IsolationClass::GvisorApplicationKernel,
        requested_limits: JobLimits::default(),
        principal: None,
        effective_limits: None,
        input_files: Vec::new(),
        outputs: Vec::new(),
        runtime: None,
        result: Some(result),
        late: None,
        attestation: AttestationView::Verified { signer, key_id: "k".into(), event_chain_complete: true },
        created_at_ms: 0,
        updated_at_ms: 0,
    }
}

fn node_ending(place: &Place, view: &JobView) -> Requests {
    let node = StandIn::default().gives("POST /v1/jobs", &receipt());
    // The first that fits answers, so the longer path comes first.
    let node = node.gives_bytes("GET /v1/jobs/job-0000000001q091040g2081040g/evidence", "{}");
    node.gives("GET /v1/jobs/", view).serve(place)
}

#[test]
fn outputs_and_exit_code_are_the_jobs_own() {
    let place = Place::new();
    let requests = node_ending(&place, &ended(JobStatus::Failed, Some(3)));
    let arguments = ["run", "--language", "bash", "-e", "exit 3", "--stdin", "-", "--timeout", "1m"];
    insta::assert_snapshot!(place.picture_reading(&arguments, "from a pipe"), @r"
    exit code 3
    ----- stdout -----
    out
    ----- stderr -----
    err
    ");
    let asked = requests.all().remove(0);
    assert!(asked.contains("\"stdin\":\"from a pipe\""), "{asked}");
    assert!(asked.contains("\"wall_seconds\":60,\"cpu_seconds\":60"), "{asked}");
    assert!(asked.contains("\"minimum_isolation\":\"gvisor-application-kernel\""), "{asked}");
}

#[test]
fn a_job_out_of_time_ends_as_timeout_does() {
    let place = Place::new();
    node_ending(&place, &ended(JobStatus::TimedOut, None));
    insta::assert_snapshot!(place.picture(&["run", "--language", "bash", "-e", "true"]), @r"
    exit code 124
    ----- stdout -----
    out
    ----- stderr -----
    err
    the job ran out of time
    ");
}

#[test]
fn a_job_the_mesh_could_not_run_is_not_the_jobs_failure() {
    let place = Place::new();
    node_ending(&place, &ended(JobStatus::Error, None));
    insta::assert_snapshot!(place.picture(&["run", "--language", "bash", "-e", "true"]), @r"
    exit code 125
    ----- stdout -----
    out
    ----- stderr -----
    err
    the mesh could not run the job; it may have begun
    ");
}

#[test]
fn detached_the_id_is_the_answer() {
    let place = Place::new();
    node_ending(&place, &ended(JobStatus::Succeeded, Some(0)));
    insta::assert_snapshot!(place.picture(&["run", "-d", "--language", "bash", "-e", "true"]), @r"
    exit code 0
    ----- stdout -----
    job-0000000001q091040g2081040g
    ");
}

#[test]
fn evidence_is_saved_byte_for_byte_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    node_ending(&place, &ended(JobStatus::Succeeded, Some(0)));
    let arguments = ["run", "--evidence", "proof.json", "--language", "bash", "-e", "true"];
    insta::assert_snapshot!(place.picture(&arguments), @r"
    exit code 0
    ----- stdout -----
    out
    ----- stderr -----
    err
    evidence saved; `mesh-cli verify proof.json --key aibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaiba` checks it anywhere
    ");
    let saved = place.path("proof.json");
    assert_eq!(std::fs::read_to_string(&saved).unwrap(), "{}");
    assert_eq!(std::fs::metadata(&saved).unwrap().permissions().mode() & 0o777, 0o600);
}

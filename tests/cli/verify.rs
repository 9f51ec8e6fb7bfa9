//! `verify`: evidence of a job that failed, whole, tampered with, and against other keys.

use std::path::PathBuf;

use ed25519_dalek::SigningKey;
use mesh_node::identity::{MeshRoot, NodeKey};
use mesh_protocol::evidence::attest;
use mesh_protocol::evidence::attest::Finished;
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::Chain;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::event::EventKind;
use mesh_protocol::evidence::limits;
use mesh_protocol::evidence::receipt::{
    Execution, ExecutorOutput, FileDigest, Limits, Observed, Outcome, Requirements, StreamSeen,
};
use mesh_protocol::id::NodeId;

use crate::command::Place;

const JOB: &str = "job-01h00000000000000000000000";
const STDERR: &[u8] = b"boom\n";
const MADE_MS: u64 = 1_700_000_000_000;

fn seen(bytes: &[u8]) -> StreamSeen {
    StreamSeen { bytes_seen: bytes.len() as u64, raw_sha256: Digest::of(bytes), truncated: false }
}

/// A job that ended with exit code 3.
fn failed_job() -> Finished {
    let mut chain = Chain::new(JOB);
    for (kind, event) in
        [(EventKind::Accepted, "{}"), (EventKind::Started, "{}"), (EventKind::Finished, "{}")]
    {
        chain.append(MADE_MS, kind, Value::parse(event.as_bytes(), &limits::EVENT).unwrap()).unwrap();
    }
    let execution = Execution {
        job_id: JOB.to_owned(),
        requester: "entry/operator".to_owned(),
        outcome: Outcome::Failed,
        exit_code: Some(3),
        killed_by: None,
        created_at_ms: MADE_MS,
        started_at_ms: Some(MADE_MS),
        finished_at_ms: MADE_MS,
        duration_ms: Some(0),
        evidence_complete: true,
        requested_limits: Limits::default(),
        requirements: Requirements { minimum_isolation: "gvisor-application-kernel".to_owned() },
        language: "bash".to_owned(),
        code_sha256: Digest::of(b"exit 3"),
        stdin_sha256: Digest::of(b""),
        resource_usage: None,
        executor_output: Some(ExecutorOutput { stdout: seen(b""), stderr: seen(STDERR) }),
        input_files: Vec::new(),
        artifacts: Vec::new(),
        observed: Some(Observed {
            isolation_class: Some("gvisor-application-kernel".to_owned()),
            bootstrap_ready: Some(true),
            ..Observed::default()
        }),
    };
    let violations = Vec::new();
    Finished { execution, stdout: Vec::new(), stderr: STDERR.to_vec(), truncated: false, violations, chain }
}

fn signer() -> SigningKey {
    SigningKey::from_bytes(&[1; 32])
}

fn id(key: &SigningKey) -> String {
    NodeId::from_bytes(key.verifying_key().to_bytes()).to_string()
}

fn evidence(certificate: Option<Vec<u8>>) -> Bundle {
    Bundle::of(attest(failed_job(), &signer()).unwrap(), certificate)
}

fn saved(place: &Place, bundle: &Bundle) -> PathBuf {
    place.file("proof.json", bundle.to_json().unwrap())
}

#[test]
fn authentic_evidence_of_a_failed_job_says_both() {
    let place = Place::new();
    saved(&place, &evidence(None));
    insta::assert_snapshot!(place.picture(&["verify", "proof.json", "--key", &id(&signer())]), @r"
    exit code 0
    ----- stdout -----
    authentic: the signer claims what follows, and that nothing is missing

    signed by  rkeohxlubhyzl7ks3mwtzos5olfgocn7dwkbeg7toseadnapn5oa
    job        job-01h00000000000000000000000
    for        entry/operator
    language   bash
    outcome    failed, exit code 3
    isolation  gvisor-application-kernel
    events     checked, the chain is complete
    output     checked
    ");
}

#[test]
fn a_key_may_be_hex_or_a_pem_file() {
    use ed25519_dalek::pkcs8::EncodePublicKey;
    let place = Place::new();
    saved(&place, &evidence(None));
    let key = signer().verifying_key();
    let hex: String = key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let pem = key.to_public_key_pem(ed25519_dalek::pkcs8::spki::der::pem::LineEnding::LF).unwrap();
    place.file("signer.pem", pem);
    for given in [hex.as_str(), "signer.pem"] {
        let output = place.program(&["verify", "proof.json", "--key", given]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[test]
fn what_was_changed_is_not_authentic() {
    let place = Place::new();
    let mut bundle = evidence(None);
    bundle.artifact = bundle.artifact.map(|text| text.replace("boom", "fine"));
    saved(&place, &bundle);
    insta::assert_snapshot!(place.picture(&["verify", "proof.json", "--key", &id(&signer())]), @r"
    exit code 1
    ----- stdout -----
    does not verify
      because the artifact is not the one that was signed
    ");
}

#[test]
fn another_nodes_key_does_not_fit() {
    let place = Place::new();
    saved(&place, &evidence(None));
    let other = id(&SigningKey::from_bytes(&[2; 32]));
    insta::assert_snapshot!(place.picture(&["verify", "proof.json", "--key", &other]), @r"
    exit code 1
    ----- stdout -----
    does not verify
      because 0 trusted signatures, where 1 are needed
    ");
}

#[test]
fn evidence_about_another_job_is_not_what_was_expected() {
    let place = Place::new();
    saved(&place, &evidence(None));
    let arguments = ["verify", "proof.json", "--key", &id(&signer()), "--expect-job", "job-other"];
    insta::assert_snapshot!(place.picture(&arguments), @r"
    exit code 1
    ----- stdout -----
    does not verify
      because this is about job `job-01h00000000000000000000000`
    ");
}

#[test]
fn authentic_evidence_with_a_part_missing_has_a_code_of_its_own() {
    let place = Place::new();
    let bundle = Bundle { events: None, ..evidence(None) };
    saved(&place, &bundle);
    insta::assert_snapshot!(place.picture(&["verify", "proof.json", "--key", &id(&signer())]), @r"
    exit code 5
    ----- stdout -----
    authentic and incomplete: the signer claims what follows, with gaps

    signed by  rkeohxlubhyzl7ks3mwtzos5olfgocn7dwkbeg7toseadnapn5oa
    job        job-01h00000000000000000000000
    for        entry/operator
    language   bash
    outcome    failed, exit code 3
    isolation  gvisor-application-kernel
    events     not in the file; the signer says that the chain is complete
    output     checked
    ");
}

#[test]
fn a_member_of_the_mesh_is_believed_by_its_root_and_no_other() {
    let place = Place::new();
    let (root, other) =
        (MeshRoot::from_seed(&[7; 32], MADE_MS).unwrap(), MeshRoot::from_seed(&[8; 32], MADE_MS).unwrap());
    let leaf = root.issue(NodeKey::from_seed(&[1; 32]).node(), MADE_MS).unwrap();
    saved(&place, &evidence(Some(leaf.as_der().to_vec())));
    place.file("root.der", root.certificate().as_der());
    place.file("other.der", other.certificate().as_der());
    let output = place.program(&["verify", "proof.json", "--root", "root.der"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    insta::assert_snapshot!(place.picture(&["verify", "proof.json", "--root", "other.der"]), @r"
    exit code 1
    ----- stdout -----
    does not verify
      because its signer's certificate is not this mesh's: not a member of this mesh (its certificate is of another mesh)
    ");
}

#[test]
fn something_else_is_not_evidence() {
    let place = Place::new();
    place.file("proof.json", "{}");
    insta::assert_snapshot!(place.picture(&["verify", "proof.json", "--key", &id(&signer())]), @r"
    exit code 2
    ----- stderr -----
    error: this is not evidence: the bundle has a member missing, unknown or of another type

    hint: give the file that `run --evidence` saved
    ");
}

#[test]
fn evidence_is_read_from_a_pipe_and_judged_for_programs() {
    let place = Place::new();
    let text = evidence(None).to_json().unwrap();
    insta::assert_snapshot!(place.picture_reading(&["--json", "verify", "-", "--key", &id(&signer())], &text), @r#"
    exit code 0
    ----- stdout -----
    {"schema_version":1,"ok":true,"data":{"verified":true,"claims":{"signers":["rkeohxlubhyzl7ks3mwtzos5olfgocn7dwkbeg7toseadnapn5oa"],"job":"job-01h00000000000000000000000","requester":"entry/operator","language":"bash","outcome":"failed","exit_code":3,"killed_by":null,"isolation":"gvisor-application-kernel","evidence_complete":true,"event_chain_complete":true,"events_checked":true,"output_checked":true}}}
    "#);
}

/// Evidence of a job that left a file, signed by two nodes' keys where asked for.
fn with_a_file() -> Bundle {
    let mut job = failed_job();
    let bytes = b"1,2";
    let file = FileDigest { path: "output/t.csv".to_owned(), size: 3, sha256: Digest::of(bytes) };
    job.execution.artifacts = vec![file];
    Bundle::of(attest(job, &signer()).unwrap(), None)
}

#[test]
fn a_tenant_that_was_not_expected_a_wrong_artifact_and_too_few_signatures_are_not_authentic() {
    let place = Place::new();
    saved(&place, &evidence(None));
    place.file("other.json", "{}");
    let (key, other) = (id(&signer()), id(&SigningKey::from_bytes(&[2; 32])));
    let code = |more: &[&str]| {
        let arguments: Vec<&str> =
            ["verify", "proof.json", "--key", &key].iter().chain(more).copied().collect();
        place.program(&arguments).output().unwrap().status.code()
    };
    assert_eq!(code(&["--expect-tenant", "entry/operator"]), Some(0));
    assert_eq!(code(&["--expect-tenant", "entry/other"]), Some(1));
    assert_eq!(code(&["--artifact", "other.json"]), Some(1));
    assert_eq!(code(&["--key", &other]), Some(0), "one of the two is enough");
    assert_eq!(code(&["--key", &other, "--threshold", "2"]), Some(1));
    assert_eq!(code(&["--threshold", "2"]), Some(2), "more than there are keys");
    assert_eq!(code(&["--key", &key]), Some(2), "a key twice is no second key");
}

#[test]
fn an_envelope_alone_is_authentic_and_incomplete_until_its_artifact_is_there() {
    let place = Place::new();
    let bundle = evidence(None);
    place.file("e.json", &bundle.envelope);
    place.file("a.json", bundle.artifact.as_ref().unwrap());
    let key = id(&signer());
    let output = place.program(&["verify", "e.json", "--key", &key]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let output =
        place.program(&["verify", "e.json", "--key", &key, "--artifact", "a.json"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("output     checked"), "{text}");
    // The events are in neither.
    assert_eq!(output.status.code(), Some(5), "{text}");
}

#[test]
fn the_files_of_a_job_are_compared_with_what_was_signed() {
    let place = Place::new();
    saved(&place, &with_a_file());
    let key = id(&signer());
    let code = || {
        let arguments = ["verify", "proof.json", "--key", &key, "--output-dir", "left"];
        place.program(&arguments).output().unwrap().status.code()
    };
    assert_eq!(code(), Some(1), "it is not there");
    std::fs::create_dir(place.path("left")).unwrap();
    std::fs::write(place.path("left/t.csv"), "1,2").unwrap();
    assert_eq!(code(), Some(0));
    std::fs::write(place.path("left/t.csv"), "1,3").unwrap();
    assert_eq!(code(), Some(1));
}

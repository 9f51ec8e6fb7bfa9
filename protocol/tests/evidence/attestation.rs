//! Attesting a job and verifying it, and everything that must not verify although it is signed.

use ed25519_dalek::SigningKey;
use mesh_protocol::evidence::artifact::{ArtifactError, Captured, ResultArtifact};
use mesh_protocol::evidence::attest::AttestError;
use mesh_protocol::evidence::bundle::{Bundle, BundleError};
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::{Chain, ChainError};
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::dsse::{Envelope, IN_TOTO};
use mesh_protocol::evidence::event::EventKind;
use mesh_protocol::evidence::limits;
use mesh_protocol::evidence::receipt::{self, FileDigest, NotTerminal, Outcome};
use mesh_protocol::evidence::statement::{Statement, StatementError};
use mesh_protocol::evidence::verify::VerifyError;
use mesh_protocol::evidence::{Attestation, Expected, attest, verify};
use mesh_protocol::job::JobStatus;
use proptest::prelude::*;

use crate::fixture::{JOB, TENANT, attestation, finished, key, node, trust};

const GOLDEN: &str = include_str!("golden/bundle-v1.json");

fn payload(attestation: &Attestation) -> Value {
    let envelope = Envelope::parse(attestation.envelope.as_bytes()).unwrap();
    Value::parse(&envelope.payload, &limits::STATEMENT).unwrap()
}

/// Signs a statement as the node with this key would.
fn signed(payload: &Value, key: &SigningKey) -> String {
    Envelope::sign(IN_TOTO, payload.to_canonical().into_bytes(), key).to_json().unwrap()
}

/// Replaces what `path` leads to, and makes `receipt_sha256` right again if asked.
fn edited(mut payload: Value, path: &[&str], new: Value, reseal: bool) -> Value {
    fn at<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Value {
        path.iter().fold(value, |value, step| match value {
            Value::Object(members) => members.entry((*step).to_owned()).or_insert(Value::Null),
            Value::List(items) => &mut items[step.parse::<usize>().unwrap()],
            other => panic!("no {step} in {other:?}"),
        })
    }
    *at(&mut payload, path) = new;
    if reseal {
        let digest = receipt::digest(at(&mut payload, &["predicate", "receipt"]));
        *at(&mut payload, &["predicate", "receipt", "receipt_sha256"]) = Value::Text(digest.to_string());
    }
    payload
}

fn verdict(envelope: &str) -> Result<(), VerifyError> {
    verify(envelope.as_bytes(), &trust(&key(1)), &Expected::default()).map(drop)
}

#[test]
fn what_was_attested_verifies_and_says_who_and_what() {
    let attestation = attestation();
    let expected = Expected {
        artifact: Some(attestation.artifact.as_bytes()),
        events: Some(&attestation.events),
        job_id: Some(JOB),
        tenant: Some(TENANT),
    };
    let verified = verify(attestation.envelope.as_bytes(), &trust(&key(1)), &expected).unwrap();
    assert_eq!(verified.signers, [node(&key(1))]);
    assert_eq!(verified.outcome(), Outcome::Succeeded);
    assert_eq!(verified.exit_code(), Some(0));
    assert!(verified.event_chain_complete() && verified.evidence_complete() && verified.events_checked);
    assert_eq!(verified.artifact.unwrap().stdout, Captured::Text("hello\n".to_owned()));
    let names: Vec<_> = verified.statement.subject.iter().map(|subject| subject.name.clone()).collect();
    assert_eq!(names, [format!("mesh://jobs/{JOB}/result"), format!("mesh://jobs/{JOB}/output/table.csv")]);
    assert_eq!(verified.statement.subject[1].digest.sha256, Digest::of(b"a,b\n"));
}

#[test]
fn a_job_that_failed_verifies_and_is_not_called_a_success() {
    let mut job = finished();
    job.execution.outcome = Outcome::Error;
    job.execution.exit_code = None;
    job.execution.killed_by = Some("server_restarted".to_owned());
    job.execution.evidence_complete = false;
    job.execution.observed = None;
    job.chain.note_loss();
    let attestation = attest(job, &key(1)).unwrap();
    let verified = verify(attestation.envelope.as_bytes(), &trust(&key(1)), &Expected::default()).unwrap();
    assert_eq!((verified.outcome(), verified.exit_code()), (Outcome::Error, None));
    assert!(!verified.event_chain_complete() && !verified.evidence_complete() && !verified.events_checked);
}

#[test]
fn every_terminal_status_is_an_outcome_of_the_same_name_and_no_other_status_is() {
    use JobStatus::{Cancelled, Error, Failed, OomKilled, Queued, Running, Succeeded, TimedOut};
    for status in [Queued, Running, Succeeded, Failed, TimedOut, OomKilled, Cancelled, Error] {
        match Outcome::try_from(status) {
            Ok(outcome) => {
                assert!(status.is_terminal());
                assert_eq!(JobStatus::from(outcome), status);
                assert_eq!(serde_json::to_string(&outcome).unwrap(), serde_json::to_string(&status).unwrap());
            }
            Err(NotTerminal(refused)) => assert!(!status.is_terminal() && refused == status),
        }
    }
}

#[test]
fn what_was_not_observed_is_absent() {
    let mut job = finished();
    job.execution.observed = None;
    let payload = payload(&attest(job, &key(1)).unwrap());
    let receipt = payload.get("predicate").unwrap().get("receipt").unwrap();
    assert_eq!(receipt.get("observed"), None);
    assert_eq!(receipt.get("killed_by"), Some(&Value::Null));
}

#[test]
fn signing_twice_gives_the_same_bytes_and_they_are_the_golden_ones() {
    let bundle = Bundle::of(attestation(), Some(b"opaque".to_vec())).to_json().unwrap();
    if std::env::var_os("MESH_WRITE_GOLDEN").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/evidence/golden/bundle-v1.json"), &bundle)
            .unwrap();
    }
    assert_eq!(bundle, GOLDEN);
}

#[test]
fn the_golden_bundle_verifies() {
    let bundle = Bundle::parse(GOLDEN.as_bytes()).unwrap();
    assert_eq!(bundle.certificate.as_deref(), Some(b"opaque".as_slice()));
    let verified = bundle.verify(&trust(&key(1)), Some(JOB), Some(TENANT)).unwrap();
    assert!(verified.events_checked && verified.artifact.is_some());
    assert!(matches!(
        bundle.verify(&trust(&key(2)), None, None),
        Err(VerifyError::Signatures { valid: 0, .. })
    ));
}

#[test]
fn a_bundle_without_artifact_or_events_verifies_and_says_so() {
    let mut bundle = Bundle::of(attestation(), None);
    (bundle.artifact, bundle.events) = (None, None);
    let bundle = Bundle::parse(bundle.to_json().unwrap().as_bytes()).unwrap();
    let verified = bundle.verify(&trust(&key(1)), None, None).unwrap();
    assert!(!verified.events_checked && verified.artifact.is_none());
}

#[test]
fn a_bundle_of_another_version_or_with_an_unknown_member_is_refused() {
    let bundle = Bundle::of(attestation(), None).to_json().unwrap();
    let later = bundle.replace("\"version\":1}", "\"version\":2}");
    assert!(matches!(Bundle::parse(later.as_bytes()), Err(BundleError::Version { version: 2 })));
    let more = bundle.replace("\"version\":1}", "\"version\":1,\"verified\":true}");
    assert!(matches!(Bundle::parse(more.as_bytes()), Err(BundleError::Shape(_))));
    let bad = bundle.replace("\"version\":1}", "\"version\":1,\"certificate\":\"*\"}");
    assert!(matches!(Bundle::parse(bad.as_bytes()), Err(BundleError::Certificate)));
}

#[test]
fn output_that_is_not_utf_8_keeps_its_bytes() {
    let mut job = finished();
    job.stdout = vec![0xff, 0x00, b'a'];
    let attestation = attest(job, &key(1)).unwrap();
    let artifact = ResultArtifact::parse(attestation.artifact.as_bytes()).unwrap();
    assert!(attestation.artifact.contains(r#""stdout":{"content":"/wBh","encoding":"base64"}"#));
    assert_eq!(artifact.stdout.to_bytes().unwrap(), [0xff, 0x00, b'a']);
}

#[test]
fn another_job_or_tenant_than_expected_is_refused() {
    let attestation = attestation();
    let check = |expected| verify(attestation.envelope.as_bytes(), &trust(&key(1)), &expected).unwrap_err();
    let job = check(Expected { job_id: Some("job-other"), ..Expected::default() });
    assert!(matches!(job, VerifyError::Job { found } if found == JOB));
    let tenant = check(Expected { tenant: Some("entry/other"), ..Expected::default() });
    assert!(matches!(tenant, VerifyError::Tenant { found } if found == TENANT));
}

#[test]
fn a_trusted_node_cannot_sign_in_another_nodes_name() {
    let envelope = signed(&payload(&attestation()), &key(2));
    let error = verify(envelope.as_bytes(), &trust(&key(2)), &Expected::default()).unwrap_err();
    assert!(matches!(error, VerifyError::NodeDidNotSign { node: named } if named == node(&key(1))));
}

#[test]
fn a_signed_payload_of_another_type_is_no_statement() {
    let payload = payload(&attestation()).to_canonical().into_bytes();
    let envelope = Envelope::sign("application/json", payload, &key(1)).to_json().unwrap();
    assert!(matches!(verdict(&envelope), Err(VerifyError::PayloadType)));
}

#[test]
fn a_signed_statement_that_contradicts_itself_is_refused() {
    let text = |text: &str| Value::Text(text.to_owned());
    let digest = || text(&Digest::of(b"other").to_string());
    let cases: [(&[&str], Value, bool); 13] = [
        (&["_type"], text("https://in-toto.io/Statement/v0.1"), false),
        (&["predicateType"], text("https://slsa.dev/provenance/v1"), false),
        (&["predicate", "schemaVersion"], Value::Integer(2), false),
        (&["predicate", "receipt", "version"], Value::Integer(2), true),
        (&["predicate", "receipt", "event_chain", "version"], Value::Integer(2), true),
        (&["predicate", "executionId"], text("job-other"), false),
        (&["predicate", "tenant"], text("entry/other"), false),
        (&["predicate", "receipt", "exit_code"], Value::Integer(1), false),
        (&["predicate", "receipt", "outcome"], text("running"), true),
        (&["predicate", "result", "sha256"], digest(), false),
        (&["predicate", "result", "name"], text("mesh://jobs/other/result"), false),
        (&["subject", "0", "digest", "sha256"], digest(), false),
        (&["subject", "1", "digest", "sha256"], digest(), false),
    ];
    for (path, new, reseal) in cases {
        let envelope = signed(&edited(payload(&attestation()), path, new, reseal), &key(1));
        assert!(
            matches!(verdict(&envelope), Err(VerifyError::Statement(_))),
            "{path:?}: {:?}",
            verdict(&envelope)
        );
    }
}

#[test]
fn a_receipt_altered_without_its_digest_is_named_so() {
    let altered =
        edited(payload(&attestation()), &["predicate", "receipt", "exit_code"], Value::Integer(1), false);
    let error = verdict(&signed(&altered, &key(1))).unwrap_err();
    assert!(matches!(error, VerifyError::Statement(StatementError::ReceiptDigest)));
}

#[test]
fn members_this_version_does_not_know_are_covered_and_ignored() {
    let path = ["predicate", "receipt", "later"];
    let sealed = edited(payload(&attestation()), &path, Value::Integer(7), true);
    assert!(verdict(&signed(&sealed, &key(1))).is_ok());
    let unsealed = edited(payload(&attestation()), &path, Value::Integer(7), false);
    assert!(verdict(&signed(&unsealed, &key(1))).is_err());
}

#[test]
fn a_name_twice_in_a_signed_statement_is_refused() {
    let payload = payload(&attestation()).to_canonical();
    let twice = payload.replacen("{\"_type\"", "{\"_type\":\"x\",\"_type\"", 1);
    let envelope = Envelope::sign(IN_TOTO, twice.into_bytes(), &key(1)).to_json().unwrap();
    assert!(matches!(verdict(&envelope), Err(VerifyError::Statement(StatementError::Document(_)))));
}

#[test]
fn an_artifact_that_disagrees_with_its_receipt_is_refused_although_signed() {
    let attestation = attestation();
    let verified = verify(attestation.envelope.as_bytes(), &trust(&key(1)), &Expected::default()).unwrap();
    let forged = attestation.artifact.replace("hello", "jello");
    let statement = Statement::of(verified.receipt().clone(), forged.as_bytes()).to_canonical().unwrap();
    let envelope = Envelope::sign(IN_TOTO, statement.into_bytes(), &key(1)).to_json().unwrap();
    let expected = Expected { artifact: Some(forged.as_bytes()), ..Expected::default() };
    let error = verify(envelope.as_bytes(), &trust(&key(1)), &expected).unwrap_err();
    assert!(matches!(error, VerifyError::Artifact(ArtifactError::Disagrees { .. })), "{error:?}");
}

#[test]
fn events_that_are_not_the_signed_ones_are_refused_by_place() {
    let mut attestation = attestation();
    attestation.events.remove(2);
    let expected = Expected { events: Some(&attestation.events), ..Expected::default() };
    let error = verify(attestation.envelope.as_bytes(), &trust(&key(1)), &expected).unwrap_err();
    assert!(matches!(error, VerifyError::Events(ChainError::Broken { seq: 3, .. })));
}

#[test]
fn what_cannot_be_attested_is_an_error_and_not_a_bad_attestation() {
    let mut other = finished();
    other.chain = Chain::new("another");
    assert!(matches!(attest(other, &key(1)), Err(AttestError::AnotherJob)));

    let mut open = finished();
    open.chain = Chain::new(JOB);
    open.chain.append(1, EventKind::Accepted, Value::Null).unwrap();
    assert!(matches!(attest(open, &key(1)), Err(AttestError::Chain(_))));

    let mut inexact = finished();
    inexact.execution.created_at_ms = 1 << 53;
    assert!(matches!(attest(inexact, &key(1)), Err(AttestError::Document { what: "receipt", .. })));

    let mut many = finished();
    let file = FileDigest { path: "input/x".to_owned(), size: 1, sha256: Digest::of(b"x") };
    many.execution.input_files = vec![file; 10_000];
    assert!(matches!(attest(many, &key(1)), Err(AttestError::Document { what: "receipt", .. })));

    let mut long = finished();
    long.stdout = vec![b'x'; limits::MAX_ARTIFACT_BYTES];
    assert!(matches!(attest(long, &key(1)), Err(AttestError::Document { what: "result artifact", .. })));
}

#[test]
fn two_output_files_of_one_name_are_refused() {
    let mut job = finished();
    job.execution.artifacts.push(job.execution.artifacts[0].clone());
    let error = attest(job, &key(1)).unwrap_err();
    let AttestError::SelfVerification(VerifyError::Statement(cause)) = error else { panic!("{error:?}") };
    assert!(matches!(cause, StatementError::DuplicateSubject));
}

proptest! {
    #[test]
    fn whatever_a_job_prints_its_evidence_verifies(
        stdout in prop::collection::vec(any::<u8>(), 0..64),
        stderr in any::<String>(),
        exit_code in any::<i32>(),
        truncated in any::<bool>(),
    ) {
        let mut job = finished();
        (job.stdout, job.stderr, job.truncated) = (stdout.clone(), stderr.clone().into_bytes(), truncated);
        (job.execution.outcome, job.execution.exit_code) = (Outcome::Failed, Some(exit_code));
        let bundle = Bundle::of(attest(job, &key(3)).unwrap(), None);
        let read = Bundle::parse(bundle.to_json().unwrap().as_bytes()).unwrap();
        prop_assert_eq!(&read, &bundle);
        let verified = read.verify(&trust(&key(3)), Some(JOB), Some(TENANT)).unwrap();
        let artifact = verified.artifact.clone().unwrap();
        prop_assert_eq!(artifact.stdout.to_bytes().unwrap(), stdout);
        prop_assert_eq!(artifact.stderr.to_bytes().unwrap(), stderr.into_bytes());
        prop_assert_eq!(verified.exit_code(), Some(exit_code));
    }
}

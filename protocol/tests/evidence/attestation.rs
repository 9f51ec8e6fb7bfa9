//! Attesting a job and verifying it: what comes out says what went in, and nothing else comes out.

use mesh_protocol::evidence::artifact::{Captured, ResultArtifact};
use mesh_protocol::evidence::attest::AttestError;
use mesh_protocol::evidence::bundle::{Bundle, BundleError};
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::{Chain, ChainError};
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::event::EventKind;
use mesh_protocol::evidence::limits;
use mesh_protocol::evidence::receipt::{FileDigest, NotTerminal, Outcome};
use mesh_protocol::evidence::statement::StatementError;
use mesh_protocol::evidence::verify::VerifyError;
use mesh_protocol::evidence::{Expected, attest, verify};
use mesh_protocol::job::JobStatus;
use proptest::prelude::*;

use crate::fixture::{JOB, TENANT, attestation, finished, key, node, payload, trust};

const GOLDEN: &str = include_str!("golden/bundle-v1.json");

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
fn a_certificate_beyond_its_bound_is_refused() {
    let parsed = |bytes: usize| {
        let bundle = Bundle::of(attestation(), Some(vec![0; bytes])).to_json().unwrap();
        Bundle::parse(bundle.as_bytes())
    };
    assert!(parsed(limits::MAX_CERTIFICATE_BYTES).is_ok());
    assert!(matches!(parsed(limits::MAX_CERTIFICATE_BYTES + 1), Err(BundleError::Certificate)));
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

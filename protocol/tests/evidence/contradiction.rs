//! What is signed and must not verify all the same: statements, artifacts and signers that contradict each other.

use ed25519_dalek::SigningKey;
use mesh_protocol::evidence::artifact::{ArtifactError, Captured, ResultArtifact};
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::dsse::{Envelope, IN_TOTO};
use mesh_protocol::evidence::limits;
use mesh_protocol::evidence::receipt::{self, Outcome};
use mesh_protocol::evidence::statement::{Statement, StatementError};
use mesh_protocol::evidence::verify::VerifyError;
use mesh_protocol::evidence::{Expected, verify};

use crate::fixture::{attestation, key, node, payload, trust};

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
fn every_member_an_artifact_shares_with_its_receipt_must_agree() {
    let attestation = attestation();
    let verified = verify(attestation.envelope.as_bytes(), &trust(&key(1)), &Expected::default()).unwrap();
    let changes: [fn(&mut ResultArtifact); 14] = [
        |artifact| artifact.type_uri.push('x'),
        |artifact| artifact.schema_version = 2,
        |artifact| artifact.job_id.push('x'),
        |artifact| artifact.tenant.push('x'),
        |artifact| artifact.status = Outcome::Failed,
        |artifact| artifact.exit_code = None,
        |artifact| artifact.created_at_ms += 1,
        |artifact| artifact.started_at_ms = None,
        |artifact| artifact.finished_at_ms += 1,
        |artifact| artifact.duration_ms = None,
        |artifact| artifact.receipt_sha256 = Digest::of(b"other"),
        |artifact| artifact.stdout = Captured::of(b"other"),
        |artifact| artifact.stderr = Captured::of(b"other"),
        |artifact| artifact.truncated = true,
    ];
    let original = ResultArtifact::parse(attestation.artifact.as_bytes()).unwrap();
    assert!(original.check(verified.receipt()).is_ok());
    for (number, change) in changes.into_iter().enumerate() {
        let mut artifact = original.clone();
        change(&mut artifact);
        assert!(artifact.check(verified.receipt()).is_err(), "change {number}");
    }
}

#[test]
fn a_signed_size_that_is_not_the_artifacts_is_refused() {
    let attestation = attestation();
    let path = ["predicate", "result", "sizeBytes"];
    let envelope = signed(&edited(payload(&attestation), &path, Value::Integer(1), false), &key(1));
    let expected = Expected { artifact: Some(attestation.artifact.as_bytes()), ..Expected::default() };
    let error = verify(envelope.as_bytes(), &trust(&key(1)), &expected).unwrap_err();
    assert!(matches!(error, VerifyError::ArtifactSize { signed: 1, .. }));
}

#[test]
fn a_result_of_another_media_type_is_refused() {
    let html = || Value::Text("text/html".to_owned());
    let payload = edited(payload(&attestation()), &["predicate", "result", "mediaType"], html(), false);
    let payload = edited(payload, &["subject", "0", "mediaType"], html(), false);
    let error = verdict(&signed(&payload, &key(1))).unwrap_err();
    assert!(matches!(error, VerifyError::Statement(StatementError::Version { member: "result.mediaType" })));
}

#[test]
fn a_receipt_beyond_its_bound_is_refused_although_the_statement_is_within_its_own() {
    let padding = Value::Text("x".repeat(limits::MAX_RECEIPT_BYTES));
    let payload = edited(payload(&attestation()), &["predicate", "receipt", "later"], padding, true);
    assert!(payload.to_canonical().len() < limits::MAX_STATEMENT_BYTES);
    let error = verdict(&signed(&payload, &key(1))).unwrap_err();
    assert!(matches!(error, VerifyError::Statement(StatementError::ReceiptTooLarge { .. })));
}

#[test]
fn a_digest_that_differs_between_subject_and_result_is_named_so() {
    let other = Value::Text(Digest::of(b"other").to_string());
    let payload = edited(payload(&attestation()), &["subject", "0", "digest", "sha256"], other, false);
    let error = verdict(&signed(&payload, &key(1))).unwrap_err();
    let VerifyError::Statement(cause) = error else { panic!("{error:?}") };
    assert!(matches!(cause, StatementError::Disagrees { left: "subject", right: "result" }));
}

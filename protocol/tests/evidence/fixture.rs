//! One job that ran in a sandbox and printed something, the same in every test.

use ed25519_dalek::SigningKey;
use mesh_protocol::evidence::artifact::Violation;
use mesh_protocol::evidence::attest::Finished;
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::chain::Chain;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::dsse::Envelope;
use mesh_protocol::evidence::event::EventKind;
use mesh_protocol::evidence::limits;
use mesh_protocol::evidence::receipt::{
    Execution, ExecutorOutput, FileDigest, LimitEnforcement, Limits, Observed, Outcome, Requirements,
    ResourceUsage, StreamSeen,
};
use mesh_protocol::evidence::trust::TrustSet;
use mesh_protocol::evidence::{Attestation, attest};
use mesh_protocol::id::NodeId;

pub(crate) const JOB: &str = "job-01h00000000000000000000000";
pub(crate) const TENANT: &str = "entry/default";
const CODE: &[u8] = b"print('hello')\nopen('output/table.csv', 'w').write('a,b\\n')\n";

pub(crate) fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

pub(crate) fn node(key: &SigningKey) -> NodeId {
    NodeId::from_bytes(key.verifying_key().to_bytes())
}

pub(crate) fn trust(key: &SigningKey) -> TrustSet {
    TrustSet::node(&node(key)).unwrap()
}

pub(crate) fn value(json: &str) -> Value {
    Value::parse(json.as_bytes(), &limits::EVENT).unwrap()
}

pub(crate) fn chain() -> Chain {
    let mut chain = Chain::new(JOB);
    let mut append = |ts_ms, kind, data| chain.append(ts_ms, kind, value(data)).map(drop).unwrap();
    append(1_700_000_000_000, EventKind::Accepted, r#"{"language":"python"}"#);
    append(1_700_000_000_040, EventKind::Started, r#"{"isolation_class":"gvisor-application-kernel"}"#);
    append(1_700_000_000_061, EventKind::Stdout, r#"{"text":"hello"}"#);
    append(1_700_000_000_062, EventKind::Artifact, r#"{"path":"output/table.csv","size":4}"#);
    append(1_700_000_000_070, EventKind::Finished, r#"{"exit_code":0,"outcome":"succeeded"}"#);
    chain
}

fn seen(bytes: &[u8]) -> StreamSeen {
    StreamSeen { bytes_seen: bytes.len() as u64, raw_sha256: Digest::of(bytes), truncated: false }
}

pub(crate) fn execution() -> Execution {
    let limits = Limits { wall_seconds: Some(15), mem_mb: Some(256), ..Limits::default() };
    let observed = Observed {
        isolation_class: Some("gvisor-application-kernel".to_owned()),
        bootstrap_ready: Some(true),
        networking: Some("disabled".to_owned()),
        effective_limits: Some(limits.clone()),
        limit_enforcement: Some(LimitEnforcement {
            wall_seconds: true,
            cpu_seconds: false,
            mem_mb: true,
            max_pids: false,
            max_file_mb: false,
        }),
        ..Observed::default()
    };
    Execution {
        job_id: JOB.to_owned(),
        requester: TENANT.to_owned(),
        outcome: Outcome::Succeeded,
        exit_code: Some(0),
        killed_by: None,
        created_at_ms: 1_700_000_000_000,
        started_at_ms: Some(1_700_000_000_040),
        finished_at_ms: 1_700_000_000_070,
        duration_ms: Some(30),
        evidence_complete: true,
        requested_limits: limits,
        requirements: Requirements { minimum_isolation: "gvisor-application-kernel".to_owned() },
        language: "python".to_owned(),
        code_sha256: Digest::of(CODE),
        stdin_sha256: Digest::of(b""),
        resource_usage: Some(ResourceUsage {
            wall_time_ms: 30,
            cpu_time_usec: Some(21_000),
            memory_peak_bytes: None,
        }),
        executor_output: Some(ExecutorOutput { stdout: seen(b"hello\n"), stderr: seen(b"") }),
        input_files: Vec::new(),
        artifacts: vec![FileDigest {
            path: "output/table.csv".to_owned(),
            size: 4,
            sha256: Digest::of(b"a,b\n"),
        }],
        observed: Some(observed),
    }
}

pub(crate) fn finished() -> Finished {
    Finished {
        execution: execution(),
        stdout: b"hello\n".to_vec(),
        stderr: Vec::new(),
        truncated: false,
        violations: vec![Violation { rule: "example".to_owned(), detail: "caf\u{e9} \"quoted\"".to_owned() }],
        chain: chain(),
    }
}

pub(crate) fn attestation() -> Attestation {
    attest(finished(), &key(1)).unwrap()
}

/// The statement that was signed, as a document.
pub(crate) fn payload(attestation: &Attestation) -> Value {
    let envelope = Envelope::parse(attestation.envelope.as_bytes()).unwrap();
    Value::parse(&envelope.payload, &limits::STATEMENT).unwrap()
}

//! What must hold for any bytes that a peer, a person or a file may give a decoder: it returns, and what it takes it
//! can say again in the same bytes. Run by the fuzzer with bytes that coverage found, and by the property tests
//! beside this crate's others with random ones.
//!
//! A claim returns whether the bytes were taken, so that a seed which is not taken any more is noticed. It panics when
//! a decoder breaks its promise, or does so itself.

#![expect(clippy::unwrap_used, reason = "a broken claim is a panic")]

use std::fmt::Debug;

use ed25519_dalek::SigningKey;
use mesh_protocol::certificate::{CERTIFICATE_BYTES_MAX, Certificate};
use mesh_protocol::codec::{decode, encode, frame, frame_length};
use mesh_protocol::delivery::{ToReceiver, ToSender};
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::canonical::Value;
use mesh_protocol::evidence::dsse::Envelope;
use mesh_protocol::evidence::limits;
use mesh_protocol::evidence::statement::Statement;
use mesh_protocol::evidence::trust::TrustSet;
use mesh_protocol::evidence::verify::{Expected, verify};
use mesh_protocol::hello::{Hello, HelloAck};
use mesh_protocol::id::NodeId;
use mesh_protocol::job::{JOB_DOCUMENT_BYTES_MAX, JobDocument, JobSpec};
use mesh_protocol::join::{JoinReply, JoinRequest};
use mesh_protocol::limits::{
    CONTROL_FRAME_BYTES_MAX, DATAGRAM_BYTES_MAX, PARCEL_FRAME_BYTES_MAX, QUESTION_FRAME_BYTES_MAX,
};
use mesh_protocol::message::PeerMessage;
use mesh_protocol::probe::Probe;
use mesh_protocol::question::{Answer, Question};
use mesh_protocol::record::{NodeRecord, RECORD_VERSION, SignedRecord};
use mesh_protocol::revocation::RevocationList;
use mesh_protocol::root::RootKey;
use mesh_protocol::sync::SyncFrame;
use mesh_protocol::ticket::{TICKET_LINE_MAX, Ticket};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What holds for any bytes; whether they were taken.
pub(crate) type Claim = fn(&[u8]) -> bool;

/// Every claim, by the name of its target and of the folder of its seeds.
pub(crate) const CLAIMS: &[(&str, Claim)] = &[
    ("certificate", certificate),
    ("delivery", delivery),
    ("evidence", evidence),
    ("frame", framed),
    ("hello", hello),
    ("job", job),
    ("join", join),
    ("message", message),
    ("probe", probe),
    ("question", question),
    ("record", record),
    ("revocation", revocation),
    ("spec", spec),
    ("statement", statement),
    ("sync", sync),
    ("ticket", ticket),
];

/// The root that the claims trust.
pub(crate) fn root() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

/// The one member it let in.
pub(crate) fn member() -> SigningKey {
    SigningKey::from_bytes(&[42; 32])
}

/// Whose evidence is believed: it signed the golden bundle.
fn signer() -> SigningKey {
    SigningKey::from_bytes(&[1; 32])
}

/// The root's public key.
pub(crate) fn trusted() -> RootKey {
    RootKey::from_bytes(root().verifying_key().to_bytes())
}

/// The node with this key.
pub(crate) fn id_of(key: &SigningKey) -> NodeId {
    NodeId::from_bytes(key.verifying_key().to_bytes())
}

/// One value, one encoding.
fn taken<T: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) -> Option<T> {
    let value = decode::<T>(bytes).ok()?;
    assert_eq!(encode(&value), bytes, "{value:?} was taken from other bytes than its own");
    Some(value)
}

/// A length is believed only under its limit, and a body goes through a frame unchanged.
fn framed(bytes: &[u8]) -> bool {
    let Some((header, body)) = bytes.split_first_chunk::<4>() else { return false };
    let mut whole = false;
    for limit in [CONTROL_FRAME_BYTES_MAX, QUESTION_FRAME_BYTES_MAX, PARCEL_FRAME_BYTES_MAX] {
        if let Ok(length) = frame_length(*header, limit) {
            assert!(length <= limit);
            whole |= length == body.len() && frame(body, limit).unwrap() == bytes;
        }
    }
    whole
}

fn sync(bytes: &[u8]) -> bool {
    let Ok(frame) = SyncFrame::decode(bytes) else { return false };
    assert_eq!(frame.encode(), bytes);
    if let SyncFrame::Offer { records, .. } | SyncFrame::Records { records, .. } = frame {
        records.into_iter().for_each(|signed| drop(signed.verify(&trusted())));
    }
    true
}

fn probe(bytes: &[u8]) -> bool {
    let Ok(probe) = Probe::decode(bytes) else { return false };
    assert_eq!(probe.encode(), bytes);
    assert!(bytes.len() <= DATAGRAM_BYTES_MAX);
    true
}

fn delivery(bytes: &[u8]) -> bool {
    taken::<ToReceiver>(bytes).is_some() | taken::<ToSender>(bytes).is_some()
}

fn message(bytes: &[u8]) -> bool {
    taken::<PeerMessage>(bytes).is_some()
}

fn question(bytes: &[u8]) -> bool {
    let asked = taken::<Question>(bytes);
    if let Some(Question::Revocations(list)) = &asked {
        drop(RevocationList::succeed(list, &trusted(), None));
    }
    asked.is_some() | taken::<Answer>(bytes).is_some()
}

fn hello(bytes: &[u8]) -> bool {
    taken::<Hello>(bytes).is_some() | taken::<HelloAck>(bytes).is_some()
}

fn join(bytes: &[u8]) -> bool {
    decode::<JoinRequest>(bytes).is_ok() | taken::<JoinReply>(bytes).is_some()
}

/// No bytes verify as they come; contents that a member signs verify exactly when it may say them.
fn record(bytes: &[u8]) -> bool {
    let unsigned = SignedRecord { body: bytes.to_vec(), signature: [0; 64] };
    assert!(unsigned.verify(&trusted()).is_err());
    let Some((&RECORD_VERSION, rest)) = bytes.split_first() else { return false };
    let Some(record) = taken::<NodeRecord>(rest) else { return false };
    let Ok(signed) = record.sign(&member()) else { return false };
    let ours = record.mesh == trusted().mesh()
        && record.node == id_of(&member())
        && record.certificate == Certificate::bare(&root(), record.node);
    assert_eq!(signed.body, bytes);
    assert_eq!(signed.verify(&trusted()).is_ok(), ours);
    ours
}

/// A leaf as a founder issues it: root [`root`], node [`member`].
const LEAF: &[u8] = include_bytes!("seeds/certificate/leaf");

/// Signatures bind every byte: no certificate lets anyone in but the two that the root ever signed.
fn certificate(bytes: &[u8]) -> bool {
    let certificate = Certificate::from_der(bytes.to_vec());
    let Ok(node) = certificate.verify(&trusted()) else { return false };
    assert!(bytes.len() <= CERTIFICATE_BYTES_MAX);
    assert_eq!(node, id_of(&member()));
    assert!(bytes == LEAF || certificate == Certificate::bare(&root(), node));
    true
}

/// A list that is taken says itself again, and none is newer than itself.
fn revocation(bytes: &[u8]) -> bool {
    let ver = RevocationList::ver_of(bytes);
    let Ok(list) = RevocationList::verify(bytes, &trusted()) else { return false };
    assert_eq!((list.as_bytes(), Some(list.ver())), (bytes, ver));
    assert!(list.entries().iter().all(|entry| list.names(entry.node)));
    assert!(RevocationList::succeed(bytes, &trusted(), Some(&list)).is_err());
    true
}

fn ticket(bytes: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(bytes) else { return false };
    let Ok(ticket) = line.parse::<Ticket>() else { return false };
    let again = ticket.to_line();
    assert!(again.len() <= TICKET_LINE_MAX);
    assert!(again.parse::<Ticket>().unwrap() == ticket);
    true
}

/// A job that is taken is within every bound, has one fingerprint whichever way it is written, and comes back from a
/// wire as itself.
fn job(bytes: &[u8]) -> bool {
    let Ok(document) = serde_json::from_slice::<JobDocument>(bytes) else { return false };
    let Ok(spec) = document.into_spec() else { return false };
    assert_eq!(spec.check(), Ok(()));
    assert!(spec.bytes() <= JOB_DOCUMENT_BYTES_MAX);
    let fingerprint = spec.fingerprint().unwrap();
    let again = serde_json::to_vec(&spec).unwrap();
    let again = serde_json::from_slice::<JobDocument>(&again).unwrap().into_spec().unwrap();
    assert_eq!((&again, again.fingerprint().unwrap()), (&spec, fingerprint));
    assert_eq!(decode::<JobSpec>(&encode(&spec)).unwrap(), spec);
    assert_eq!(spec.limits.clamped().clamped(), spec.limits.clamped());
    true
}

/// A job as a peer sends it: one that passes the check its receiver makes has a fingerprint, and written as a document
/// it is the same job.
fn spec(bytes: &[u8]) -> bool {
    let Some(spec) = taken::<JobSpec>(bytes) else { return false };
    if spec.check().is_err() {
        return false;
    }
    let document = serde_json::to_vec(&spec).unwrap();
    let again = serde_json::from_slice::<JobDocument>(&document).unwrap().into_spec().unwrap();
    assert_eq!((&again, again.fingerprint().unwrap()), (&spec, spec.fingerprint().unwrap()));
    true
}

/// A statement that is taken is about its own receipt: its first subject is the result, the others the files in the
/// receipt, and it says itself again.
fn statement(bytes: &[u8]) -> bool {
    let Ok(statement) = Statement::parse(bytes) else { return false };
    let receipt = &statement.predicate.receipt;
    assert_eq!(receipt.execution.job_id, statement.predicate.execution_id);
    assert_eq!(statement.subject.len(), receipt.execution.artifacts.len() + 1);
    let again = statement.to_canonical().unwrap();
    assert_eq!(Statement::parse(again.as_bytes()).unwrap().to_canonical().unwrap(), again);
    true
}

/// Documents have one form: what was read and is written again reads as itself. Nobody whom the claims do not trust
/// verifies.
fn evidence(bytes: &[u8]) -> bool {
    let trust = TrustSet::node(&id_of(&signer())).unwrap();
    if let Ok(value) = Value::parse(bytes, &limits::BUNDLE) {
        let canonical = value.to_canonical();
        assert_eq!(Value::parse(canonical.as_bytes(), &limits::BUNDLE).unwrap(), value);
    }
    if let Ok(statement) = Statement::parse(bytes) {
        let again = statement.to_canonical().unwrap();
        assert_eq!(Statement::parse(again.as_bytes()).unwrap().to_canonical().unwrap(), again);
    }
    let _ = Envelope::parse(bytes);
    let bundled = Bundle::parse(bytes).is_ok_and(|bundle| {
        let again = bundle.to_json().unwrap();
        assert_eq!(Bundle::parse(again.as_bytes()).unwrap().to_json().unwrap(), again);
        bundle.verify(&trust, None, None).is_ok()
    });
    bundled | verify(bytes, &trust, &Expected::default()).is_ok()
}

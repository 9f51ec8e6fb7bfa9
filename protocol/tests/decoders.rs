//! The claims of the fuzzer about every decoder, without a fuzzer: on its seeds, on seeds that were changed a little,
//! and on random bytes.
//!
//! The seeds are golden: each is written here by its encoder, and the file has to hold the same bytes.
//! `MESH_WRITE_SEEDS=1` writes them, for a format that is new.

#![expect(clippy::unwrap_used, reason = "a broken test should stop")]

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use mesh_protocol::address::Name;
use mesh_protocol::certificate::Certificate;
use mesh_protocol::codec::{encode, frame};
use mesh_protocol::delivery::{
    Ack, Busy, BusyReason, Chain, Content, Epoch, Gap, Open, Parcel, Resume, ToReceiver, ToSender,
};
use mesh_protocol::evidence::artifact::Violation;
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::dsse::Envelope;
use mesh_protocol::evidence::receipt::FileDigest;
use mesh_protocol::flight::{FailureCode, FlightOutcome};
use mesh_protocol::hello::{Features, Hello, HelloAck, MINORS};
use mesh_protocol::id::{ConversationId, FlightId, JobId, MessageId, TicketId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{
    Contents, InputFile, JobDocument, JobResult, JobSpec, JobStatus, Language, OutputFile,
};
use mesh_protocol::join::{Admitted, JoinProof, JoinRefusal, JoinReply, JoinRequest};
use mesh_protocol::message::{AskRequest, Hop, JobRequest, PeerMessage, Post, Requester, StopReason};
use mesh_protocol::peer::BootId;
use mesh_protocol::policy::{Grant, Trust};
use mesh_protocol::probe::{Accusation, Probe, Standing};
use mesh_protocol::question::{Answer, Question};
use mesh_protocol::record::{
    AdvertisedAgent, Advertisement, AgentState, Capabilities, Lifecycle, Load, NodeRecord, ProtocolRange,
    RecordVersion, SignedRecord,
};
use mesh_protocol::revocation::{Revocation, RevocationKey, RevocationList};
use mesh_protocol::root::RevokerGrant;
use mesh_protocol::sync::{DigestRow, Liveness, SyncFrame, VersionMark};
use mesh_protocol::ticket::{Ticket, TicketKey};
use proptest::prelude::*;
use zeroize::Zeroizing;

#[path = "../fuzz/claims.rs"]
mod claims;

use claims::{CLAIMS, Claim, id_of, member, root, trusted};

const EPOCH: Epoch = Epoch([0xe0; 16]);

/// Values whose encodings are seeds, by target and name.
fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut all = vec![
        ("certificate", "bare", certificate().as_der().to_vec()),
        ("frame", "short", frame(b"body", 100).unwrap()),
        ("frame", "empty", frame(b"", 100).unwrap()),
        ("record", "full", record().body),
        ("ticket", "line", ticket().to_line().as_bytes().to_vec()),
    ];
    all.extend(documents());
    all.extend(deliveries());
    all.extend(greetings());
    all.extend(messages());
    all.extend(gossip());
    all.extend(revocations());
    all
}

/// Jobs and statements, as their readers find them in JSON.
fn documents() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let least = br#"{"language":"bash","code":"true"}"#;
    let full = br#"{"language":"python","code":"print(1)","stdin":"x","limits":{"wall_seconds":1,"mem_mb":99999999999},
"requirements":{"minimum_isolation":"linux-shared-kernel"},"files":[{"path":"input/a","content_base64":"AAE="}],
"outputs":["output/b"],"runtime":"science"}"#;
    let bundle = std::fs::read(folder().join("evidence/bundle")).unwrap();
    let envelope = Bundle::parse(&bundle).unwrap().envelope;
    let statement = Envelope::parse(envelope.as_bytes()).unwrap().payload;
    let sent = |document: &[u8]| {
        encode(&serde_json::from_slice::<JobDocument>(document).unwrap().into_spec().unwrap())
    };
    vec![
        ("job", "least", least.to_vec()),
        ("job", "full", full.to_vec()),
        ("spec", "least", sent(least)),
        ("spec", "full", sent(full)),
        ("statement", "golden", statement),
    ]
}

fn deliveries() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let message = MessageId::from_bytes([0xaa; 16]);
    let parcel = |content| encode(&ToReceiver::Parcel(Parcel { seq: 8, acked: 7, message, content }));
    let chain = Chain([0xc0; 16]);
    let (open, gap) = (Open { epoch: EPOCH, next: 300, acked: 7, session: 1 }, Gap { from: 2, to: 5, chain });
    let before = Some(Ack { epoch: Epoch([0xe1; 16]), mark: 9 });
    let resume = Resume { epoch: EPOCH, mark: 7, chain, tombstones: 2, before };
    let busy = Busy { reason: BusyReason::Quota, retry_after_ms: 500 };
    vec![
        ("delivery", "open", encode(&ToReceiver::Open(open))),
        ("delivery", "parcel", parcel(Content::Body(vec![1, 2, 3]))),
        ("delivery", "tombstone", parcel(Content::Tombstone)),
        ("delivery", "gap", encode(&ToReceiver::Gap(gap))),
        ("delivery", "resume", encode(&ToSender::Resume(resume))),
        ("delivery", "ack", encode(&ToSender::Ack(Ack { epoch: EPOCH, mark: 7 }))),
        ("delivery", "busy", encode(&ToSender::Busy(busy))),
    ]
}

fn greetings() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let version = RecordVersion { epoch: 3, ver: 300 };
    let (mesh, node) = (trusted().mesh(), id_of(&member()));
    let (features, boot, frame_bytes_max) = (Features::RELAY, BootId(4), 65_536);
    let hello =
        Hello { minors: MINORS, features, mesh, node, boot, dial: 5, record: version, frame_bytes_max };
    let observed = "127.0.0.1:4000".parse().unwrap();
    let ack = HelloAck { minor: 1, features, node, boot, record: version, frame_bytes_max, observed };
    let ticket = ticket();
    let proof = JoinProof::make(&ticket.secret, &[6; 32], node, ticket.id);
    let request = JoinRequest { ticket: ticket.id, expires_wall_ms: ticket.expires_wall_ms, proof };
    let admitted = Admitted {
        leaf: certificate().as_der().to_vec(),
        root: vec![1, 2, 3],
        revocations: None,
        addresses: vec![observed],
        record: encode(&record()),
    };
    let list = || encode(&Question::Revocations(revoked(2).as_bytes().to_vec()));
    vec![
        ("hello", "hello", encode(&hello)),
        ("hello", "ack", encode(&ack)),
        ("join", "request", encode(&request)),
        ("join", "admitted", encode(&JoinReply::Admitted(admitted))),
        ("join", "refused", encode(&JoinReply::Refused(JoinRefusal::Expired))),
        ("join", "unproven", encode(&JoinReply::Unproven)),
        ("question", "revocations", list()),
        ("question", "grant", encode(&Question::Grant)),
        ("question", "granted", encode(&Answer::Grant(Grant::from(Trust::Mine)))),
        ("question", "list", encode(&Answer::Revocations(revoked(2).as_bytes().to_vec()))),
    ]
}

fn messages() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let (flight, job) = (FlightId::from_bytes([1; 16]), JobId::from_bytes([2; 16]));
    let (conversation, message) = (ConversationId::from_bytes([3; 16]), MessageId::from_bytes([4; 16]));
    let from = Requester { name: "alice".to_owned() };
    let to: Name = "reviewer".parse().unwrap();
    let post = Post { conversation, message, from: from.clone(), to: to.clone(), body: "hello".to_owned() };
    let hops = vec![Hop { node: id_of(&member()), agent: "planner".to_owned() }];
    let task = "read this".to_owned();
    let ask =
        AskRequest { flight, conversation, message, from: from.clone(), to, task, remaining_ms: 9, hops };
    let spec = JobSpec {
        files: vec![InputFile { path: "input/a".to_owned(), content: Contents(vec![1, 2]) }],
        outputs: vec!["output/b".to_owned()],
        runtime: Some("science".to_owned()),
        ..JobSpec::new(Language::Python, "print(1)")
    };
    let artifact = FileDigest { path: "output/b".to_owned(), size: 1, sha256: Digest::of(b"b") };
    let left = OutputFile { path: "output/b".to_owned(), content: Contents(b"b".to_vec()) };
    let outcome = FlightOutcome::Failed {
        code: FailureCode::NodeRestarted,
        detail: "restarted".to_owned(),
        remediation: None,
        may_have_run: true,
    };
    let result = JobResult {
        status: JobStatus::Succeeded,
        exit_code: Some(0),
        killed_by: None,
        stdout: "1\n".to_owned(),
        stderr: String::new(),
        truncated: false,
        duration_ms: 40,
        isolation: Some(IsolationClass::GvisorApplicationKernel),
        may_have_run: true,
        violations: vec![Violation { rule: "files".to_owned(), detail: "too many".to_owned() }],
        artifacts: vec![artifact],
    };
    let messages = [
        ("post", PeerMessage::Post(post)),
        ("ask", PeerMessage::Ask(ask)),
        ("run-started", PeerMessage::RunStarted { flight }),
        ("run-ended", PeerMessage::RunEnded { flight, outcome }),
        ("stop-run", PeerMessage::StopRun { flight, reason: StopReason::DeadlinePassed }),
        ("job", PeerMessage::Job(JobRequest { job, from, spec, remaining_ms: 300 })),
        ("job-started", PeerMessage::JobStarted { job }),
        ("job-ended", PeerMessage::JobEnded { job, result, evidence: b"{}".to_vec(), outputs: vec![left] }),
        ("post-refused", PeerMessage::PostRefused { conversation, message, detail: "full".to_owned() }),
        ("stop-job", PeerMessage::StopJob { job, reason: StopReason::Requested }),
        ("job-events", PeerMessage::JobEvents { job, events: vec!["{}".to_owned()] }),
        ("part", PeerMessage::Part { of: message, index: 1, bytes: vec![1, 2] }),
        ("whole", PeerMessage::Whole { of: message, parts: 2, sha256: [7; 32] }),
        ("unassembled", PeerMessage::Unassembled { of: message }),
    ];
    messages.map(|(name, message)| ("message", name, encode(&message))).into()
}

fn gossip() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let version = RecordVersion { epoch: 3, ver: 300 };
    let standing = Standing { version, accusations: vec![Accusation { node: id_of(&member()), version }] };
    let mark = VersionMark::new(version, [1, 2]);
    let row = DigestRow { prefix: [9; 8], mark, liveness: Liveness::Unsaid };
    let (records, wanted) = (vec![record()], vec![[9; 8]]);
    let frames = [
        ("root", SyncFrame::Root([5; 16])),
        ("same", SyncFrame::Same),
        ("digest", SyncFrame::Digest(vec![row])),
        ("offer", SyncFrame::Offer { wanted, records: records.clone(), last: true }),
        ("records", SyncFrame::Records { records, last: false }),
    ];
    let probes = [
        ("ping", Probe::Ping { seq: 300, standing: standing.clone() }),
        ("ack", Probe::Ack { seq: 300, standing }),
    ];
    let frames = frames.map(|(name, frame)| ("sync", name, frame.encode()));
    frames.into_iter().chain(probes.map(|(name, probe)| ("probe", name, probe.encode()))).collect()
}

fn revocations() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let revoker = member();
    let grant = RevokerGrant::sign(&root(), revoker.verifying_key().to_bytes());
    let by_revoker = RevocationKey::Revoker(&revoker, &grant);
    let list = RevocationList::sign(&by_revoker, trusted().mesh(), 300, Vec::new()).unwrap();
    vec![
        ("revocation", "by-root", revoked(2).as_bytes().to_vec()),
        ("revocation", "by-revoker", list.as_bytes().to_vec()),
    ]
}

fn revoked(ver: u64) -> RevocationList {
    let entry = Revocation { node: id_of(&member()), reason: "stolen".to_owned(), at_wall_ms: 300 };
    RevocationList::sign(&RevocationKey::Root(&root()), trusted().mesh(), ver, vec![entry]).unwrap()
}

fn certificate() -> Certificate {
    Certificate::bare(&root(), id_of(&member()))
}

fn record() -> SignedRecord {
    let agent = AdvertisedAgent {
        name: "reviewer".parse().unwrap(),
        harness: "command".to_owned(),
        state: AgentState::Offline("its program is missing".to_owned()),
        description: "reads diffs".to_owned(),
    };
    let advertisement = Advertisement {
        name: "atlas".parse().unwrap(),
        addresses: vec!["192.0.2.7:4433".parse().unwrap(), "[2001:db8::1]:4433".parse().unwrap()],
        protocol: ProtocolRange { min: 1, max: 2 },
        build: "0.1.0".to_owned(),
        capabilities: Capabilities::default(),
        load: Load { running: 1, queued: 0 },
        agents: vec![agent],
    };
    let record = NodeRecord {
        mesh: trusted().mesh(),
        node: id_of(&member()),
        certificate: certificate(),
        version: RecordVersion { epoch: 3, ver: 9 },
        lifecycle: Lifecycle::Up,
        advertisement,
        wall_ms: 1_700_000_000_000,
    };
    record.sign(&member()).unwrap()
}

fn ticket() -> Ticket {
    let (id, root) = (TicketId::from_bytes([8; 16]), trusted().fingerprint());
    let secret = TicketKey::new(Zeroizing::new([5; 32])).secret_of(id, 99_000, root.mesh());
    let addresses = vec!["192.0.2.7:4434".parse().unwrap()];
    Ticket { id, root, issuer: id_of(&member()), addresses, expires_wall_ms: 99_000, secret }
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds"))
}

/// Every seed there is, with its claim.
fn stored_seeds() -> Vec<(String, Claim, Vec<u8>)> {
    let mut all = Vec::new();
    for (target, claim) in CLAIMS {
        for entry in std::fs::read_dir(folder().join(target)).unwrap() {
            let path = entry.unwrap().path();
            all.push((path.display().to_string(), *claim, std::fs::read(path).unwrap()));
        }
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

#[test]
fn the_bytes_of_everything_on_a_wire_never_change() {
    for (target, name, bytes) in seeds() {
        let path = folder().join(target).join(name);
        if std::env::var_os("MESH_WRITE_SEEDS").is_some() {
            std::fs::create_dir_all(folder().join(target)).unwrap();
            std::fs::write(&path, &bytes).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "{} is not what is encoded now", path.display());
    }
}

#[test]
fn every_decoder_has_seeds_and_takes_them() {
    let stored = stored_seeds();
    for (path, claim, bytes) in &stored {
        assert!(claim(bytes), "{path} is not taken");
    }
    let folders: BTreeSet<_> = stored.iter().map(|(path, ..)| path.rsplit('/').nth(1).unwrap()).collect();
    assert_eq!(folders.len(), CLAIMS.len());
}

/// What the fuzzer found to be different ways through a decoder: one archive a claim.
fn corpus(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::File::open(path).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let read = |entry: std::io::Result<tar::Entry<_>>| {
        let mut bytes = Vec::new();
        entry.unwrap().read_to_end(&mut bytes).map(|_| bytes).unwrap()
    };
    archive.entries().unwrap().map(read).collect()
}

#[test]
fn every_claim_holds_for_what_the_fuzzer_found() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpora"));
    let mut archives = 0;
    for (target, claim) in CLAIMS {
        let path = folder.join(format!("{target}.tar.gz"));
        if path.exists() {
            archives += 1;
            let inputs = corpus(&path);
            assert!(inputs.len() > 20, "{} has lost its inputs", path.display());
            for bytes in inputs {
                claim(&bytes);
            }
        }
    }
    assert_eq!(archives, std::fs::read_dir(folder).unwrap().count(), "an archive is nobody's");
}

#[test]
fn a_seed_cut_or_lengthened_is_never_taken_for_another_value_in_silence() {
    for (_, claim, bytes) in stored_seeds() {
        for cut in 0..bytes.len() {
            claim(&bytes[..cut]);
        }
        claim(&[bytes.as_slice(), &[0]].concat());
    }
}

proptest! {
    #[test]
    fn every_claim_holds_for_random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        for (_, claim) in CLAIMS {
            claim(&bytes);
        }
    }

    #[test]
    fn every_claim_holds_for_seeds_changed_a_little(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let stored = stored_seeds();
        let (_, claim, mut bytes) = stored[which.index(stored.len())].clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        claim(&bytes);
    }
}

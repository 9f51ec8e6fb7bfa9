//! Claims about signed node records.

#![expect(clippy::unwrap_used, reason = "a broken test should stop")]

use std::net::SocketAddr;

use ed25519_dalek::SigningKey;
use mesh_protocol::certificate::{Certificate, CertificateError};
use mesh_protocol::id::NodeId;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::Language;
use mesh_protocol::record::{
    AdvertisedAgent, Advertisement, AgentState, Capabilities, DESCRIPTION_BYTES_MAX, Lifecycle, Load,
    MembershipError, NodeRecord, ProtocolRange, RECORD_BYTES_MAX, RecordError, RecordVersion, SignedRecord,
    Unchecked,
};
use mesh_protocol::root::RootKey;
use proptest::prelude::*;
use sha2::Digest as _;

fn key() -> SigningKey {
    SigningKey::from_bytes(&[42; 32])
}

fn root() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn trusted() -> RootKey {
    RootKey::from_bytes(root().verifying_key().to_bytes())
}

fn id_of(key: &SigningKey) -> NodeId {
    NodeId::from_bytes(key.verifying_key().to_bytes())
}

fn record() -> NodeRecord {
    NodeRecord {
        mesh: trusted().mesh(),
        node: id_of(&key()),
        certificate: Certificate::bare(&root(), id_of(&key())),
        version: RecordVersion { epoch: 3, ver: 9 },
        lifecycle: Lifecycle::Up,
        advertisement: Advertisement {
            name: "atlas".parse().unwrap(),
            addresses: vec!["192.0.2.7:4433".parse().unwrap(), "[2001:db8::1]:4433".parse().unwrap()],
            protocol: ProtocolRange { min: 1, max: 2 },
            build: "0.1.0".to_owned(),
            capabilities: Capabilities {
                isolation_classes: vec![IsolationClass::GvisorApplicationKernel],
                languages: vec![Language::Python, Language::Bash],
                slots: 2,
                memory_mb: 1_024,
            },
            load: Load { running: 1, queued: 0 },
            agents: vec![AdvertisedAgent {
                name: "reviewer".parse().unwrap(),
                harness: "command".to_owned(),
                state: AgentState::Offline("its program is missing".to_owned()),
                description: "reads diffs".to_owned(),
            }],
        },
        wall_ms: 1_700_000_000_000,
    }
}

fn refusal(change: impl FnOnce(&mut Advertisement)) -> RecordError {
    let mut changed = record();
    change(&mut changed.advertisement);
    changed.sign(&key()).unwrap_err()
}

#[test]
fn a_signed_record_verifies_to_itself() {
    let verified = record().sign(&key()).unwrap().verify(&trusted()).unwrap();
    assert_eq!(verified.record(), &record());
}

#[test]
fn the_bytes_of_a_record_never_change() {
    let signed = record().sign(&key()).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let golden = [
        "02",                                                               // version of the encoding
        "30e318af2a11f1fe2d0d12e32a8bb42e",                                 // mesh
        "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d61", // node
        "900130818d3041a003020102020101300506032b6570300030003000", // certificate: its length, fields,
        "302a300506032b6570032100",                                 // the subject's key,
        "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d61",
        "300506032b6570034100", // and the root's signature
        "2e2c3d515b4d7b54f5495f6086c342497c09668f67adff28c268b5ab69bf5ef7",
        "0fdf27391fa7d646c9c70c96534908f5fb41ff6c75dfc80715c86496bb85d60c",
        "030900",                                           // epoch 3, version 9, up
        "0561746c6173",                                     // name
        "0200c0000207d12201",                               // two addresses, the first,
        "20010db8000000000000000000000001d122",             // and the second
        "010205302e312e30",                                 // protocol 1 to 2, build
        "0101020002028008",                                 // isolation, languages, slots, memory
        "0100",                                             // load
        "01087265766965776572",                             // one agent, its name,
        "07636f6d6d616e64",                                 // its harness,
        "01166974732070726f6772616d206973206d697373696e67", // offline and why,
        "0b7265616473206469666673",                         // its description
        "80d095ffbc31",                                     // wall clock
    ];
    assert_eq!(hex(&signed.body), golden.concat());
    let signature = hex(&sha2::Sha256::digest(signed.signature));
    assert_eq!(
        signature, "540284d496d8b1453c3fdc6c56c1ac25ab1bcdbf17ec27405147643cd1031ad6",
        "Ed25519 signatures are deterministic"
    );
}

#[test]
fn a_record_changed_in_any_byte_is_refused() {
    let signed = record().sign(&key()).unwrap();
    for index in 0..signed.body.len() {
        let mut forged = signed.clone();
        forged.body[index] ^= 1;
        assert!(forged.verify(&trusted()).is_err(), "byte {index}");
    }
    let mut forged = signed;
    forged.signature[0] ^= 1;
    assert!(matches!(forged.verify(&trusted()), Err(RecordError::ForeignSignature { .. })));
}

#[test]
fn a_record_signed_by_another_key_is_refused_by_name() {
    let signed = record().sign(&SigningKey::from_bytes(&[1; 32])).unwrap();
    assert_eq!(signed.verify(&trusted()), Err(RecordError::ForeignSignature { node: record().node }));
}

#[test]
fn a_record_of_another_mesh_is_refused_by_name() {
    let signed = record().sign(&key()).unwrap();
    let other = RootKey::from_bytes(key().verifying_key().to_bytes());
    assert_eq!(signed.verify(&other), Err(RecordError::OtherMesh { found: trusted().mesh() }));
}

#[test]
fn only_the_signatures_that_were_not_checked_before_are_checked() {
    let forged = Certificate::bare(&key(), id_of(&key()));
    let signed = NodeRecord { certificate: forged, ..record() }.sign(&key()).unwrap();
    assert!(signed.clone().verify_unchecked(&trusted(), |_, _| Unchecked::Both).is_err());
    let taken = signed.verify_unchecked(&trusted(), |_, _| Unchecked::Owner);
    assert!(taken.unwrap().is_some(), "whoever says so answers for it");
}

#[test]
fn an_oversized_record_is_refused_before_it_is_decoded() {
    let signed = SignedRecord { body: vec![1; RECORD_BYTES_MAX + 1], signature: [0; 64] };
    assert_eq!(signed.verify(&trusted()), Err(RecordError::Oversize { bytes: RECORD_BYTES_MAX + 1 }));
}

#[test]
fn a_record_of_a_later_release_is_refused_as_such() {
    let mut signed = record().sign(&key()).unwrap();
    signed.body[0] = 3;
    let error = signed.verify(&trusted()).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains('3'), "{cause}");
}

#[test]
fn nobody_makes_members_up() {
    let (invented, insider) = (SigningKey::from_bytes(&[1; 32]), record().certificate);
    let refusal = |certificate| {
        let made_up = NodeRecord { node: id_of(&invented), certificate, ..record() };
        match made_up.sign(&invented).unwrap().verify(&trusted()) {
            Err(RecordError::NotAMember { node, cause }) if node == id_of(&invented) => cause,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refusal(insider), MembershipError::OtherNode);
    let by_itself = Certificate::bare(&invented, id_of(&invented));
    assert_eq!(refusal(by_itself), MembershipError::Certificate(CertificateError::ForeignRoot));
    let by_an_insider = Certificate::bare(&key(), id_of(&invented));
    assert_eq!(refusal(by_an_insider), MembershipError::Certificate(CertificateError::ForeignRoot));
    let none = Certificate::from_der(Vec::new());
    assert_eq!(refusal(none), MembershipError::Certificate(CertificateError::Malformed));
}

#[test]
fn an_owner_cannot_sign_what_others_would_refuse() {
    for address in ["0.0.0.0:1", "[::]:1", "224.0.0.1:1", "[ff02::1]:1", "255.255.255.255:1", "10.0.0.1:0"] {
        let address: SocketAddr = address.parse().unwrap();
        assert!(matches!(refusal(|ad| ad.addresses.push(address)), RecordError::Invalid { .. }), "{address}");
    }
    refusal(|ad| ad.addresses = vec!["10.0.0.1:1".parse().unwrap(); 9]);
    refusal(|ad| ad.protocol = ProtocolRange { min: 2, max: 1 });
    refusal(|ad| ad.capabilities.languages = vec![Language::Bash, Language::Bash]);
    refusal(|ad| ad.agents.push(ad.agents[0].clone()));
    refusal(|ad| ad.agents[0].description = "x".repeat(DESCRIPTION_BYTES_MAX + 1));
}

proptest! {
    #[test]
    fn random_bodies_never_panic_and_never_verify(
        body in proptest::collection::vec(any::<u8>(), 0..400),
        signature in any::<[u8; 32]>(),
    ) {
        let signature = [signature, signature].concat().try_into().unwrap();
        let refused = SignedRecord { body, signature }.verify(&trusted()).is_err();
        prop_assert!(refused);
    }

    #[test]
    fn a_record_cut_anywhere_never_verifies(cut in 0_usize..200) {
        let mut signed = record().sign(&key()).unwrap();
        prop_assume!(cut < signed.body.len());
        signed.body.truncate(cut);
        prop_assert!(signed.verify(&trusted()).is_err());
    }
}

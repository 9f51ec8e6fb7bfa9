//! Claims about signed node records.

#![expect(clippy::unwrap_used, reason = "a broken test should stop")]

use std::net::SocketAddr;

use ed25519_dalek::SigningKey;
use mesh_protocol::id::{MeshId, NodeId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::Language;
use mesh_protocol::record::{
    AdvertisedAgent, Advertisement, AgentState, Capabilities, DESCRIPTION_BYTES_MAX, Lifecycle, Load,
    NodeRecord, ProtocolRange, RECORD_BYTES_MAX, RecordError, RecordVersion, SignedRecord,
};
use proptest::prelude::*;
use sha2::Digest as _;

const MESH: MeshId = MeshId::from_bytes([7; 16]);

fn key() -> SigningKey {
    SigningKey::from_bytes(&[42; 32])
}

fn record() -> NodeRecord {
    NodeRecord {
        mesh: MESH,
        node: NodeId::from_bytes(key().verifying_key().to_bytes()),
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
    let verified = record().sign(&key()).unwrap().verify(MESH).unwrap();
    assert_eq!(verified.record(), &record());
}

#[test]
fn the_bytes_of_a_record_never_change() {
    let signed = record().sign(&key()).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let golden = [
        "01",                                                               // version of the encoding
        "07070707070707070707070707070707",                                 // mesh
        "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d61", // node
        "030900",                                                           // epoch 3, version 9, up
        "0561746c6173",                                                     // name
        "0200c0000207d12201",                                               // two addresses, the first,
        "20010db8000000000000000000000001d122",                             // and the second
        "010205302e312e30",                                                 // protocol 1 to 2, build
        "0101020002028008",     // isolation, languages, slots, memory
        "0100",                 // load
        "01087265766965776572", // one agent, its name,
        "07636f6d6d616e64",     // its harness,
        "01166974732070726f6772616d206973206d697373696e67", // offline and why,
        "0b7265616473206469666673", // its description
        "80d095ffbc31",         // wall clock
    ];
    assert_eq!(hex(&signed.body), golden.concat());
    let signature = hex(&sha2::Sha256::digest(signed.signature));
    assert_eq!(
        signature, "a342b0a6c92a8c6aff40fae795eb96ad4b6c4cb5e49cce9e16489c360b3ab08a",
        "Ed25519 signatures are deterministic"
    );
}

#[test]
fn a_record_changed_in_any_byte_is_refused() {
    let signed = record().sign(&key()).unwrap();
    for index in 0..signed.body.len() {
        let mut forged = signed.clone();
        forged.body[index] ^= 1;
        assert!(forged.verify(MESH).is_err(), "byte {index}");
    }
    let mut forged = signed;
    forged.signature[0] ^= 1;
    assert!(matches!(forged.verify(MESH), Err(RecordError::ForeignSignature { .. })));
}

#[test]
fn a_record_signed_by_another_key_is_refused_by_name() {
    let signed = record().sign(&SigningKey::from_bytes(&[1; 32])).unwrap();
    assert_eq!(signed.verify(MESH), Err(RecordError::ForeignSignature { node: record().node }));
}

#[test]
fn a_record_of_another_mesh_is_refused_by_name() {
    let signed = record().sign(&key()).unwrap();
    let other = MeshId::from_bytes([8; 16]);
    assert_eq!(signed.verify(other), Err(RecordError::OtherMesh { found: MESH }));
}

#[test]
fn an_oversized_record_is_refused_before_it_is_decoded() {
    let signed = SignedRecord { body: vec![1; RECORD_BYTES_MAX + 1], signature: [0; 64] };
    assert_eq!(signed.verify(MESH), Err(RecordError::Oversize { bytes: RECORD_BYTES_MAX + 1 }));
}

#[test]
fn a_record_of_a_later_release_is_refused_as_such() {
    let mut signed = record().sign(&key()).unwrap();
    signed.body[0] = 2;
    let error = signed.verify(MESH).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains('2'), "{cause}");
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
        let refused = SignedRecord { body, signature }.verify(MESH).is_err();
        prop_assert!(refused);
    }

    #[test]
    fn a_record_cut_anywhere_never_verifies(cut in 0_usize..200) {
        let mut signed = record().sign(&key()).unwrap();
        prop_assume!(cut < signed.body.len());
        signed.body.truncate(cut);
        prop_assert!(signed.verify(MESH).is_err());
    }
}

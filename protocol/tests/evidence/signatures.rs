//! Envelopes, keys and thresholds.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use ed25519_dalek::{SigningKey, VerifyingKey};
use mesh_protocol::evidence::dsse::{Envelope, EnvelopeError, IN_TOTO, Signature, key_id, pae};
use mesh_protocol::evidence::limits::{MAX_ENVELOPE_BYTES, MAX_SIGNATURES, MAX_TRUSTED_KEYS};
use mesh_protocol::evidence::trust::{TrustError, TrustSet};
use mesh_protocol::evidence::verify::VerifyError;
use mesh_protocol::evidence::{Expected, verify};

use crate::fixture::{attestation, key, trust};

fn public(seeds: &[u8]) -> Vec<VerifyingKey> {
    seeds.iter().map(|seed| key(*seed).verifying_key()).collect()
}

fn envelope() -> Envelope {
    Envelope::parse(attestation().envelope.as_bytes()).unwrap()
}

fn by(signer: &SigningKey, envelope: &Envelope) -> Signature {
    Envelope::sign(&envelope.payload_type, envelope.payload.clone(), signer).signatures.remove(0)
}

fn verdict(envelope: &Envelope, trust: &TrustSet) -> Result<usize, VerifyError> {
    let json = envelope.to_json().unwrap();
    verify(json.as_bytes(), trust, &Expected::default()).map(|verified| verified.signers.len())
}

/// The example in the DSSE specification's protocol document.
#[test]
fn the_pre_authentication_encoding_is_that_of_the_specification() {
    assert_eq!(
        pae("http://example.com/HelloWorld", b"hello world"),
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    );
}

/// RFC 8032, section 7.1, test 1: the key of the empty message.
#[test]
fn a_key_id_is_the_digest_of_the_raw_key() {
    let bytes: [u8; 32] = [
        0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e,
        0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a,
    ];
    let key = VerifyingKey::from_bytes(&bytes).unwrap();
    assert_eq!(key_id(&key), "sha256:21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9");
}

#[test]
fn both_alphabets_of_base64_are_read_but_not_mixed_loose_or_unpadded() {
    let decoded = |payload: &str| {
        let json = format!(r#"{{"payload":"{payload}","payloadType":"t","signatures":[{{"sig":"AAAA"}}]}}"#);
        Envelope::parse(json.as_bytes()).map(|envelope| envelope.payload)
    };
    let bytes = [0xfb, 0xff, 0xfe, 0x00];
    assert_eq!(decoded(&STANDARD.encode(bytes)).unwrap(), bytes);
    assert_eq!(decoded(&URL_SAFE.encode(bytes)).unwrap(), bytes);
    for bad in ["-/8=", "AB==", "AA", "AA=", "A A=", "AAAA\\n", "*"] {
        assert!(matches!(decoded(bad), Err(EnvelopeError::Base64 { member: "payload" })), "{bad}");
    }
}

#[test]
fn an_envelope_has_1_to_32_signatures() {
    let mut envelope = envelope();
    let signature = envelope.signatures.remove(0);
    for count in [0, 1, MAX_SIGNATURES, MAX_SIGNATURES + 1] {
        envelope.signatures = vec![signature.clone(); count];
        let parsed = Envelope::parse(envelope.to_json().unwrap().as_bytes());
        match count {
            0 => assert!(matches!(parsed, Err(EnvelopeError::SignatureCount { count: 0 }))),
            1..=MAX_SIGNATURES => assert!(parsed.is_ok()),
            _ => assert!(matches!(parsed, Err(EnvelopeError::SignatureCount { .. }))),
        }
    }
}

#[test]
fn an_oversized_envelope_is_refused_unread() {
    let bytes = vec![b' '; MAX_ENVELOPE_BYTES + 1];
    let error = verify(&bytes, &trust(&key(1)), &Expected::default()).unwrap_err();
    assert!(matches!(error, VerifyError::EnvelopeTooLarge { .. }));
}

#[test]
fn a_statement_beyond_its_bound_is_refused_before_its_signature_is_tried() {
    let envelope = Envelope::sign(IN_TOTO, vec![b' '; 1024 * 1024 + 1], &key(2));
    assert!(matches!(
        verdict(&envelope, &trust(&key(1))),
        Err(VerifyError::StatementTooLarge { bytes: 1_048_577 })
    ));
}

#[test]
fn the_payload_is_not_read_before_a_signature_is_found() {
    let envelope = Envelope::sign("text/plain", b"not even JSON".to_vec(), &key(2));
    assert!(matches!(
        verdict(&envelope, &trust(&key(1))),
        Err(VerifyError::Signatures { valid: 0, threshold: 1 })
    ));
    assert!(matches!(verdict(&envelope, &trust(&key(2))), Err(VerifyError::PayloadType)));
}

#[test]
fn a_key_id_is_a_hint_and_nothing_more() {
    let mut envelope = envelope();
    for keyid in [None, Some("nonsense".to_owned()), Some(key_id(&key(2).verifying_key()))] {
        envelope.signatures[0].keyid = keyid;
        let trust = TrustSet::new(public(&[3, 2, 1]), 1).unwrap();
        assert_eq!(verdict(&envelope, &trust).unwrap(), 1);
    }
    // The name of a trusted key over a stranger's signature does not help the stranger.
    envelope.signatures = vec![by(&key(9), &envelope)];
    envelope.signatures[0].keyid = Some(key_id(&key(1).verifying_key()));
    assert!(verdict(&envelope, &trust(&key(1))).is_err());
}

#[test]
fn a_threshold_counts_distinct_keys() {
    let mut envelope = envelope();
    let two_of_three = TrustSet::new(public(&[1, 2, 3]), 2).unwrap();
    envelope.signatures.push(envelope.signatures[0].clone());
    let refused = verdict(&envelope, &two_of_three);
    assert!(matches!(refused, Err(VerifyError::Signatures { valid: 1, threshold: 2 })));
    envelope.signatures.push(by(&key(9), &envelope));
    envelope.signatures.push(by(&key(3), &envelope));
    assert_eq!(verdict(&envelope, &two_of_three).unwrap(), 2);
}

#[test]
fn a_signature_of_another_algorithm_is_passed_over() {
    let mut envelope = envelope();
    envelope.signatures.insert(0, Signature { keyid: None, sig: vec![0; 71] });
    assert_eq!(verdict(&envelope, &trust(&key(1))).unwrap(), 1);
}

#[test]
fn a_trust_set_holds_1_to_16_distinct_usable_keys() {
    let seeds: Vec<u8> = (1..=17).collect();
    let refusal = |keys, threshold| TrustSet::new(keys, threshold).unwrap_err();
    assert_eq!(refusal(vec![], 1), TrustError::KeyCount { count: 0 });
    assert_eq!(refusal(public(&seeds), 1), TrustError::KeyCount { count: 17 });
    assert!(TrustSet::new(public(&seeds[..MAX_TRUSTED_KEYS]), MAX_TRUSTED_KEYS).is_ok());
    assert_eq!(refusal(public(&[1, 1]), 1), TrustError::DuplicateKey);
    assert_eq!(refusal(public(&[1, 2]), 0), TrustError::Threshold { threshold: 0, count: 2 });
    assert_eq!(refusal(public(&[1, 2]), 3), TrustError::Threshold { threshold: 3, count: 2 });
    // The neutral element: everyone can make signatures that a lax verifier accepts for it.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    assert_eq!(refusal(vec![VerifyingKey::from_bytes(&neutral).unwrap()], 1), TrustError::WeakKey);
}

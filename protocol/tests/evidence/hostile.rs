//! Bytes from anywhere: never a panic, and one changed byte never passes for the original.

use mesh_protocol::evidence::artifact::ResultArtifact;
use mesh_protocol::evidence::bundle::Bundle;
use mesh_protocol::evidence::dsse::Envelope;
use mesh_protocol::evidence::statement::Statement;
use mesh_protocol::evidence::{Attestation, Expected, verify};
use proptest::prelude::*;

use crate::fixture::{attestation, key, trust};

/// What an envelope's signature covers, and the signature. The rest of the text (a key id, which of two alphabets
/// base64 is in) is not authenticated by DSSE and means nothing to us.
fn substance(envelope: &Envelope) -> (&str, &[u8], Vec<&[u8]>) {
    let signatures = envelope.signatures.iter().map(|signature| signature.sig.as_slice()).collect();
    (&envelope.payload_type, &envelope.payload, signatures)
}

fn passes(envelope: &[u8]) -> bool {
    verify(envelope, &trust(&key(1)), &Expected::default()).is_ok()
}

fn passes_only_if_nothing_signed_changed(original: &str, at: usize, mask: u8) -> bool {
    let mut changed = original.as_bytes().to_vec();
    changed[at] ^= mask;
    !passes(&changed)
        || substance(&Envelope::parse(&changed).unwrap())
            == substance(&Envelope::parse(original.as_bytes()).unwrap())
}

fn artifact_passes(envelope: &str, artifact: &[u8]) -> bool {
    let expected = Expected { artifact: Some(artifact), ..Expected::default() };
    verify(envelope.as_bytes(), &trust(&key(1)), &expected).is_ok()
}

#[test]
fn only_the_key_id_of_an_envelope_may_change_unnoticed() {
    let envelope = attestation().envelope;
    let start = envelope.find("\"keyid\"").unwrap();
    let end = envelope.find(",\"sig\"").unwrap();
    for at in (0..start).chain(end..envelope.len()) {
        let mut changed = envelope.clone().into_bytes();
        changed[at] ^= 1;
        assert!(!passes(&changed), "byte {at}");
    }
}

#[test]
fn one_flipped_bit_in_any_byte_of_an_artifact_is_noticed() {
    let Attestation { envelope, artifact, .. } = attestation();
    assert!(artifact_passes(&envelope, artifact.as_bytes()));
    for at in 0..artifact.len() {
        let mut changed = artifact.clone().into_bytes();
        changed[at] ^= 1;
        assert!(!artifact_passes(&envelope, &changed), "byte {at}");
    }
}

#[test]
fn space_that_means_nothing_in_json_is_noticed_in_an_artifact() {
    let Attestation { envelope, artifact, .. } = attestation();
    assert!(!artifact_passes(&envelope, artifact.replacen(':', ": ", 1).as_bytes()));
    assert!(!artifact_passes(&envelope, format!("{artifact}\n").as_bytes()));
}

proptest! {
    #[test]
    fn any_changed_byte_of_an_envelope_is_noticed(at in any::<prop::sample::Index>(), mask in 1u8..) {
        let envelope = attestation().envelope;
        prop_assert!(passes_only_if_nothing_signed_changed(&envelope, at.index(envelope.len()), mask));
    }

    #[test]
    fn any_changed_byte_of_an_artifact_is_noticed(at in any::<prop::sample::Index>(), mask in 1u8..) {
        let Attestation { envelope, artifact, .. } = attestation();
        let mut artifact = artifact.into_bytes();
        let at = at.index(artifact.len());
        artifact[at] ^= mask;
        prop_assert!(!artifact_passes(&envelope, &artifact));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(!passes(&bytes));
        prop_assert!(Bundle::parse(&bytes).is_err());
        prop_assert!(Statement::parse(&bytes).is_err());
        prop_assert!(ResultArtifact::parse(&bytes).is_err());
    }

    #[test]
    fn no_bundle_with_a_changed_stretch_makes_a_reader_panic(
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 0..16),
        drop in 0usize..16,
    ) {
        let mut bytes = Bundle::of(attestation(), None).to_json().unwrap().into_bytes();
        let at = at.index(bytes.len());
        let end = (at + drop).min(bytes.len());
        bytes.splice(at..end, with);
        if let Ok(bundle) = Bundle::parse(&bytes) {
            let _ = bundle.verify(&trust(&key(1)), None, None);
        }
    }
}

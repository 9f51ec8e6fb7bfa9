//! Who is not a member, and what it learns.

use std::sync::Arc;
use std::time::Duration;

use mesh_node::identity::{Admission, Credentials, MemberVerifier, NodeKey, Refusal, RootCertificate};
use mesh_node::transport::{DialCause, PeerRefusal};
use mesh_node_core::links::FailureKind;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519,
};
use rustls::pki_types::{CertificateDer, UnixTime};

use super::fixture::*;

/// A member of one mesh, who trusts another: it believes the listener, and the listener must not believe it.
fn trusting_stranger(own: &Mesh, other: &Mesh, seed: u8) -> Member {
    let credentials = own.credentials(seed);
    let root = other.root.certificate().clone();
    Member::start(Credentials { root, ..credentials }, START_WALL_MS, settings(seed))
}

#[tokio::test]
async fn a_stranger_sees_a_refused_dial_and_not_a_connection_that_breaks() {
    let (mesh, elsewhere) = (Mesh::new(1), Mesh::new(2));
    let member = mesh.member(1);
    let stranger = trusting_stranger(&elsewhere, &mesh, 9);
    let error = stranger.dial(&member).await.unwrap_err();
    assert_eq!(error.cause, DialCause::Refused(PeerRefusal::NotMember));
    assert_eq!(error.cause.kind(), FailureKind::Refused);
    assert_eq!(error.address, Some(member.address));
    assert_eq!(member.endpoint.counts().refused, 1);
}

#[tokio::test]
async fn a_member_of_another_mesh_is_refused_both_ways() {
    let (mesh, elsewhere) = (Mesh::new(1), Mesh::new(2));
    let (here, there) = (mesh.member(1), elsewhere.member(2));
    for (dialler, listener) in [(&here, &there), (&there, &here)] {
        let error = dialler.dial(listener).await.unwrap_err();
        assert!(matches!(error.cause, DialCause::NotBelieved(Refusal::NotMember(_))), "{error:?}");
    }
    let trusting = trusting_stranger(&mesh, &elsewhere, 3);
    assert_eq!(trusting.dial(&there).await.unwrap_err().cause, DialCause::Refused(PeerRefusal::NotMember));
}

#[tokio::test]
async fn an_expired_or_future_certificate_is_refused_by_either_ends_own_clock() {
    let mesh = Mesh::new(1);
    let today = mesh.member(1);
    for (wall_ms, refusal) in
        [(START_WALL_MS + 11 * YEAR_MS, Refusal::Expired), (START_WALL_MS - YEAR_MS, Refusal::NotYetValid)]
    {
        let other = Member::start(mesh.credentials(2), wall_ms, settings(2));
        assert_eq!(other.dial(&today).await.unwrap_err().cause, DialCause::NotBelieved(refusal));
        let error = today.dial(&other).await.unwrap_err();
        assert_eq!(error.cause, DialCause::Refused(PeerRefusal::OutOfDate));
    }
}

#[tokio::test]
async fn a_certificate_holds_from_the_day_before_its_issue_for_ten_years() {
    let mesh = Mesh::new(1);
    let day_ms = YEAR_MS / 365;
    for wall_ms in [START_WALL_MS - day_ms / 2, START_WALL_MS + 9 * YEAR_MS] {
        let a = Member::start(mesh.credentials(1), wall_ms, settings(1));
        let b = Member::start(mesh.credentials(2), wall_ms, settings(2));
        connect(&a, &b).await;
    }
}

/// A root of the test's own making, to issue what a mesh's root never would.
struct OddRoot(CertifiedIssuer<'static, KeyPair>);

impl OddRoot {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn check(&self, leaf: &CertificateDer<'_>, more: &[CertificateDer<'_>]) -> Result<(), Refusal> {
        let root = RootCertificate::from_der(self.0.der().to_vec()).unwrap();
        let verifier = MemberVerifier::new(&root, Arc::new(Admission::default())).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_millis(START_WALL_MS));
        verifier.check(leaf, more, now).map(|_| ())
    }

    fn leaf(&self, key: &KeyPair, edit: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let hex = data_encoding::HEXLOWER.encode(&key.public_key_raw()[..32]);
        let name = format!("{}.{}.mesh.invalid", &hex[..32], &hex[32..]);
        let mut params = CertificateParams::new(vec![name]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        edit(&mut params);
        params.signed_by(key, &self.0).unwrap().der().clone()
    }
}

#[test]
fn only_an_ed25519_leaf_with_its_own_name_and_use_and_nothing_between_is_a_member() {
    let root = OddRoot::new();
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let good = root.leaf(&key, |_| {});
    assert_eq!(
        root.check(&good, &[]),
        Ok(()),
        "the odd root's good leaf is good, so the rest is refused for cause"
    );

    let ecdsa = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let misnamed = |params: &mut CertificateParams| {
        params.subject_alt_names =
            CertificateParams::new(vec!["a.b.mesh.invalid".to_owned()]).unwrap().subject_alt_names;
    };
    let refused = |leaf: &CertificateDer<'_>, more: &[CertificateDer<'_>]| match root.check(leaf, more) {
        Err(Refusal::NotMember(why)) => why,
        other => panic!("not refused as it should: {other:?}"),
    };
    assert_eq!(refused(&root.leaf(&ecdsa, |_| {}), &[]), "its key is not Ed25519");
    assert_eq!(refused(&root.leaf(&key, misnamed), &[]), "its name is not that of its key");
    assert_eq!(
        refused(&root.leaf(&key, |params| params.extended_key_usages.clear()), &[]),
        "its certificate is for something else"
    );
    assert_eq!(refused(&good, &[root.0.der().clone()]), "more than one certificate");
    assert_eq!(refused(root.0.der(), &[]), "it showed a root's certificate");
    assert_eq!(refused(&CertificateDer::from(vec![0x30, 0x00]), &[]), "its certificate does not verify");
    assert_eq!(refused(&OddRoot::new().leaf(&key, |_| {}), &[]), "the root did not sign its certificate");
}

#[tokio::test]
async fn credentials_that_do_not_fit_together_are_not_even_bound() {
    let mesh = Mesh::new(1);
    let mixed = Credentials { key: NodeKey::from_seed(&[9; 32]), ..mesh.credentials(1) };
    let bound = mesh_node::transport::Endpoint::bind(
        mesh_node::transport::Socket::Udp(loopback_socket()),
        mixed,
        Arc::new(Admission::default()),
        HandClock::at(START_WALL_MS),
        settings(1),
    );
    assert!(matches!(
        bound.unwrap_err(),
        mesh_node::transport::BindError::Tls(mesh_node::identity::TlsError::OtherKey)
    ));
}

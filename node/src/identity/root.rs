//! The founder's key: it makes a mesh, and lets nodes into it by signing a certificate for their id.
//!
//! A leaf is issued from a node id alone, since the id is the public key: the node's private key never travels. It
//! holds for ten years from a day before issue, so a mesh does not die because its founder is away, and a clock a few
//! hours behind still believes it; shutting a node out is the revocation list's work.
//!
//! A root is its key and the moment it was made: Ed25519 signatures are deterministic (RFC 8032), so both together
//! give the same certificate again, byte for byte.

use std::fmt;
use std::time::Duration;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::EncodePrivateKey;
use mesh_protocol::id::NodeId;
use mesh_protocol::revocation::{Revocation, RevocationError, RevocationKey, RevocationList};
use mesh_protocol::root::{RevokerGrant, RootKey};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, PKCS_ED25519, PublicKeyData, SanType, SerialNumber, SignatureAlgorithm,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, TrustAnchor};
use thiserror::Error;
use zeroize::Zeroizing;

use super::certificate::{name_of, node_of_leaf};
use super::{CertificateError, Leaf, NodeKey};

const DAY: Duration = Duration::from_secs(24 * 3_600);
/// How long a leaf holds, from a day before its issue: ten years.
const LEAF_LIFE: Duration = Duration::from_secs(3_653 * 24 * 3_600);
/// How long a root's certificate says it holds: forty years. A trust anchor's dates are not checked (RFC 5280,
/// section 6.1), so this only has to be longer than any leaf.
const ROOT_LIFE: Duration = Duration::from_secs(14_610 * 24 * 3_600);
/// The last moment we date a certificate: the year 2200, far from where date arithmetic ends.
const ISSUE_WALL_MS_MAX: u64 = 7_258_118_400_000;

/// Why a root or a certificate could not be made or read.
#[derive(Debug, Error)]
pub enum RootError {
    /// The key cannot sign certificates.
    #[error("cannot use the root's key")]
    Key(#[source] rcgen::Error),
    /// The certificate cannot be made.
    #[error("cannot issue the certificate")]
    Issue(#[source] rcgen::Error),
    /// The key cannot be encoded.
    #[error("cannot encode the root's key")]
    Encode,
    /// A root's certificate is not one.
    #[error("cannot read the root's certificate")]
    Certificate(#[from] CertificateError),
}

/// The public half of a root: what every member trusts.
#[derive(Clone, PartialEq, Eq)]
pub struct RootCertificate {
    der: CertificateDer<'static>,
    key: RootKey,
}

impl RootCertificate {
    /// Reads a root's certificate. Whether it is the right root, the caller checks by its fingerprint.
    ///
    /// # Errors
    /// [`CertificateError`] when the bytes are no certificate of an Ed25519 key.
    pub fn from_der(der: Vec<u8>) -> Result<Self, CertificateError> {
        let der = CertificateDer::from(der);
        let key = RootKey::from_bytes(*node_of_leaf(&der)?.as_bytes());
        webpki::anchor_from_trusted_cert(&der).map_err(|_| CertificateError::Malformed)?;
        Ok(Self { der, key })
    }

    /// The DER.
    #[must_use]
    pub fn as_der(&self) -> &[u8] {
        &self.der
    }

    /// Its public key, which names the mesh.
    #[must_use]
    pub const fn key(&self) -> &RootKey {
        &self.key
    }

    pub(super) fn to_anchor(&self) -> Result<TrustAnchor<'static>, CertificateError> {
        let anchor = webpki::anchor_from_trusted_cert(&self.der).map_err(|_| CertificateError::Malformed)?;
        Ok(anchor.to_owned())
    }
}

impl fmt::Debug for RootCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootCertificate({})", self.key.mesh())
    }
}

/// The private half: whoever holds it decides who is a member.
pub struct MeshRoot {
    key: SigningKey,
    issuer: CertifiedIssuer<'static, KeyPair>,
    certificate: RootCertificate,
}

impl fmt::Debug for MeshRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MeshRoot({})", self.certificate.key.mesh())
    }
}

impl MeshRoot {
    /// The root with this secret seed, made at this moment. A new mesh when the seed is new; the same root again
    /// when both were stored.
    ///
    /// # Errors
    /// [`RootError`] when the certificate cannot be made.
    pub fn from_seed(seed: &[u8; 32], made_wall_ms: u64) -> Result<Self, RootError> {
        let key = SigningKey::from_bytes(seed);
        let public = RootKey::from_bytes(key.verifying_key().to_bytes());
        let mut params = params(made_wall_ms, ROOT_LIFE);
        params.distinguished_name = named(&format!("mesh root {}", public.mesh()));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.serial_number = Some(serial(public.as_bytes(), made_wall_ms));
        let issuer = CertifiedIssuer::self_signed(params, to_rcgen(&key)?).map_err(RootError::Issue)?;
        let certificate = RootCertificate { der: issuer.der().clone(), key: public };
        Ok(Self { key, issuer, certificate })
    }

    /// The public half.
    #[must_use]
    pub const fn certificate(&self) -> &RootCertificate {
        &self.certificate
    }

    /// Lets a node in: signs a certificate for its id. The same arguments give the same bytes.
    ///
    /// # Errors
    /// [`RootError`] when the certificate cannot be made.
    pub fn issue(&self, node: NodeId, wall_ms: u64) -> Result<Leaf, RootError> {
        let name = name_of(node).try_into().map_err(RootError::Issue)?;
        let mut params = params(wall_ms, LEAF_LIFE);
        params.distinguished_name = named(&node.short());
        params.subject_alt_names = vec![SanType::DnsName(name)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(serial(node.as_bytes(), wall_ms));
        let leaf = params.signed_by(&PublicKey(node), &self.issuer).map_err(RootError::Issue)?;
        Ok(Leaf::from_der(leaf.der().to_vec()))
    }

    /// Names the key that may sign revocation lists beside the root.
    #[must_use]
    pub fn grant_revoker(&self, revoker: [u8; 32]) -> RevokerGrant {
        RevokerGrant::sign(&self.key, revoker)
    }

    /// Signs a revocation list; only one by the root can lift a revocation.
    ///
    /// # Errors
    /// [`RevocationError::Disorder`] when a bound of the list is passed.
    pub fn revoke(&self, ver: u64, entries: Vec<Revocation>) -> Result<RevocationList, RevocationError> {
        RevocationList::sign(&RevocationKey::Root(&self.key), self.certificate.key.mesh(), ver, entries)
    }

    /// The secret seed, to store.
    #[must_use]
    pub fn to_seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.key.to_bytes())
    }
}

/// A node's certificate for itself: says nothing but which key it signs with.
pub(super) fn self_signed(key: &NodeKey) -> Result<Leaf, RootError> {
    let mut params = params(0, ROOT_LIFE);
    params.distinguished_name = named(&key.node().short());
    params.serial_number = Some(serial(key.node().as_bytes(), 0));
    let leaf = params.self_signed(&to_rcgen(key.signing_key())?).map_err(RootError::Issue)?;
    Ok(Leaf::from_der(leaf.der().to_vec()))
}

/// A node id as the public key it is.
struct PublicKey(NodeId);

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

/// An Ed25519 key as the certificate library takes it.
fn to_rcgen(key: &SigningKey) -> Result<KeyPair, RootError> {
    let der = key.to_pkcs8_der().map_err(|_| RootError::Encode)?;
    let der = PrivatePkcs8KeyDer::from(der.as_bytes());
    KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ED25519).map_err(RootError::Key)
}

fn params(wall_ms: u64, life: Duration) -> CertificateParams {
    let issued = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_millis(wall_ms.min(ISSUE_WALL_MS_MAX));
    let mut params = CertificateParams::default();
    params.not_before = issued - DAY;
    params.not_after = issued - DAY + life;
    params
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// A serial of constant length (RFC 5280 wants it unique for its issuer): the moment of issue, after a byte that
/// keeps it positive and its length fixed, and the beginning of the subject's key.
fn serial(subject: &[u8; 32], wall_ms: u64) -> SerialNumber {
    let [_, _, time @ ..] = wall_ms.to_be_bytes();
    let subject = subject.first_chunk::<8>().copied().unwrap_or_default();
    SerialNumber::from_slice(&[[0x40].as_slice(), &time, &subject].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_protocol::certificate::{CERTIFICATE_BYTES_MAX, Certificate};

    #[test]
    fn a_root_is_its_seed_and_its_moment() {
        let root = MeshRoot::from_seed(&[1; 32], 1_700_000_000_000).unwrap();
        let again = MeshRoot::from_seed(&root.to_seed(), 1_700_000_000_000).unwrap();
        assert_eq!(root.certificate(), again.certificate());
        let node = NodeId::from_bytes([3; 32]);
        assert_eq!(
            root.issue(node, 1_800_000_000_000).unwrap(),
            again.issue(node, 1_800_000_000_000).unwrap()
        );
        let read = RootCertificate::from_der(root.certificate().as_der().to_vec()).unwrap();
        assert_eq!(read.key().mesh(), root.certificate().key().mesh());
    }

    #[test]
    fn a_leaf_is_for_the_node_it_was_issued_for_and_as_long_as_any_other() {
        let root = MeshRoot::from_seed(&[1; 32], 0).unwrap();
        let (node, other) = (NodeId::from_bytes([3; 32]), NodeId::from_bytes([0xff; 32]));
        let leaf = root.issue(node, 1_750_000_000_000).unwrap();
        assert_eq!(leaf.node(), Ok(node));
        let certificate = Certificate::from_der(leaf.as_der().to_vec());
        assert_eq!(certificate.verify(root.certificate().key()), Ok(node), "and proves it in its record");
        assert!(leaf.as_der().len() < CERTIFICATE_BYTES_MAX / 2, "with room for what comes");
        assert_eq!(leaf.as_der().len(), root.issue(other, 1_850_000_000_000).unwrap().as_der().len());
    }

    /// The seed of the fuzzer for certificates. `MESH_WRITE_SEEDS=1` writes it, for a leaf that is new.
    #[test]
    fn the_bytes_of_a_leaf_never_change() {
        let root = MeshRoot::from_seed(&[7; 32], 1_700_000_000_000).unwrap();
        let leaf = root.issue(NodeKey::from_seed(&[42; 32]).node(), 1_750_000_000_000).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../protocol/fuzz/seeds/certificate/leaf");
        if std::env::var_os("MESH_WRITE_SEEDS").is_some() {
            std::fs::write(path, leaf.as_der()).unwrap();
        }
        assert_eq!(std::fs::read(path).unwrap(), leaf.as_der());
    }

    #[test]
    fn a_clock_at_the_end_of_time_does_not_stop_the_founder() {
        assert!(MeshRoot::from_seed(&[1; 32], u64::MAX).is_ok());
    }
}

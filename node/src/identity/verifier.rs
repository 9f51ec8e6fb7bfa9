//! How one node believes another: the checks of every handshake, the same at both ends.
//!
//! ```text
//!   chain to the root (webpki: signature, dates, key usage)   NotMember, Expired, NotYetValid
//!     -> no intermediates, Ed25519 key, exactly encoded       NotMember
//!       -> the name is the key's own                          NotMember
//!         -> the key is the dialled one (dialler only)        OtherNode
//!           -> not revoked, not blocked                       Excluded
//!             -> the handshake is signed by that key          NotMember (the library says so)
//! ```
//!
//! Whom the mesh shut out is told to members only, so it is the last check before the signature. A dialler makes one
//! verifier a dial, and reads from it why it refused.

use std::sync::{Arc, OnceLock};

use mesh_protocol::id::NodeId;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use rustls::{CertificateError as TlsCertificateError, Error};
use thiserror::Error as ThisError;
use webpki::{EndEntityCert, KeyUsage};

use super::certificate::{node_of, server_name_of};
use super::handshake::{ED25519_ONLY, PeerCheck};
use super::{Admission, CertificateError, Exclusion, RootCertificate};

/// Object identifiers of the extended key usages, as in a certificate (RFC 5280, section 4.2.1.12). Required: a
/// certificate without them is for something else.
const EKU_SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const EKU_CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

/// Why this end did not believe the other.
#[derive(Debug, ThisError, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No certificate of this mesh, or not the owner of the one shown.
    #[error("not a member of this mesh ({0})")]
    NotMember(&'static str),
    /// Its certificate is of this mesh, but not for today: either clock may be wrong.
    #[error("its certificate has expired, by this machine's clock")]
    Expired,
    /// The same, the other way.
    #[error("its certificate is not valid yet, by this machine's clock")]
    NotYetValid,
    /// A member, but not the dialled one.
    #[error("another node of the mesh answered: {0}")]
    OtherNode(NodeId),
    /// A member that is not let in.
    #[error(transparent)]
    Excluded(#[from] Exclusion),
}

impl Refusal {
    /// As TLS takes it; what the other end learns is the alert this becomes (RFC 8446, section 6.2).
    fn to_tls(&self) -> Error {
        Error::InvalidCertificate(match self {
            Self::NotMember(_) => TlsCertificateError::UnknownIssuer,
            Self::Expired => TlsCertificateError::Expired,
            Self::NotYetValid => TlsCertificateError::NotValidYet,
            Self::OtherNode(_) => TlsCertificateError::NotValidForName,
            Self::Excluded(Exclusion::Revoked) => TlsCertificateError::Revoked,
            Self::Excluded(Exclusion::Blocked) => TlsCertificateError::ApplicationVerificationFailure,
        })
    }
}

/// The checks, for one mesh.
#[derive(Debug, Clone)]
pub struct MemberVerifier {
    anchor: TrustAnchor<'static>,
    admission: Arc<Admission>,
    /// Whom the dialler means; `None` at the listener, which takes any member.
    dialled: Option<NodeId>,
    refused: Arc<OnceLock<Refusal>>,
}

impl MemberVerifier {
    /// Checks for members of the mesh under this root.
    ///
    /// # Errors
    /// [`CertificateError`] when the root's certificate is not one.
    pub fn new(root: &RootCertificate, admission: Arc<Admission>) -> Result<Self, CertificateError> {
        Ok(Self { anchor: root.to_anchor()?, admission, dialled: None, refused: Arc::default() })
    }

    /// The same checks for one dial, which takes nobody but this node.
    #[must_use]
    pub fn dialling(&self, node: NodeId) -> Self {
        Self { dialled: Some(node), refused: Arc::default(), ..self.clone() }
    }

    /// Why the one handshake of a dial was refused here; `None` while it was not.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        self.refused.get().cloned()
    }

    /// All checks of a certificate, but not that its owner is there: that is the handshake's signature.
    ///
    /// # Errors
    /// [`Refusal`] when one fails.
    pub fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<NodeId, Refusal> {
        let usage = if self.dialled.is_some() { EKU_SERVER_AUTH } else { EKU_CLIENT_AUTH };
        let node = self.check_chain(leaf, intermediates, now, usage)?;
        if let Some(dialled) = self.dialled
            && dialled != node
        {
            return Err(Refusal::OtherNode(node));
        }
        self.admission.check(node)?;
        Ok(node)
    }

    fn check_chain(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        usage: &'static [u8],
    ) -> Result<NodeId, Refusal> {
        if !intermediates.is_empty() {
            return Err(Refusal::NotMember("more than one certificate"));
        }
        let leaf = EndEntityCert::try_from(leaf).map_err(|error| refusal_for(&error))?;
        leaf.verify_for_usage(
            ED25519_ONLY.all,
            std::slice::from_ref(&self.anchor),
            &[],
            now,
            KeyUsage::required(usage),
            None,
            None,
        )
        .map_err(|error| refusal_for(&error))?;
        let node = node_of(&leaf).map_err(|_| Refusal::NotMember("its key is not Ed25519"))?;
        let name = server_name_of(node).map_err(|_| Refusal::NotMember("its key has no name"))?;
        leaf.verify_is_valid_for_subject_name(&name)
            .map_err(|_| Refusal::NotMember("its name is not that of its key"))?;
        Ok(node)
    }

    /// The first reason stays: a dial has one handshake.
    fn remember(&self, refusal: Refusal) {
        if self.dialled.is_some() {
            self.refused.get_or_init(|| refusal);
        }
    }
}

/// What webpki found, in words that a person can act on.
fn refusal_for(error: &webpki::Error) -> Refusal {
    Refusal::NotMember(match error {
        webpki::Error::CertExpired { .. } => return Refusal::Expired,
        webpki::Error::CertNotValidYet { .. } => return Refusal::NotYetValid,
        webpki::Error::UnknownIssuer => "its certificate is of another mesh",
        webpki::Error::InvalidSignatureForPublicKey => "the root did not sign its certificate",
        webpki::Error::CaUsedAsEndEntity => "it showed a root's certificate",
        webpki::Error::RequiredEkuNotFoundContext(_) => "its certificate is for something else",
        _ => "its certificate does not verify",
    })
}

impl PeerCheck for MemberVerifier {
    fn check_certificate(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        self.check(leaf, intermediates, now).map(|_| ()).map_err(|refusal| {
            let error = refusal.to_tls();
            self.remember(refusal);
            error
        })
    }

    fn check_answerer(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if self.dialled.is_none() {
            return Err(Error::General("a dial needs a node to dial".into()));
        }
        self.check_certificate(leaf, intermediates, now)
    }

    fn signature_refused(&self) {
        self.remember(Refusal::NotMember("its signature is not by its key"));
    }
}

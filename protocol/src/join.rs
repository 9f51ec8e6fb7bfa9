//! What a joiner and the issuer of its ticket say to each other: one request, one reply, on a listener of its own.
//!
//! The joiner's node id is not in the request: it is the key of the certificate it shows in TLS, which it signs for
//! itself. What it proves is that it holds the ticket's secret, on this very connection: the proof covers the TLS
//! exporter value (RFC 9266 uses it so for channel binding), so it is of no use on any other.
//!
//! The expiry is in the request so that the issuer can derive the secret, and check the proof, before it looks at its
//! database: who has no ticket costs it no write and learns nothing.

use std::net::SocketAddr;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use thiserror::Error;

use crate::id::{NodeId, TicketId};
use crate::revocation::LIST_BYTES_MAX;
use crate::ticket::TicketSecret;

/// The label of the TLS exporter (RFC 8446, section 7.5).
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-mesh-join/1";
/// Bytes of a request: a ticket's id, its expiry and a proof.
pub const REQUEST_BYTES_MAX: usize = 128;
/// Bytes of a reply: a full revocation list, two certificates, a record and addresses.
pub const REPLY_BYTES_MAX: usize = LIST_BYTES_MAX + 64 * 1024;

/// Begins what a proof covers.
const PROOF_PREFIX: &[u8] = b"join/1";

/// A proof that its maker holds a ticket's secret, for one node on one connection.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct JoinProof([u8; 32]);

/// The proof does not hold.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("the ticket's proof does not hold")]
pub struct ProofError;

impl JoinProof {
    /// Proves to hold a secret.
    #[must_use]
    pub fn make(secret: &TicketSecret, exporter: &[u8; 32], node: NodeId, ticket: TicketId) -> Self {
        Self(mac(secret, exporter, node, ticket).finalize().into_bytes().into())
    }

    /// Checks a proof, in the same time whatever is wrong with it.
    ///
    /// # Errors
    /// [`ProofError`] when it is of another secret, connection, node or ticket.
    pub fn check(
        &self,
        secret: &TicketSecret,
        exporter: &[u8; 32],
        node: NodeId,
        ticket: TicketId,
    ) -> Result<(), ProofError> {
        mac(secret, exporter, node, ticket).verify_slice(&self.0).map_err(|_| ProofError)
    }
}

fn mac(secret: &TicketSecret, exporter: &[u8; 32], node: NodeId, ticket: TicketId) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length (RFC 2104)")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key length fits");
    mac.update(PROOF_PREFIX);
    mac.update(exporter);
    mac.update(node.as_bytes());
    mac.update(ticket.as_bytes());
    mac
}

/// What the joiner sends.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct JoinRequest {
    /// Its ticket.
    pub ticket: TicketId,
    /// The expiry its ticket says.
    pub expires_wall_ms: u64,
    /// That it holds the ticket's secret.
    pub proof: JoinProof,
}

/// What the issuer answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinReply {
    /// Welcome.
    Admitted(Admitted),
    /// The proof holds, and yet.
    Refused(JoinRefusal),
    /// The proof does not hold. Nothing more is said.
    Unproven,
}

/// What a new member needs. Bytes of the issuer's, each checked by the joiner for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admitted {
    /// The joiner's certificate, DER.
    #[serde(with = "serde_bytes")]
    pub leaf: Vec<u8>,
    /// The root's certificate, DER; its key has the ticket's fingerprint.
    #[serde(with = "serde_bytes")]
    pub root: Vec<u8>,
    /// The revocation list in force, if there is one.
    pub revocations: Option<serde_bytes::ByteBuf>,
    /// Where the issuer takes members' connections.
    pub addresses: Vec<SocketAddr>,
    /// The issuer's own signed directory record.
    #[serde(with = "serde_bytes")]
    pub record: Vec<u8>,
}

/// Why the holder of a ticket is not let in.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinRefusal {
    /// It was withdrawn, or forgotten long after its use.
    #[error("the ticket is not known any more")]
    Unknown,
    /// By the issuer's clock.
    #[error("the ticket has expired")]
    Expired,
    /// It let another node in.
    #[error("the ticket was used by another node")]
    UsedByOther,
    /// The mesh shut this very node out.
    #[error("this node was revoked from the mesh")]
    Revoked,
    /// The issuer cannot write now.
    #[error("the issuer cannot let anyone in right now")]
    Unavailable,
}

impl JoinRefusal {
    /// What to do about it.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Unknown | Self::Expired | Self::UsedByOther => {
                "ask for a new ticket: `mesh-cli invite` on the issuer prints one"
            }
            Self::Revoked => "a revoked node comes back only with a new key",
            Self::Unavailable => "try again in a moment; `mesh-cli doctor` on the issuer says what is wrong",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::id::MeshId;
    use crate::ticket::TicketKey;
    use proptest::prelude::*;
    use zeroize::Zeroizing;

    #[test]
    fn a_proof_holds_for_its_secret_connection_node_and_ticket_alone() {
        let key = TicketKey::new(Zeroizing::new([1; 32]));
        let (ticket, node) = (TicketId::from_bytes([2; 16]), NodeId::from_bytes([3; 32]));
        let secret = key.secret_of(ticket, 5, MeshId::from_bytes([4; 16]));
        let proof = JoinProof::make(&secret, &[6; 32], node, ticket);
        assert_eq!(proof.check(&secret, &[6; 32], node, ticket), Ok(()));
        let other_secret = key.secret_of(ticket, 6, MeshId::from_bytes([4; 16]));
        assert_eq!(proof.check(&other_secret, &[6; 32], node, ticket), Err(ProofError));
        assert_eq!(proof.check(&secret, &[7; 32], node, ticket), Err(ProofError));
        assert_eq!(proof.check(&secret, &[6; 32], NodeId::from_bytes([7; 32]), ticket), Err(ProofError));
        assert_eq!(proof.check(&secret, &[6; 32], node, TicketId::from_bytes([7; 16])), Err(ProofError));
    }

    #[test]
    fn a_request_keeps_its_bytes_for_ever() {
        let request = JoinRequest {
            ticket: TicketId::from_bytes([2; 16]),
            expires_wall_ms: 300,
            proof: JoinProof([3; 32]),
        };
        let golden = [[2; 16].as_slice(), &[0xac, 0x02], &[3; 32]].concat();
        assert_eq!(codec::encode(&request), golden);
        assert!(golden.len() <= REQUEST_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = codec::decode::<JoinRequest>(&bytes);
            let _ = codec::decode::<JoinReply>(&bytes);
        }
    }
}

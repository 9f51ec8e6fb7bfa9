//! A ticket: one line of text that lets one node into a mesh, once.
//!
//! ```text
//!   mesh1<base32 of: body, first 4 bytes of SHA-256 over it>
//!   body = postcard { ticket id, root fingerprint, issuer, its join addresses, expiry, secret }
//! ```
//! The joiner needs nothing else: it knows the issuer by its key, so it talks to nobody else; it knows the root by its
//! fingerprint, so it cannot be given a false mesh; and it proves that it holds the line with the secret, which never
//! travels. The issuer keeps no secret either: it derives each from its own [`TicketKey`], so a copy of its database
//! redeems nothing.
//!
//! The checksum finds typing errors; it protects nothing. `Debug` and `Display` leave the secret out, [`Ticket::to_line`]
//! alone shows it.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::codec;
use crate::id::{MeshId, NodeId, TicketId};
use crate::limits::ADDRESSES_MAX;
use crate::root::RootFingerprint;

/// Starts every line of this version.
const PREFIX: &str = "mesh1";
/// Characters of a line at most: eight IPv6 addresses fit twice.
pub const TICKET_LINE_MAX: usize = 1_024;
/// Bytes of the checksum.
const CHECKSUM_BYTES: usize = 4;

/// Text that is no ticket of ours.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum TicketError {
    /// It does not start like one, or is far too long.
    #[error("this is not a ticket")]
    NotATicket,
    /// It starts like one of a version this build does not know.
    #[error("the ticket is of a newer version")]
    Newer,
    /// It was one, before characters were lost or changed.
    #[error("the ticket is damaged or incomplete")]
    Damaged,
}

impl TicketError {
    /// What to do about it.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            Self::NotATicket => "a ticket is the line that `mesh-cli invite` prints; it starts with `mesh1`",
            Self::Newer => "update mesh-cli on this machine",
            Self::Damaged => "copy the whole line again, from `mesh1` to its end",
        }
    }
}

/// What the holder of a line proves that it has.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketSecret(Zeroizing<[u8; 32]>);

impl TicketSecret {
    /// For the proof.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketSecret(..)")
    }
}

/// The issuer's own secret, from which those of its tickets come.
#[derive(Clone)]
pub struct TicketKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKey(..)")
    }
}

impl TicketKey {
    /// Takes 32 secret bytes.
    #[must_use]
    pub const fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }

    /// The secret of one ticket: HMAC-SHA-256 over its id, its expiry and its mesh. Whoever changes one of them in a
    /// line no longer has the secret of what the line says.
    #[must_use]
    pub fn secret_of(&self, id: TicketId, expires_wall_ms: u64, mesh: MeshId) -> TicketSecret {
        #[expect(clippy::expect_used, reason = "HMAC takes a key of any length (RFC 2104)")]
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_ref()).expect("any key length fits");
        mac.update(b"mesh-ticket/1");
        mac.update(id.as_bytes());
        mac.update(&expires_wall_ms.to_be_bytes());
        mac.update(mesh.as_bytes());
        TicketSecret(Zeroizing::new(mac.finalize().into_bytes().into()))
    }
}

/// A ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// What the issuer knows it by.
    pub id: TicketId,
    /// The root of the mesh.
    pub root: RootFingerprint,
    /// Who issued it, and alone redeems it.
    pub issuer: NodeId,
    /// Where the issuer listens for joiners.
    pub addresses: Vec<SocketAddr>,
    /// Until when, by the issuer's wall clock, in milliseconds since 1970.
    pub expires_wall_ms: u64,
    /// What the joiner proves to have.
    pub secret: TicketSecret,
}

#[derive(Serialize, Deserialize)]
struct Body {
    id: TicketId,
    root: RootFingerprint,
    issuer: NodeId,
    addresses: Vec<SocketAddr>,
    expires_wall_ms: u64,
    secret: [u8; 32],
}

impl Ticket {
    /// The mesh it leads into.
    #[must_use]
    pub fn mesh(&self) -> MeshId {
        self.root.mesh()
    }

    /// The line to hand over, secret and all. Only the first [`ADDRESSES_MAX`] addresses are in it.
    #[must_use]
    pub fn to_line(&self) -> Zeroizing<String> {
        let body = Body {
            id: self.id,
            root: self.root,
            issuer: self.issuer,
            addresses: self.addresses.iter().copied().take(ADDRESSES_MAX).collect(),
            expires_wall_ms: self.expires_wall_ms,
            secret: *self.secret.0,
        };
        let mut bytes = Zeroizing::new(codec::encode(&body));
        let checksum = checksum(&bytes);
        bytes.extend_from_slice(&checksum);
        Zeroizing::new(format!("{PREFIX}{}", BASE32_NOPAD.encode(&bytes).to_lowercase()))
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} into {}", self.id, self.issuer.short(), self.mesh())
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        let text = text.trim();
        if text.len() > TICKET_LINE_MAX || !text.is_ascii() {
            return Err(TicketError::NotATicket);
        }
        let text = Zeroizing::new(text.to_ascii_lowercase());
        let Some(encoded) = text.strip_prefix(PREFIX) else {
            let newer =
                text.strip_prefix("mesh").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            return Err(if newer { TicketError::Newer } else { TicketError::NotATicket });
        };
        let encoded = Zeroizing::new(encoded.to_ascii_uppercase());
        let bytes = BASE32_NOPAD.decode(encoded.as_bytes()).map_err(|_| TicketError::Damaged)?;
        let bytes = Zeroizing::new(bytes);
        let (body, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(TicketError::Damaged)?;
        if checksum(body) != *sum {
            return Err(TicketError::Damaged);
        }
        let body: Body = codec::decode(body).map_err(|_| TicketError::Damaged)?;
        if body.addresses.len() > ADDRESSES_MAX {
            return Err(TicketError::Damaged);
        }
        Ok(Self {
            id: body.id,
            root: body.root,
            issuer: body.issuer,
            addresses: body.addresses,
            expires_wall_ms: body.expires_wall_ms,
            secret: TicketSecret(Zeroizing::new(body.secret)),
        })
    }
}

fn checksum(body: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash: [u8; 32] = Sha256::digest(body).into();
    let [a, b, c, d, ..] = hash;
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::RootKey;
    use proptest::prelude::*;

    fn ticket() -> Ticket {
        let root = RootKey::from_bytes([2; 32]);
        let id = TicketId::mint(1_000, [1; 10]);
        let key = TicketKey::new(Zeroizing::new([5; 32]));
        Ticket {
            id,
            root: root.fingerprint(),
            issuer: NodeId::from_bytes([3; 32]),
            addresses: vec![([10, 0, 0, 1], 7_100).into(), "[fd00::1]:7100".parse().unwrap()],
            expires_wall_ms: 99_000,
            secret: key.secret_of(id, 99_000, root.mesh()),
        }
    }

    #[test]
    fn a_line_reads_back_with_spaces_around_it_and_in_capitals() {
        let line = ticket().to_line();
        assert!(line.starts_with("mesh1") && line.len() < 300, "{} characters", line.len());
        assert_eq!(line.parse::<Ticket>(), Ok(ticket()));
        assert_eq!(format!("  {}\n", line.to_uppercase()).parse::<Ticket>(), Ok(ticket()));
    }

    #[test]
    fn only_the_line_shows_the_secret() {
        let ticket = ticket();
        let secret = BASE32_NOPAD.encode(ticket.secret.as_bytes()).to_lowercase();
        let shown = format!("{ticket} {ticket:?} {:?}", TicketKey::new(Zeroizing::new([5; 32])));
        assert!(!shown.contains(&secret[..20]), "{shown}");
        assert!(!shown.contains(&format!("{:?}", ticket.secret.as_bytes())), "{shown}");
    }

    #[test]
    fn every_other_text_is_named_for_what_it_is() {
        assert_eq!("hello".parse::<Ticket>(), Err(TicketError::NotATicket));
        assert_eq!("mesh2abc".parse::<Ticket>(), Err(TicketError::Newer));
        assert_eq!("mesh1".parse::<Ticket>(), Err(TicketError::Damaged));
        assert_eq!("mesh1abcdefgh".parse::<Ticket>(), Err(TicketError::Damaged));
        assert_eq!("mesh1\u{e9}".parse::<Ticket>(), Err(TicketError::NotATicket));
        assert_eq!("m".repeat(2_000).parse::<Ticket>(), Err(TicketError::NotATicket));
    }

    #[test]
    fn a_secret_is_for_one_ticket_with_its_expiry_and_its_mesh() {
        let key = TicketKey::new(Zeroizing::new([5; 32]));
        let (id, mesh) = (TicketId::from_bytes([1; 16]), MeshId::from_bytes([2; 16]));
        let secret = key.secret_of(id, 10, mesh);
        assert_ne!(secret, key.secret_of(id, 11, mesh));
        assert_ne!(secret, key.secret_of(TicketId::from_bytes([9; 16]), 10, mesh));
        assert_ne!(secret, key.secret_of(id, 10, MeshId::from_bytes([9; 16])));
        assert_ne!(secret, TicketKey::new(Zeroizing::new([6; 32])).secret_of(id, 10, mesh));
    }

    proptest! {
        #[test]
        fn one_changed_character_is_noticed(at in any::<prop::sample::Index>(), to in "[a-z2-7]") {
            let line = ticket().to_line();
            let at = at.index(line.len());
            let mut changed = line.to_string();
            changed.replace_range(at..=at, &to);
            prop_assert!(changed == *line || changed.parse::<Ticket>().is_err());
        }

        #[test]
        fn random_text_never_panics(text in "(mesh1)?.{0,300}") {
            let _ = text.parse::<Ticket>();
        }
    }
}

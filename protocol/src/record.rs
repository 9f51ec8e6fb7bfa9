//! A node's directory record: where it is, what it can do and which agents it advertises, signed by itself.
//!
//! Only its owner writes a record, so members pass it on without being trusted: whoever holds it checks the owner's
//! Ed25519 signature over the bytes as received, and the root's in the owner's certificate, so that no member can make
//! others up. Order is (`epoch`, `ver`): the epoch is raised and committed at every start of the owner, the version at
//! every change in between.
//!
//! It claims; it does not prove. A record says nothing about whether its node can be reached (each observer finds that
//! out) or may be trusted with work (each operator decides that).
//!
//! Bytes: one version byte, then the canonical postcard encoding of [`NodeRecord`]. New fields need a new version byte.

use std::net::SocketAddr;
use std::sync::Arc;

use ed25519_dalek::{Signer as _, SigningKey};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::address::Name;
use crate::certificate::{Certificate, CertificateError};
use crate::codec::{self, DecodeError};
use crate::id::{MeshId, NodeId};
use crate::isolation::IsolationClass;
use crate::job::Language;
use crate::limits::{ADDRESSES_MAX, ADVERTISED_AGENTS_MAX};
use crate::root::{self, RootKey};

/// Bytes of a record's body: 64 agents with full descriptions fit; with every other text at its limit too they would
/// not, and the owner has to say less. Small enough that a page of records holds at least three.
pub const RECORD_BYTES_MAX: usize = 16 * 1024;
/// Bytes of an advertised agent's description: one line of a listing.
pub const DESCRIPTION_BYTES_MAX: usize = 200;
/// Bytes of the other free texts in a record (build, harness, reason): enough for a version or a short clause.
pub const RECORD_TEXT_BYTES_MAX: usize = 120;
/// The version byte this release writes and the only one it reads.
pub const RECORD_VERSION: u8 = 2;

const SIGNING_PREFIX: &[u8] = b"mesh-record/2";

/// The place of a record among its owner's: the later one replaces the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct RecordVersion {
    /// Starts of the owner, counted durably.
    pub epoch: u64,
    /// Changes since that start.
    pub ver: u64,
}

/// What a node says about its own life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Runs and takes work.
    Up,
    /// Runs, finishes what it has, takes nothing new.
    Leaving,
    /// Has left the mesh. Only a record of a later start takes that back.
    Left,
}

/// Protocol versions a node speaks, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProtocolRange {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

/// What a node claims it can run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capabilities {
    /// Isolation its sandbox reported, weakest first; empty when it runs no jobs.
    pub isolation_classes: Vec<IsolationClass>,
    /// Languages of jobs, sorted.
    pub languages: Vec<Language>,
    /// Jobs at once.
    pub slots: u16,
    /// Mebibytes of memory for jobs.
    pub memory_mb: u32,
}

/// How busy a node was when it signed. A hint for placement, out of date on arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Load {
    /// Jobs running.
    pub running: u16,
    /// Jobs waiting.
    pub queued: u16,
}

/// Whether an advertised agent's own endpoint answers on its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// It does.
    Online,
    /// It does not, and why, in at most [`RECORD_TEXT_BYTES_MAX`] bytes. Not the same as an unreachable node.
    Offline(String),
}

/// An agent its node lets the mesh see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvertisedAgent {
    /// Its name, unique on its node.
    pub name: Name,
    /// What runs it, as text: a harness and its version.
    pub harness: String,
    /// Whether its endpoint answers.
    pub state: AgentState,
    /// What it is for, in at most [`DESCRIPTION_BYTES_MAX`] bytes; empty for nothing.
    pub description: String,
}

/// The part of a record its owner decides by configuration and by what it observes of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advertisement {
    /// The host's label. Several nodes may share one; it identifies nobody.
    pub name: Name,
    /// Where it can be dialled, best first, at most [`ADDRESSES_MAX`]; empty behind a NAT.
    pub addresses: Vec<SocketAddr>,
    /// Protocol versions it speaks.
    pub protocol: ProtocolRange,
    /// Its build, for people.
    pub build: String,
    /// What it can run.
    pub capabilities: Capabilities,
    /// How busy it is.
    pub load: Load,
    /// Its visible agents, sorted by name, at most [`ADVERTISED_AGENTS_MAX`].
    pub agents: Vec<AdvertisedAgent>,
}

/// One version of one node's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The mesh it is for: the same key may be in several.
    pub mesh: MeshId,
    /// The owner, whose key signs it.
    pub node: NodeId,
    /// The root's word that the owner is a member.
    pub certificate: Certificate,
    /// Its place among the owner's records.
    pub version: RecordVersion,
    /// What the owner says about its own life.
    pub lifecycle: Lifecycle,
    /// Everything the owner advertises.
    pub advertisement: Advertisement,
    /// The owner's wall clock when it signed, milliseconds since 1970. For display only.
    pub wall_ms: u64,
}

/// A record as it travels and is stored: the owner's exact bytes and its signature over them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedRecord {
    /// The version byte and the encoded [`NodeRecord`].
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
    /// Ed25519 over `"mesh-record/2" || body`.
    #[serde(with = "serde_bytes")]
    pub signature: [u8; 64],
}

/// A record whose signature was checked, with the bytes it was checked over. A copy costs a counter, not the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedRecord(Arc<Verified>);

#[derive(Debug, PartialEq, Eq)]
struct Verified {
    record: NodeRecord,
    signed: SignedRecord,
}

/// Why a record is refused. Nothing changed; the observer counts it against whoever sent it.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum RecordError {
    /// Over [`RECORD_BYTES_MAX`]; not even decoded.
    #[error("a record of {bytes} bytes is over the limit of {RECORD_BYTES_MAX}")]
    Oversize {
        /// Its length.
        bytes: usize,
    },
    /// Not the canonical bytes of a record, or of a version this release does not read.
    #[error("the record does not decode")]
    Malformed(#[source] DecodeError),
    /// Decodes, but says something no node may.
    #[error("the record has {what}")]
    Invalid {
        /// What is wrong with it.
        what: &'static str,
    },
    /// Made for another mesh.
    #[error("the record is for {found}")]
    OtherMesh {
        /// The mesh it names.
        found: MeshId,
    },
    /// Not signed by the node it names.
    #[error("the record of {node:?} is not signed by it")]
    ForeignSignature {
        /// The node it names.
        node: NodeId,
    },
    /// Its certificate does not make the node it names a member.
    #[error("the record of {node:?} has {cause}")]
    NotAMember {
        /// The node it names.
        node: NodeId,
        /// What is wrong with the certificate.
        cause: MembershipError,
    },
}

/// Why a certificate does not make a record's owner a member.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum MembershipError {
    /// It proves nothing about anybody.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// It is another member's.
    #[error("the certificate of another node")]
    OtherNode,
}

/// Which signatures of a record are yet to be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unchecked {
    /// None: the record is no news.
    None,
    /// The owner's; its certificate is one that was checked before.
    Owner,
    /// The owner's, and the root's in the certificate.
    Both,
}

impl NodeRecord {
    /// Encodes and signs the record. The key must be that of `self.node`; otherwise everybody refuses the result.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] or [`RecordError::Oversize`] for a record that receivers would refuse.
    pub fn sign(&self, key: &SigningKey) -> Result<SignedRecord, RecordError> {
        self.advertisement.check()?;
        let body = codec::encode_versioned(RECORD_VERSION, self);
        if body.len() > RECORD_BYTES_MAX {
            return Err(RecordError::Oversize { bytes: body.len() });
        }
        let signature = key.sign(&signed_bytes(&body)).to_bytes();
        Ok(SignedRecord { body, signature })
    }

    fn prove_membership(&self, root: &RootKey) -> Result<(), MembershipError> {
        if self.certificate.verify(root)? == self.node { Ok(()) } else { Err(MembershipError::OtherNode) }
    }
}

impl SignedRecord {
    /// Checks everything about the record: size, encoding, mesh, contents, the owner's signature and the root's, in
    /// this order, so that the costly checks come last.
    ///
    /// # Errors
    /// The first [`RecordError`] that applies.
    pub fn verify(self, root: &RootKey) -> Result<VerifiedRecord, RecordError> {
        let record = self.check_contents(root)?;
        self.check_signatures(record, root, Unchecked::Both)
    }

    /// The same, with only those signatures checked that are worth it: most of what an exchange brings into a busy
    /// mesh was brought by another one a moment before. `None` when none is.
    ///
    /// # Errors
    /// The first [`RecordError`] that applies.
    pub fn verify_unchecked(
        self,
        root: &RootKey,
        unchecked: impl FnOnce(&NodeRecord, &Self) -> Unchecked,
    ) -> Result<Option<VerifiedRecord>, RecordError> {
        let record = self.check_contents(root)?;
        match unchecked(&record, &self) {
            Unchecked::None => Ok(None),
            some => self.check_signatures(record, root, some).map(Some),
        }
    }

    fn check_contents(&self, root: &RootKey) -> Result<NodeRecord, RecordError> {
        let record = self.decode()?;
        if record.mesh != root.mesh() {
            return Err(RecordError::OtherMesh { found: record.mesh });
        }
        record.advertisement.check()?;
        Ok(record)
    }

    fn check_signatures(
        self,
        record: NodeRecord,
        root: &RootKey,
        unchecked: Unchecked,
    ) -> Result<VerifiedRecord, RecordError> {
        root::verify(record.node.as_bytes(), &signed_bytes(&self.body), &self.signature)
            .map_err(|_| RecordError::ForeignSignature { node: record.node })?;
        if unchecked == Unchecked::Both {
            record
                .prove_membership(root)
                .map_err(|cause| RecordError::NotAMember { node: record.node, cause })?;
        }
        Ok(VerifiedRecord(Arc::new(Verified { record, signed: self })))
    }

    fn decode(&self) -> Result<NodeRecord, RecordError> {
        let what = "NodeRecord";
        if self.body.len() > RECORD_BYTES_MAX {
            return Err(RecordError::Oversize { bytes: self.body.len() });
        }
        match self.body.split_first() {
            None => Err(RecordError::Malformed(DecodeError::Malformed { what })),
            Some((&RECORD_VERSION, rest)) => codec::decode(rest).map_err(RecordError::Malformed),
            Some((&found, _)) => Err(RecordError::Malformed(DecodeError::UnknownVersion {
                what,
                found,
                known: RECORD_VERSION,
            })),
        }
    }
}

impl VerifiedRecord {
    /// What it says.
    #[must_use]
    pub fn record(&self) -> &NodeRecord {
        &self.0.record
    }

    /// The owner's bytes and signature, as they are stored and passed on.
    #[must_use]
    pub fn signed(&self) -> &SignedRecord {
        &self.0.signed
    }
}

impl Advertisement {
    /// Checks the limits and that every address could be dialled.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] for the first thing wrong.
    pub fn check(&self) -> Result<(), RecordError> {
        let agents_sorted = self.agents.is_sorted_by(|a, b| a.name < b.name);
        let wrong = if self.addresses.len() > ADDRESSES_MAX {
            "too many addresses"
        } else if !self.addresses.iter().all(is_dialable) {
            "an address that cannot be dialled"
        } else if self.protocol.min > self.protocol.max {
            "an empty range of protocol versions"
        } else if self.build.len() > RECORD_TEXT_BYTES_MAX {
            "too long a build text"
        } else if !self.capabilities.isolation_classes.is_sorted_by(|a, b| a < b)
            || !self.capabilities.languages.is_sorted_by(|a, b| a < b)
        {
            "capabilities that are not sorted or not distinct"
        } else if self.agents.len() > ADVERTISED_AGENTS_MAX {
            "too many agents"
        } else if !agents_sorted {
            "agents that are not sorted or share a name"
        } else if !self.agents.iter().all(AdvertisedAgent::fits) {
            "too long a text about an agent"
        } else {
            return Ok(());
        };
        Err(RecordError::Invalid { what: wrong })
    }
}

impl AdvertisedAgent {
    fn fits(&self) -> bool {
        let reason_fits = match &self.state {
            AgentState::Online => true,
            AgentState::Offline(reason) => reason.len() <= RECORD_TEXT_BYTES_MAX,
        };
        reason_fits
            && self.harness.len() <= RECORD_TEXT_BYTES_MAX
            && self.description.len() <= DESCRIPTION_BYTES_MAX
    }
}

/// Whether a packet could be sent there: a port, and an address that is one host's.
fn is_dialable(address: &SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    let broadcast = matches!(ip, std::net::IpAddr::V4(v4) if v4.is_broadcast());
    address.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && !broadcast
}

fn signed_bytes(body: &[u8]) -> Vec<u8> {
    [SIGNING_PREFIX, body].concat()
}

//! Making a home a member: founding a mesh, or joining one with a ticket.
//!
//! The key is kept under another name first, then the database is written, then the key gets its name: a home with
//! `node.key` is complete, one without is not begun. What a crash in between left is used by doing it again: a joiner
//! that was let in and crashed has the same key still, and its issuer lets the same key repeat its ticket.

use std::net::SocketAddr;
use std::path::PathBuf;

use data_encoding::BASE64_MIME;
use mesh_node_core::policy::DefaultTrust;
use mesh_node_core::roster::{MemberRecord, Place, Revocations, RootSecret};
use mesh_node_core::store::Overlay;
use mesh_protocol::address::Name;
use mesh_protocol::codec;
use mesh_protocol::id::{MeshId, NodeId};
use mesh_protocol::policy::Trust;
use mesh_protocol::record::SignedRecord;
use mesh_protocol::root::RootFingerprint;
use mesh_protocol::ticket::Ticket;
use thiserror::Error;

use crate::clock::{Clock, NodeClock};
use crate::home::{Config, ConfigError, Home, HomeError, NodeSection};
use crate::identity::{CertificateError, KeyError, Leaf, MeshRoot, NodeKey, RootError};
use crate::join::{JoinError, redeem_ticket};
use crate::storage::{Database, DatabaseError};
use crate::transport::Socket;

/// Why a home is not a member now. It can be tried again; nothing half-done is left that stands in the way.
#[derive(Debug, Error)]
pub enum FoundingError {
    /// It is one already.
    #[error("this home is already node {} of {mesh}", node.short())]
    AlreadyMember {
        /// The node it is.
        node: NodeId,
        /// The mesh it is in.
        mesh: MeshId,
    },
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The configuration cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration says something else than the person who founds or joins.
    #[error("{} does not say that this node is called {name}", path.display())]
    OtherName {
        /// The configuration, which is people's and not rewritten.
        path: PathBuf,
        /// The name that was chosen now.
        name: Name,
    },
    /// The database cannot be used.
    #[error("cannot use the database")]
    Database(#[from] DatabaseError),
    /// Stored state cannot be read.
    #[error("cannot read stored state")]
    Store(#[from] mesh_node_core::store::StoreError),
    /// The key cannot be made or kept.
    #[error("cannot keep the node's key")]
    Key(#[from] KeyError),
    /// The root cannot be made.
    #[error("cannot make the mesh's root")]
    Root(#[from] RootError),
    /// A certificate that was just made cannot be read.
    #[error("cannot read a certificate")]
    Certificate(#[from] CertificateError),
    /// No socket to join over.
    #[error("cannot open a socket")]
    Socket(#[source] std::io::Error),
    /// The ticket did not lead in.
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// What was made.
#[derive(Debug, Clone)]
pub struct Founded {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: Name,
    /// The mesh.
    pub mesh: MeshId,
    /// The root's fingerprint, to compare by eye.
    pub root: RootFingerprint,
}

/// What a person chooses.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The node's label; the configuration's, or else the host's, when absent. Written to `config.toml` unless that has
    /// a `[node]` section, which then has to say the same.
    pub name: Option<Name>,
    /// What other members may do here unless a row says otherwise.
    pub trust: Trust,
}

/// Founds a mesh: this node holds its root.
///
/// # Errors
/// [`FoundingError`].
pub fn init(home: &Home, choice: &Choice) -> Result<Founded, FoundingError> {
    let lock = home.lock()?;
    let database = home.open_database(&lock)?;
    refuse_member(home, &database)?;
    let name = name_home(home, choice)?;
    let wall_ms = NodeClock::start(None).map_err(FoundingError::Socket)?.now().wall_ms;
    let key = new_key(home)?;
    let seed = NodeKey::generate()?.derive_secret(b"mesh-root");
    let root = MeshRoot::from_seed(&seed, wall_ms)?;
    let leaf = root.issue(key.node(), wall_ms)?;
    let place = Place {
        root_certificate: root.certificate().as_der().to_vec(),
        certificate: leaf.as_der().to_vec(),
        root: Some(RootSecret { seed: *seed, made_wall_ms: wall_ms }),
    };
    write(&database, |tx| {
        tx.put(&(), &place);
        tx.put(&(), &DefaultTrust(choice.trust));
    })?;
    write_root(home, &place.root_certificate)?;
    keep_key(home)?;
    let root = root.certificate().key();
    Ok(Founded { node: key.node(), name, mesh: root.mesh(), root: root.fingerprint() })
}

/// Joins a mesh with a ticket.
///
/// # Errors
/// [`FoundingError`].
pub async fn join(home: &Home, choice: &Choice, ticket: &Ticket) -> Result<Founded, FoundingError> {
    let lock = home.lock()?;
    let database = home.open_database(&lock)?;
    refuse_member(home, &database)?;
    let name = name_home(home, choice)?;
    let key = new_key(home)?;
    let ipv6_only = ticket.addresses.iter().all(SocketAddr::is_ipv6);
    let any: SocketAddr = if ipv6_only { ([0_u16; 8], 0).into() } else { ([0_u8; 4], 0).into() };
    let socket = std::net::UdpSocket::bind(any).map_err(FoundingError::Socket)?;
    let joined = redeem_ticket(Socket::Udp(socket), ticket, &key).await?;
    let place = Place {
        root_certificate: joined.credentials.root.as_der().to_vec(),
        certificate: joined.credentials.leaf.as_der().to_vec(),
        root: None,
    };
    // The issuer's record is checked when membership starts; one that does not decode is no record.
    let record = codec::decode::<SignedRecord>(&joined.record).ok();
    write(&database, |tx| {
        tx.put(&(), &place);
        tx.put(&(), &DefaultTrust(choice.trust));
        if let Some(list) = &joined.revocations {
            tx.put(&(), &Revocations(list.as_bytes().to_vec()));
        }
        if let Some(record) = record {
            tx.put(&joined.issuer, &MemberRecord(record));
        }
    })?;
    write_root(home, &place.root_certificate)?;
    keep_key(home)?;
    Ok(Founded { node: key.node(), name, mesh: ticket.mesh(), root: ticket.root })
}

/// The root's certificate as a file (RFC 7468), for checking evidence where no node runs.
fn write_root(home: &Home, der: &[u8]) -> Result<(), FoundingError> {
    let text = BASE64_MIME.encode(der).replace("\r\n", "\n");
    let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", text.trim_end());
    let path = home.root_file();
    std::fs::write(&path, pem).map_err(|source| HomeError::Directory { path, source }.into())
}

fn unnamed_key(home: &Home) -> PathBuf {
    home.root().join("node.unnamed.key")
}

/// The key of an attempt that was not finished, or a new one, kept before anybody hears of it.
fn new_key(home: &Home) -> Result<NodeKey, FoundingError> {
    let path = unnamed_key(home);
    if path.exists() {
        return Ok(NodeKey::load(&path)?);
    }
    let key = NodeKey::generate()?;
    key.store(&path)?;
    Ok(key)
}

/// Gives the key its name, durably: from now on the home is complete.
fn keep_key(home: &Home) -> Result<(), FoundingError> {
    let renamed = std::fs::rename(unnamed_key(home), home.key_file());
    let durable = renamed.and_then(|()| std::fs::File::open(home.root())?.sync_all());
    durable.map_err(|source| HomeError::Directory { path: home.root().to_owned(), source }.into())
}

/// A home with a named key is a member of the mesh its database says.
fn refuse_member(home: &Home, database: &Database) -> Result<(), FoundingError> {
    if !home.key_file().exists() {
        return Ok(());
    }
    let snapshot = database.snapshot()?;
    let place: Option<Place> = mesh_node_core::store::get(&snapshot, &())?;
    let Some(place) = place else { return Ok(()) };
    let root = crate::identity::RootCertificate::from_der(place.root_certificate)?;
    let node = Leaf::from_der(place.certificate).node()?;
    Err(FoundingError::AlreadyMember { node, mesh: root.key().mesh() })
}

fn write(database: &Database, fill: impl FnOnce(&mut Overlay<'_>)) -> Result<(), FoundingError> {
    let mut batch = database.begin()?;
    let changes = {
        let mut tx = Overlay::new(&batch);
        fill(&mut tx);
        tx.into_changes()
    };
    batch.apply(changes)?;
    Ok(batch.commit()?)
}

/// The node's label: what was chosen, written to the configuration, or what that says.
fn name_home(home: &Home, choice: &Choice) -> Result<Name, FoundingError> {
    let config = home.config()?;
    let told = name_of(&config);
    let name = choice.name.clone().unwrap_or_else(|| told.clone());
    let path = home.config_file();
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    if config.node == NodeSection::default() && !before.contains("[node]") {
        std::fs::write(&path, format!("[node]\nname = \"{name}\"\n\n{before}"))
            .map_err(|source| HomeError::Directory { path, source })?;
    } else if name != told {
        // Editing people's text is theirs, and a node that went by another name than it was given would be a lie.
        return Err(FoundingError::OtherName { path, name });
    }
    Ok(name)
}

/// The host's own name, made into one of ours.
#[must_use]
fn host_name() -> Name {
    let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let first = host.split('.').next().unwrap_or_default();
    let plain: String =
        first.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    let plain = plain.trim_matches('-');
    plain.parse().or_else(|_| format!("host-{plain}").parse()).unwrap_or_else(|_| default_name())
}

fn default_name() -> Name {
    "host-0".parse().unwrap_or_else(|_| unreachable!("a constant that is a name"))
}

/// The configuration a node runs with, and the name it goes by.
#[must_use]
pub fn name_of(config: &Config) -> Name {
    config.node.name.clone().unwrap_or_else(host_name)
}

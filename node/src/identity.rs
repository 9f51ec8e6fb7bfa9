//! Who this node is, and how it tells who another is.
//!
//! ```text
//!   MeshRoot ──signs──> leaf for a NodeId ──shown in TLS──> Verifier at the other end
//!      │                                                        │ reads, at every handshake
//!      └──signs──> RevocationList ──applied to──> Admission <───┘
//! ```
//!
//! [`NodeKey`] is the node's Ed25519 key, [`MeshRoot`] the founder's, [`Credentials`] what a member shows, and
//! [`Admission`] who of the mesh's members is let in right now. The TLS configurations built from them speak TLS 1.3
//! with one hybrid post-quantum key exchange, never resume a session and never send early data: a resumed session
//! keeps the first authentication (RFC 8446, section 2.2), so a revoked node would walk back in.
//!
//! Not here: sockets, addresses, what a member may do once it is in.

mod admission;
mod certificate;
mod handshake;
mod key;
mod pinned;
mod root;
mod tls;
mod verifier;

pub use admission::{Admission, Exclusion};
pub(crate) use certificate::name_of;
pub use certificate::{CertificateError, Credentials, Leaf, node_of_leaf};
pub(crate) use handshake::Handshake;
pub use key::{KeyError, NodeKey};
pub use root::{MeshRoot, RootCertificate, RootError};
pub use tls::TlsError;
pub(crate) use tls::{ALPN_CARRIER, join_client, join_server, member_client, member_server};
pub use verifier::{MemberVerifier, Refusal};

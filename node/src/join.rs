//! Joining a mesh with a ticket: the listener of the issuer, and the joiner's side.
//!
//! ```text
//!   joiner                                   issuer
//!     TLS: pins the issuer's key             TLS: takes any key, and knows it
//!     id, expiry, proof over this TLS  ────> proof holds? ── no: "unproven", whatever is wrong
//!                                            commit: ticket used by this key, its certificate
//!     checks root and certificate      <──── certificate, root, revocations, addresses
//! ```
//! A UDP port and an endpoint of its own, because a listener cannot see which protocol a client means before it has
//! chosen whose certificates to take: a member's port takes members, this one takes anyone, and neither leads to the
//! other. It is open only while a ticket is out.

mod door;
mod joiner;
mod listener;
mod wire;

pub use door::{Door, DoorError};
pub use joiner::{JoinError, Joined, redeem_ticket};
pub use listener::{Issuer, JoinCounts, JoinListener, Redeem, Unavailable, Welcome};

//! Claims about connections between nodes, over loopback: who gets in, who does not and learns why, what a stream
//! does.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a broken fixture ends its test")]

#[path = "transport/attacks.rs"]
mod attacks;
#[path = "transport/delivery.rs"]
mod delivery;
#[path = "transport/fixture.rs"]
mod fixture;
#[path = "transport/gullible.rs"]
mod gullible;
#[path = "transport/joining.rs"]
mod joining;
#[path = "transport/members.rs"]
mod members;
#[path = "transport/packets.rs"]
mod packets;
#[path = "transport/raw.rs"]
mod raw;
#[path = "transport/relayed.rs"]
mod relayed;
#[path = "transport/strangers.rs"]
mod strangers;
#[path = "transport/streams.rs"]
mod streams;

//! The broker: who should get this, did they, what came of it.
//!
//! A **flight** is an ask as its origin knows it; a **run** is the same ask as the agent's home knows it. Each node
//! decides about its own record only and tells the other through the outbox, also when both are this node: then the
//! message is handled within the same event.
//!
//! ```text
//! origin                                      home
//! ask: message, flight, parcel --- Ask --->   run queued | running          (one commit each side)
//!                            <-- RunStarted
//! flight ended, reply        <-- RunEnded --- run ended, outcome
//! ```

pub mod conversation;
pub mod flight;
pub mod list;
pub(crate) mod receipt;
pub mod resolve;
pub mod run;
pub(crate) mod send;

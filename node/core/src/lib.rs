//! What a node decides.
//!
//! State machines over events: time, randomness and stored state come in as arguments, changes and actions go out as
//! data. No network, no disk, no clock, no async, so every behaviour is a function that a test calls and a simulation
//! replays.
//!
//! Two machines make a node. The **durable machine** (delivery, broker, jobs) reads through a [`store::Store`] and
//! writes into an [`store::Overlay`] that is applied only when its event succeeded; its actions are performed only
//! after the commit. The **membership machine** keeps who is there in memory and never waits for a disk.

#![forbid(unsafe_code)]

pub mod broker;
mod deadline;
pub mod directory;
mod early_stop;
pub mod event;
pub mod evidence;
pub mod handler;
pub mod jobs;
pub mod joining;
pub mod limits;
pub mod links;
pub mod machine;
pub mod membership;
mod minted;
pub mod outbox;
mod parts;
pub mod placement;
pub mod policy;
pub mod quota;
mod receive;
pub mod roster;
pub mod site;
pub mod store;
pub mod time;
pub mod turn;
pub mod view;

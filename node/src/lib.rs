//! Does what the core decides: QUIC, redb, timers, processes, HTTP, MCP.

#![forbid(unsafe_code)]

pub mod agents;
pub mod api;
pub mod client;
pub mod clock;
pub mod delivery;
pub mod doorkeeper;
pub mod executor;
pub mod founding;
pub mod home;
pub mod identity;
pub mod join;
pub mod limits;
pub mod local;
pub mod mcp;
pub mod network;
pub mod node;
pub mod randomness;
pub mod service;
pub mod sight;
pub mod storage;
pub mod surroundings;
pub mod timer;
pub mod transport;
pub mod writer;

pub use mesh_sandbox::setup;

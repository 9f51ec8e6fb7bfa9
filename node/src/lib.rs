//! Does what the core decides: QUIC, redb, timers, processes, HTTP, MCP.

#![forbid(unsafe_code)]

pub mod api;
pub mod client;
pub mod clock;
pub mod delivery;
pub mod executor;
pub mod home;
pub mod identity;
pub mod join;
pub mod limits;
pub mod mcp;
pub mod network;
pub mod service;
pub mod storage;
pub mod transport;
pub mod writer;

pub use mesh_sandbox::setup;

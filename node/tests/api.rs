//! The local API and its client, over a real Unix socket, in front of a service that says what it is told to.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

#[path = "api/access.rs"]
mod access;
#[path = "api/answers.rs"]
mod answers;
#[path = "api/client.rs"]
mod client;
#[path = "api/http.rs"]
mod http;
#[path = "api/job_access.rs"]
mod job_access;
#[path = "api/job_room.rs"]
mod job_room;
#[path = "api/limits.rs"]
mod limits;
#[path = "api/listener.rs"]
mod listener;
#[path = "api/operations.rs"]
mod operations;
#[path = "api/scripted.rs"]
mod scripted;
#[path = "api/streams.rs"]
mod streams;
#[path = "api/submission.rs"]
mod submission;
#[path = "api/tenants.rs"]
mod tenants;
#[path = "api/world.rs"]
mod world;

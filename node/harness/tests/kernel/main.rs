//! The rules of the kernel as claims, through its public interface. `docs/harness.md` says which rule is where.

#![expect(clippy::expect_used, reason = "a broken stand-in ends its test")]
#![expect(clippy::print_stderr, reason = "a test says why it was skipped")]

mod canary;
mod cancellation;
mod capabilities;
mod conversations;
mod credentials;
mod environments;
mod events;
mod examples;
mod load;
mod looping;
mod models;
mod native;
mod private;
mod providers;
mod routes;

mod stand_ins;
mod tools;

//! The rules of the kernel as claims, through its public interface. `docs/harness.md` says which rule is where.

#![expect(clippy::expect_used, reason = "a broken stand-in ends its test")]

mod cancellation;
mod conversations;
mod events;
mod looping;
mod models;
mod providers;
mod stand_ins;
mod tools;

//! The rules of the kernel as claims, through its public interface. `docs/harness.md` says which rule is where.

mod cancellation;
mod conversations;
mod events;
mod looping;
mod models;
mod stand_ins;
mod tools;

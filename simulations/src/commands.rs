//! The commands of the program: each reads its arguments, runs, prints, and says whether every invariant held.

pub(crate) mod members;
pub(crate) mod outbox;

//! The commands of the program: each reads its arguments, runs, prints, and says whether every invariant held.

pub(crate) mod crash_points;
pub(crate) mod dials;
pub(crate) mod members;
pub(crate) mod outbox;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod shrink;

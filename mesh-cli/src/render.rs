//! The node's answers as text for people: one pure function an answer, from an API type and the time to a string.
//!
//! Names, causes, tasks and descriptions may come from other machines: every one goes through [`crate::foreign`] or a
//! [`crate::table::Cell`], which does.

pub(crate) mod agent;
pub(crate) mod check;
pub(crate) mod evidence;
pub(crate) mod expulsion;
pub(crate) mod flight;
pub(crate) mod grant;
pub(crate) mod invitation;
pub(crate) mod job;
pub(crate) mod key;
pub(crate) mod message;
pub(crate) mod outbox;
pub(crate) mod receipt;
pub(crate) mod route;
pub(crate) mod setup;
#[cfg(test)]
pub(crate) mod specimen;
pub(crate) mod status;

//! Whole commands as their users see them: exit code, standard output and standard error in one picture.
//!
//! Here are the commands that need no node. Every run has a home of its own and an environment with nothing else in it.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own preparation fails")]

mod command;
mod help;
mod home;
mod misuse;
mod pipes;
mod setup;
mod tables;
mod verify;

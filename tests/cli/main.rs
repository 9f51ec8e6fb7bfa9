//! Whole commands as their users see them: exit code, standard output and standard error in one picture.
//!
//! But for one test of the way from `init` to `down` no node runs here: commands that need one meet a stand-in, or
//! nobody. Every run has a home of its own and an environment with nothing else in it.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own preparation fails")]

mod asking;
mod checking;
mod command;
mod help;
mod home;
mod jobs;
mod keys;
mod life;
mod misuse;
mod pipes;
mod running;
mod setup;
mod stand_in;
mod tables;
mod trusting;
mod verify;
mod ways;

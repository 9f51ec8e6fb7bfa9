//! Whole nodes in virtual time: what holds under faults drawn from seeds, and what single faults do.
//!
//! `MESH_SEEDS=200` runs more seeds than the default, which is chosen to take seconds unoptimised.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails where it unwraps")]

#[path = "whole/clocks.rs"]
mod clocks;
#[path = "whole/command.rs"]
mod command;
#[path = "whole/disks.rs"]
mod disks;
#[path = "whole/fixture.rs"]
mod fixture;
#[path = "whole/links.rs"]
mod links;
#[path = "whole/load.rs"]
mod load;
#[path = "whole/meeting.rs"]
mod meeting;
#[path = "whole/restored.rs"]
mod restored;
#[path = "whole/seeds.rs"]
mod seeds;

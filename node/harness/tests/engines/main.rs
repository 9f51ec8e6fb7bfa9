//! Engines that drive programs, with small scripts in the programs' place: what they are given, what is made of what they
//! say, and that nothing of them is left. The real programs are driven in `tests/hosts`.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what a test stands on ends it")]

mod acp;
mod canary;
mod claude_code;
mod codex;
mod pi;
mod program;
mod refusals;
mod stage;
mod surface;

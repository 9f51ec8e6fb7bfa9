//! Real agent programs, offline: each does a task with a tool of ours (or its own, where it takes none of ours), through a
//! gateway where it can, and each is stopped in the middle of a turn.
//!
//! A scripted model takes the place of the providers. It speaks all their dialects, on loopback, in a network namespace
//! without any other network: nothing that a program tries to reach besides is there. The programs come from
//! `./tests/run --hosts`; without them these tests say so and pass.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test stands on ends it")]
#![expect(clippy::print_stderr, reason = "a test says why it was skipped, and how long a program took")]

mod contract;
mod model;
mod programs;
mod stage;

use stage::Agent;

#[test]
fn claude_code_does_a_task_with_our_tool_and_can_be_stopped() {
    stage::in_a_namespace("claude_code", "claude");
}

#[test]
fn codex_does_a_task_with_our_tool_and_can_be_stopped() {
    stage::in_a_namespace("codex", "codex");
}

#[test]
fn opencode_does_a_task_with_our_tool_and_can_be_stopped() {
    stage::in_a_namespace("opencode", "opencode");
}

#[test]
fn gemini_does_a_task_with_our_tool_and_can_be_stopped() {
    stage::in_a_namespace("gemini", "gemini");
}

#[test]
fn pi_does_a_task_with_a_tool_of_its_own_and_can_be_stopped() {
    stage::in_a_namespace("pi", "pi");
}

#[test]
fn eve_does_a_task_through_a_gateway_and_can_be_stopped() {
    stage::in_a_namespace("eve", "eve");
}

#[tokio::test]
#[ignore = "the other half of a test, in a network of its own"]
async fn claude_code() {
    programs::does_a_task_and_can_be_stopped(Agent::ClaudeCode).await;
}

#[tokio::test]
#[ignore = "the other half of a test, in a network of its own"]
async fn codex() {
    programs::does_a_task_and_can_be_stopped(Agent::Codex).await;
}

#[tokio::test]
#[ignore = "the other half of a test, in a network of its own"]
async fn opencode() {
    programs::does_a_task_and_can_be_stopped(Agent::OpenCode).await;
}

#[tokio::test]
#[ignore = "the other half of a test, in a network of its own"]
async fn gemini() {
    programs::does_a_task_and_can_be_stopped(Agent::Gemini).await;
}

#[tokio::test]
#[ignore = "the other half of a test, in a network of its own"]
async fn pi() {
    programs::does_a_task_and_can_be_stopped(Agent::Pi).await;
}

#[tokio::test]
#[ignore = "the other half of a test, in a network of its own"]
async fn eve() {
    programs::does_a_task_and_can_be_stopped(Agent::Eve).await;
}

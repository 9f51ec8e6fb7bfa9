//! The words a run begins with: what to do, what to do it with, and what is known beforehand.

use serde_json::Value;

use super::RunSpec;
use crate::environment::{Harness, compile_environment};

/// What every agent of the native engine is told first.
const GUIDANCE: &str = "You are an autonomous agent. Do the task with the tools you have, in the working directory, \
                        and finish with an answer that says what you did and found.";

/// The system prompt: the guidance, then the environment's instructions.
pub(crate) fn system(spec: &RunSpec) -> String {
    let compiled = compile_environment(spec.environment.as_ref(), Harness::Native);
    std::iter::once(GUIDANCE.to_owned()).chain(compiled.instructions).collect::<Vec<_>>().join("\n\n")
}

/// The task: the workflow's prompt, the inputs and the context, each only if there is any.
pub(crate) fn task(spec: &RunSpec, context: &str) -> String {
    let mut sections = vec![spec.workflow.prompt.clone()];
    if !spec.inputs.is_empty() {
        sections.push(format!("# Inputs\n\n```json\n{:#}\n```", Value::Object(spec.inputs.clone())));
    }
    if !context.is_empty() {
        sections.push(format!("# Context\n\n{context}"));
    }
    sections.join("\n\n")
}

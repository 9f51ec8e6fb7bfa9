//! The agent of the demo: reads a text, has it counted in a sandbox on another node, answers with what was found.
//!
//! It is an ordinary agent: a program that reads its task from standard input and writes its answer to standard output.
//! It speaks to its own node with the token of its run, so the job it asks for is known as this agent's. Where that
//! other node offers no sandbox it counts by itself, and its answer names no job.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use mesh_node::api::limits::WAIT_SECONDS_MAX;
use mesh_node::client::{Client, ClientError};
use mesh_protocol::api::job::RunRequest;
use mesh_protocol::id::JobId;
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobResult, JobSpec, JobStatus, Language, Requirements, STDIN_BYTES_MAX};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::args::DemoAgentArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::Source;
use crate::invocation::Invocation;

use super::counts::Counts;

/// The program it has run.
const COUNT: &str = include_str!("count.py");

/// Its answer, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// What was found.
    pub(crate) counts: Counts,
    /// The job that found it; absent when there was no sandbox for one.
    pub(crate) job: Option<JobId>,
}

/// Why it has no answer; its node passes the text on to whoever asked.
#[derive(Debug, Error)]
pub(crate) enum AgentError {
    /// Its journal cannot be written.
    #[error("cannot write the journal")]
    Journal(#[source] io::Error),
    /// The job did not succeed.
    #[error("the job ended as {status}: {stderr}")]
    Job {
        /// How.
        status: JobStatus,
        /// The end of what it wrote about it.
        stderr: String,
    },
    /// What it printed is not what it should.
    #[error("the job did not print counts")]
    NotCounts(#[source] serde_json::Error),
    /// The answer cannot be written.
    #[error("cannot encode the answer")]
    Encode(#[source] serde_json::Error),
}

/// Does one task.
pub(crate) async fn answer(invocation: &Invocation, args: &DemoAgentArgs) -> Result<Exit, Failure> {
    note_run(&args.journal).map_err(AgentError::Journal)?;
    let text = Source::Stdin.text(STDIN_BYTES_MAX).await?;
    let client = invocation.client()?;
    let answer = match offered(&client, &args.on).await? {
        Some(class) => counted_in_sandbox(&client, &args.on, class, text).await?,
        None => Answer { counts: Counts::of(&text), job: None },
    };
    invocation.printer.text(&serde_json::to_string(&answer).map_err(AgentError::Encode)?);
    Ok(Exit::Done)
}

/// One line a run, before anything else: who counts them sees how often the agent was begun.
fn note_run(journal: &Path) -> io::Result<()> {
    File::options().append(true).create(true).open(journal)?.write_all(b"begun\n")
}

/// The strongest class that a node's sandbox offers.
async fn offered(client: &Client, node: &str) -> Result<Option<IsolationClass>, ClientError> {
    let status = client.status().await?;
    let executor = status.peers.iter().find(|peer| peer.name == node).map(|peer| &peer.executor);
    let classes = executor.map(|executor| executor.classes.as_slice()).unwrap_or_default();
    Ok(classes.iter().copied().max())
}

async fn counted_in_sandbox(
    client: &Client,
    node: &str,
    class: IsolationClass,
    text: String,
) -> Result<Answer, Failure> {
    let requirements = Requirements { minimum_isolation: class };
    let spec = JobSpec { stdin: text, requirements, ..JobSpec::new(Language::Python, COUNT) };
    let request = RunRequest { on: Some(node.to_owned()), ..RunRequest::new(spec) };
    let job = client.submit(request).await?.job_id;
    loop {
        // The node ends every job at its deadline, so this ends too.
        let view = client.job_result(job, WAIT_SECONDS_MAX).await?;
        if let Some(result) = view.result.filter(|_| view.terminal) {
            return Ok(Answer { counts: counts_in(&result)?, job: Some(job) });
        }
    }
}

/// What a job says, which may be anything.
fn counts_in(result: &JobResult) -> Result<Counts, AgentError> {
    if result.status != JobStatus::Succeeded {
        let stderr = result.stderr.lines().last().unwrap_or_default().to_owned();
        return Err(AgentError::Job { status: result.status, stderr });
    }
    serde_json::from_str(&result.stdout).map_err(AgentError::NotCounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(status: JobStatus, stdout: &str) -> JobResult {
        JobResult {
            status,
            exit_code: Some(0),
            killed_by: None,
            stdout: stdout.into(),
            stderr: "Traceback\nMemoryError\n".into(),
            truncated: false,
            duration_ms: 1,
            isolation: None,
            may_have_run: true,
            violations: Vec::new(),
            artifacts: Vec::new(),
        }
    }

    #[test]
    fn what_the_job_prints_is_read_and_anything_else_is_refused() {
        let counts = Counts::of("one two");
        let printed = serde_json::to_string(&counts).unwrap();
        assert_eq!(counts_in(&result(JobStatus::Succeeded, &printed)).unwrap(), counts);
        let error = counts_in(&result(JobStatus::Succeeded, "42")).unwrap_err();
        assert!(matches!(error, AgentError::NotCounts(_)));
    }

    #[test]
    fn a_job_that_failed_says_its_last_word() {
        let error = counts_in(&result(JobStatus::Failed, "")).unwrap_err();
        assert_eq!(error.to_string(), "the job ended as failed: MemoryError");
    }
}

//! Jobs, how they end, and what became of their proof.

use mesh_protocol::api::job::{AttestationView, JobReceipt, JobView};
use mesh_protocol::job::{JobResult, JobStatus};

use crate::exit::{Exit, JOB_KILLED, JOB_TIMED_OUT};
use crate::foreign;
use crate::measure::{self, ago};
use crate::style::{self, BAD, DOUBTFUL, KEY, LITERAL};
use crate::table::{Align, Cell, Table, key_values};

/// All of them, a row each.
pub(crate) fn jobs(jobs: &[JobView], now_ms: u64) -> String {
    if jobs.is_empty() {
        return "no jobs yet\n".to_owned();
    }
    let mut table = Table::new([
        ("JOB", Align::Left),
        ("STATUS", Align::Left),
        ("LANGUAGE", Align::Left),
        ("NODE", Align::Left),
        ("PROOF", Align::Left),
        ("AGE", Align::Left),
    ]);
    for job in jobs {
        table.row([
            Cell::styled(LITERAL, job.job_id.suffix()),
            Cell::state(job.status.name()),
            Cell::from(job.language),
            Cell::from(&job.node_name),
            Cell::from(proof_word(&job.attestation)),
            Cell::from(ago(now_ms, job.created_at_ms)),
        ]);
    }
    table.render()
}

/// One in full, its outputs last.
pub(crate) fn job(job: &JobView, now_ms: u64) -> String {
    let mut status = style::paint(style::of_state(job.status.name()), job.status);
    if let Some(what) = &job.waiting_on {
        status.push_str(&format!(", waiting on {}", foreign::line(what)));
    }
    let mut pairs = vec![
        ("job", style::paint(LITERAL, job.job_id)),
        ("status", status),
        ("language", job.language.to_string()),
        ("node", format!("{} {}", style::paint(KEY, foreign::line(&job.node_name)), job.node)),
        ("asked by", foreign::line(&job.requester)),
        ("accepted", ago(now_ms, job.created_at_ms)),
        ("delivery", super::flight::delivery(job.delivery).to_owned()),
        ("at least", job.minimum_isolation.to_string()),
    ];
    if let Some(result) = &job.result {
        pairs.extend(ending(result));
    }
    pairs.push(("proof", proof(&job.attestation)));
    if job.late.is_some() {
        pairs.push(("late", "a result came after the outcome was decided; `--json` shows it".to_owned()));
    }
    let mut text = key_values(&pairs);
    if let Some(result) = &job.result {
        text.push_str(&output("stdout", &result.stdout));
        text.push_str(&output("stderr", &result.stderr));
    }
    text
}

fn ending(result: &JobResult) -> Vec<(&'static str, String)> {
    let isolation = result.isolation.map_or_else(|| "not observed".to_owned(), |class| class.to_string());
    let mut pairs = vec![
        ("exit code", result.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string())),
        ("took", measure::took(result.duration_ms)),
        ("isolation", isolation),
    ];
    if let Some(word) = &result.killed_by {
        pairs.push(("stopped by", foreign::line(word)));
    }
    if result.truncated {
        pairs.push(("output", "cut: the job wrote more than is kept".to_owned()));
    }
    pairs
}

fn output(name: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\n{name}:\n{}", foreign::block(text)) }
}

/// The line that says a job was accepted.
pub(crate) fn accepted(receipt: &JobReceipt) -> String {
    let again = if receipt.replayed { ", as before (same key)" } else { "" };
    let job = style::paint(LITERAL, receipt.job_id);
    format!("{job} on {}{again}", foreign::line(&receipt.node_name))
}

/// Why a job gave no result of its own, if so.
pub(crate) fn trouble(result: &JobResult) -> Option<String> {
    let by = result.killed_by.as_ref().map_or_else(String::new, |word| format!(" ({})", foreign::line(word)));
    let what = match result.status {
        JobStatus::Succeeded | JobStatus::Failed | JobStatus::Queued | JobStatus::Running => return None,
        JobStatus::TimedOut => "the job ran out of time",
        JobStatus::OomKilled => "the job ran out of memory",
        JobStatus::Cancelled => "the job was cancelled",
        JobStatus::Error => "the mesh could not run the job",
    };
    let begun = match (result.status, result.may_have_run) {
        (JobStatus::Error | JobStatus::Cancelled, true) => "; it may have begun",
        (JobStatus::Error | JobStatus::Cancelled, false) => "; it did not begin",
        _ => "",
    };
    Some(format!("{}{by}{begun}", style::paint(BAD, what)))
}

/// What a result says through the exit code.
pub(crate) fn exit(result: &JobResult) -> Exit {
    let own = result.exit_code.and_then(|code| u8::try_from(code).ok());
    match (result.status, own) {
        (JobStatus::Succeeded, _) => Exit::Done,
        (JobStatus::Failed, Some(code)) => Exit::Job(code),
        (JobStatus::TimedOut, _) => JOB_TIMED_OUT,
        (JobStatus::OomKilled | JobStatus::Cancelled, _) => JOB_KILLED,
        (JobStatus::Failed | JobStatus::Error | JobStatus::Queued | JobStatus::Running, _) => Exit::NotRun,
    }
}

/// What became of the proof, in a line that claims no more than was checked.
pub(crate) fn proof(attestation: &AttestationView) -> String {
    match attestation {
        AttestationView::Pending => "none yet".to_owned(),
        AttestationView::Missing { reason } => format!("none: {}", foreign::line(reason)),
        AttestationView::Verified { signer, event_chain_complete, .. } => {
            let chain = if *event_chain_complete { "event chain complete" } else { "event chain incomplete" };
            format!("signed by {}, checked on arrival, {chain}", signer.short())
        }
        AttestationView::Unverified { reason } => {
            style::paint(DOUBTFUL, format_args!("does not verify: {}", foreign::line(reason)))
        }
        AttestationView::Unsigned { failures } => style::paint(
            DOUBTFUL,
            format_args!("none yet: signing it failed {failures} times, and is tried again"),
        ),
    }
}

const fn proof_word(attestation: &AttestationView) -> &'static str {
    match attestation {
        AttestationView::Pending => "pending",
        AttestationView::Missing { .. } => "none",
        AttestationView::Verified { .. } => "signed",
        AttestationView::Unverified { .. } => "invalid",
        AttestationView::Unsigned { .. } => "unsigned",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::specimen::{self, NOW, plain};

    fn result(status: JobStatus) -> JobResult {
        specimen::job(status).result.unwrap()
    }

    #[test]
    fn jobs_are_rows_with_the_end_of_the_id_first() {
        insta::assert_snapshot!(plain(&jobs(&[specimen::job(JobStatus::Running)], NOW)), @r"
        JOB       STATUS   LANGUAGE  NODE  PROOF    AGE
        2081040g  running  python    nova  pending  10m ago
        ");
    }

    #[test]
    fn one_job_shows_its_ending_its_proof_and_its_outputs() {
        let verified = AttestationView::Verified {
            signer: specimen::node(2),
            key_id: "sha256:00".into(),
            event_chain_complete: false,
        };
        let job_view = JobView { attestation: verified, ..specimen::job(JobStatus::Failed) };
        insta::assert_snapshot!(plain(&job(&job_view, NOW)), @r"
        job        job-065svpb801q091040g2081040g
        status     failed
        language   python
        node       nova aibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaiba
        asked by   operator
        accepted   10m ago
        delivery   acknowledged
        at least   gvisor-application-kernel
        exit code  3
        took       840ms
        isolation  gvisor-application-kernel
        proof      signed by aibaeaqcai, checked on arrival, event chain incomplete

        stdout:
        out

        stderr:
        err
        ");
    }

    #[test]
    fn the_exit_code_is_the_jobs_own_when_it_had_one() {
        assert_eq!(exit(&result(JobStatus::Failed)), Exit::Job(3));
        assert_eq!(exit(&result(JobStatus::TimedOut)).code(), 124);
        assert_eq!(exit(&result(JobStatus::OomKilled)).code(), 137);
        assert_eq!(exit(&result(JobStatus::Error)).code(), 125);
        assert_eq!(exit(&JobResult { exit_code: Some(-1), ..result(JobStatus::Failed) }).code(), 125);
    }

    #[test]
    fn a_job_that_may_have_begun_is_told_apart_from_one_that_did_not() {
        let not_run = JobResult { may_have_run: false, ..result(JobStatus::Error) };
        assert!(trouble(&not_run).unwrap().ends_with("it did not begin"));
        assert!(trouble(&result(JobStatus::Error)).unwrap().ends_with("it may have begun"));
        assert_eq!(trouble(&result(JobStatus::Failed)), None);
    }
}

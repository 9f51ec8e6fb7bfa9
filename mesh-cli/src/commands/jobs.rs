//! `jobs`: the jobs of this node, or one of them.

mod logs;

use mesh_node::client::{Client, ClientError};
use mesh_node::service::LIST_ROWS_MAX;
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::JobFilter;
use mesh_protocol::id::JobId;

use super::run;
use crate::args::{JobAttestationArgs, JobListArgs, JobResultArgs, JobsArgs, JobsCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::{foreign, input, job_files, render};

/// Lists jobs, or does something with one.
pub(crate) async fn jobs(invocation: &Invocation, args: &JobsArgs) -> Result<Exit, Failure> {
    let client = invocation.client()?;
    match (&args.what, &args.job) {
        (None, Some(job)) => show(invocation, &client, job).await,
        (None, None) => list(invocation, &client, &args.list).await,
        (Some(JobsCommand::List(args)), _) => list(invocation, &client, args).await,
        (Some(JobsCommand::Show(args)), _) => show(invocation, &client, &args.job).await,
        (Some(JobsCommand::Logs(args)), _) => logs::logs(invocation, &client, args).await,
        (Some(JobsCommand::Cancel(args)), _) => {
            let reply = client.cancel_job(find_job(&client, &args.job).await?).await?;
            let what = foreign::line(&args.job);
            invocation.printer.answer(&reply, |reply| render::flight::cancelled(&what, reply));
            Ok(Exit::Done)
        }
        (Some(JobsCommand::Result(args)), _) => result(invocation, &client, args).await,
        (Some(JobsCommand::Attestation(args)), _) => attestation(invocation, &client, args).await,
    }
}

async fn list(invocation: &Invocation, client: &Client, args: &JobListArgs) -> Result<Exit, Failure> {
    let now = invocation.wall_ms();
    let filter = JobFilter { status: args.status, language: args.language, cursor: args.cursor.clone() };
    let page = client.jobs(&filter, args.limit).await?;
    invocation.printer.answer(&page, |page| render::job::jobs(&page.jobs, now));
    Ok(Exit::Done)
}

async fn show(invocation: &Invocation, client: &Client, job: &str) -> Result<Exit, Failure> {
    let now = invocation.wall_ms();
    let job = client.job_result(find_job(client, job).await?, 0).await?;
    invocation.printer.answer(&job, |job| render::job::job(job, now));
    Ok(Exit::Done)
}

async fn result(invocation: &Invocation, client: &Client, args: &JobResultArgs) -> Result<Exit, Failure> {
    let id = find_job(client, &args.job).await?;
    let job = if args.no_wait { client.job_result(id, 0).await? } else { run::ended(client, id).await? };
    if !job.terminal {
        invocation.printer.answer(&job, |job| format!("{}\n", job.status));
        return Ok(Exit::Unavailable);
    }
    let exit = run::conclude(invocation, &job);
    if let Some(dir) = &args.output_dir {
        job_files::check_free(dir, &job.outputs)?;
        job_files::save(invocation, &client.job_outputs(id).await?, dir)?;
    }
    Ok(exit)
}

async fn attestation(
    invocation: &Invocation,
    client: &Client,
    args: &JobAttestationArgs,
) -> Result<Exit, Failure> {
    let id = find_job(client, &args.job).await?;
    if let Some(path) = &args.evidence {
        input::write_private(path, &client.evidence(id).await?)?;
    }
    if let Some(path) = &args.envelope {
        input::write_private(path, &client.attestation(id).await?)?;
    }
    if let Some(path) = &args.artifact {
        input::write_private(path, &client.result_artifact(id).await?)?;
    }
    let job = client.job(id).await?;
    invocation
        .printer
        .answer(&job.attestation, |attestation| format!("{}\n", render::job::proof(attestation)));
    Ok(Exit::Done)
}

/// The job with this id, or the only recent one whose id ends so.
pub(super) async fn find_job(client: &Client, text: &str) -> Result<JobId, Failure> {
    if let Ok(job) = text.parse() {
        return Ok(job);
    }
    let page = client.jobs(&JobFilter::default(), LIST_ROWS_MAX).await?;
    Ok(only_ending(page.jobs.iter().map(|job| job.job_id), text).map_err(ClientError::Refused)?)
}

/// The one id that ends with `text`.
fn only_ending(jobs: impl Iterator<Item = JobId>, text: &str) -> Result<JobId, ApiError> {
    let mut found = jobs.filter(|job| !text.is_empty() && job.to_string().ends_with(text));
    match (found.next(), found.next()) {
        (Some(job), None) => Ok(job),
        (Some(_), Some(_)) => {
            let message = format!("several jobs end with `{text:.40}`");
            Err(ApiError::new(ErrorKind::Ambiguous, "ambiguous_job", message).hint("type more of the id"))
        }
        (None, _) => {
            let message = format!("no job is, or ends with, `{text:.40}`");
            Err(ApiError::new(ErrorKind::NotFound, "unknown_job", message).hint("`mesh-cli jobs` lists them"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_id_is_enough_when_it_means_one_job() {
        let (one, two) = (JobId::mint(1, [1; 10]), JobId::mint(1, [2; 10]));
        let find = |text: &str| only_ending([one, two].into_iter(), text);
        assert_eq!(find(&one.suffix()), Ok(one));
        assert_eq!(find("zz").unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(find("").unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(
            only_ending([one, one].into_iter(), &one.suffix()).unwrap_err().kind,
            ErrorKind::Ambiguous
        );
    }
}

//! `jobs`: the jobs of this node, or one of them.

use mesh_node::client::{Client, ClientError};
use mesh_node::service::LIST_ROWS_MAX;
use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::id::JobId;

use crate::args::JobsArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Lists jobs, or shows one.
pub(crate) async fn jobs(invocation: &Invocation, args: &JobsArgs) -> Result<Exit, Failure> {
    let client = invocation.client()?;
    let now = invocation.wall_ms();
    match &args.job {
        Some(text) => {
            let job = client.job_result(find_job(&client, text).await?, 0).await?;
            invocation.printer.answer(&job, |job| render::job::job(job, now));
        }
        None => {
            let jobs = client.jobs(args.limit).await?;
            invocation.printer.answer(&jobs, |jobs| render::job::jobs(jobs, now));
        }
    }
    Ok(Exit::Done)
}

/// The job with this id, or the only recent one whose id ends so.
pub(super) async fn find_job(client: &Client, text: &str) -> Result<JobId, Failure> {
    if let Ok(job) = text.parse() {
        return Ok(job);
    }
    let jobs = client.jobs(LIST_ROWS_MAX).await?;
    Ok(only_ending(jobs.iter().map(|job| job.job_id), text).map_err(ClientError::Refused)?)
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

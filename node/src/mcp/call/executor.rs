//! Jobs.

use mesh_protocol::api::error::{ApiError, ErrorKind};
use mesh_protocol::api::job::{JobReceipt, JobView, RunRequest};
use mesh_protocol::id::JobId;
use mesh_protocol::job::{JobSpec, Requirements};

use super::{Answer, Call, report, stopped};
use crate::client::ClientError;
use crate::mcp::arguments::{self, Job, JobWait, RunCode};
use crate::mcp::limits::CANCEL_WITHIN;
use crate::mcp::report::job::{CancelReport, JobReport};

impl Call<'_> {
    pub(super) async fn run_code(&self, run: RunCode) -> Answer {
        let wait = arguments::seconds("wait_seconds", run.wait_seconds, 0)?;
        let request = self.job_of(run)?;
        if self.stop.is_cancelled() {
            return Err(stopped());
        }
        // Not to be stopped half-way: only with the job's id can the job be stopped too. It is bounded by the client.
        let receipt = self.adapter.submissions.submit(&self.client, request).await?;
        match self.wait_or_cancel(receipt.job_id, wait).await? {
            Ok(view) => report(JobReport::from(view).held(receipt)),
            Err(error) => report(accepted(receipt, &error)),
        }
    }

    pub(super) async fn job_result(&self, wait: JobWait) -> Answer {
        let seconds = arguments::seconds("wait_seconds", wait.wait_seconds, 0)?;
        let job = arguments::id("job_id", &wait.job_id)?;
        report(JobReport::from(self.unless_stopped(self.client.job_result(job, seconds)).await?))
    }

    pub(super) async fn cancel_job(&self, Job { job_id }: Job) -> Answer {
        let job = arguments::id("job_id", &job_id)?;
        report(CancelReport::new(job, self.unless_stopped(self.client.cancel_job(job)).await?))
    }

    /// The job a model described, under the operator's policy.
    fn job_of(&self, run: RunCode) -> Result<RunRequest, ApiError> {
        let policy = &self.adapter.policy;
        if !policy.allowed_languages.contains(&run.language) {
            let allowed: Vec<_> = policy.allowed_languages.iter().map(|language| language.name()).collect();
            let message = format!("`language`: {} is not allowed here", run.language);
            let refusal = ApiError::new(ErrorKind::Refused, "language_not_allowed", message);
            return Err(refusal.hint(format!("use one of: {}", allowed.join(", "))));
        }
        let spec = JobSpec {
            stdin: run.stdin,
            limits: run.limits.filled_in(),
            requirements: Requirements { minimum_isolation: policy.minimum_isolation },
            ..JobSpec::new(run.language, run.code)
        };
        spec.check().map_err(|error| arguments::wrong(error.to_string()))?;
        Ok(RunRequest { on: policy.executor.clone(), ..RunRequest::new(spec) })
    }

    /// The job when it has ended or the wait is over. A call that is stopped stops the job.
    async fn wait_or_cancel(
        &self,
        job: JobId,
        wait_seconds: u64,
    ) -> Result<Result<JobView, ClientError>, ApiError> {
        tokio::select! {
            biased;
            answered = self.client.job_result(job, wait_seconds) => return Ok(answered),
            () = self.stop.cancelled() => {}
        }
        match tokio::time::timeout(CANCEL_WITHIN, self.client.cancel_job(job)).await {
            Ok(Ok(reply)) => tracing::info!(%job, state = reply.state, "stopped the job of a cancelled call"),
            Ok(Err(error)) => tracing::warn!(%job, %error, "cannot stop the job of a cancelled call"),
            Err(_) => tracing::warn!(%job, "no answer to stopping the job of a cancelled call"),
        }
        Err(stopped())
    }
}

/// The job is durable: whatever happened to the wait, the caller gets its id.
fn accepted(receipt: JobReceipt, error: &ClientError) -> JobReport {
    JobReport::accepted(receipt, Some(format!("the wait was cut short: {error}")))
}

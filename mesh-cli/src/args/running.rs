//! Arguments of the commands about jobs.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, Subcommand};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobLimits, JobStatus, Language};

use super::duration;
use crate::input::Source;

/// `run`
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("program").required(true).args(["file", "code"])))]
#[command(after_help = "\
The job's standard output and standard error are this command's, and so is its exit code. 125 \
means that the mesh could not run it, 124 that it ran out of time, 137 that it was killed or ran \
out of memory.

A job has no network and sees no files of this machine. It runs on this node or on one that its operator chose.

  mesh-cli run script.py --stdin input.csv
  mesh-cli run plot.py --input data.csv --output plot.png --output-dir results
  mesh-cli run --language bash -e 'uname -a'
  mesh-cli run --on atlas --evidence proof.json script.js")]
pub(crate) struct RunArgs {
    /// The program's file, or `-` to read it from standard input.
    pub(crate) file: Option<Source>,
    /// The program itself.
    #[arg(short = 'e', long, value_name = "CODE")]
    pub(crate) code: Option<String>,
    /// python, node or bash; told by the file's name or first line when absent.
    #[arg(short, long)]
    pub(crate) language: Option<Language>,
    /// The node to run it on, by name or id.
    #[arg(long, value_name = "NODE")]
    pub(crate) on: Option<String>,
    /// What the program reads: a file, or `-` for standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) stdin: Option<Source>,
    /// A file the program finds at input/NAME, or NAME=FILE to call it otherwise; may be given again.
    #[arg(long = "input", value_name = "FILE")]
    pub(crate) inputs: Vec<InputArg>,
    /// A file the program is to leave at output/NAME; may be given again.
    #[arg(long = "output", value_name = "NAME")]
    pub(crate) outputs: Vec<String>,
    /// Where the files it leaves are saved.
    #[arg(
        long,
        value_name = "DIR",
        default_value = ".",
        hide_default_value = true,
        conflicts_with = "detach"
    )]
    pub(crate) output_dir: PathBuf,
    /// The runtime pack to run it in.
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<String>,
    /// Save the signed evidence of the job here.
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    pub(crate) evidence: Option<PathBuf>,
    /// Print the job's id and do not wait.
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// When the result is of no use any more; an hour when absent.
    #[arg(long, value_name = "TIME", value_parser = duration::seconds)]
    pub(crate) deadline: Option<u64>,
    /// Your own key: the same key and program again give the first job again, not a second.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Running it twice does no harm: it may go to another node when its own is gone.
    #[arg(long)]
    pub(crate) idempotent: bool,
    /// Accept isolation that shares the machine's kernel.
    #[arg(long)]
    pub(crate) shared_kernel: bool,
    /// What the job may use.
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// What a job may use.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Wall time, from when the sandbox is ready; up to 5m.
    #[arg(long, value_name = "TIME", value_parser = duration::seconds, default_value = "15s")]
    timeout: u64,
    /// CPU time of all its processes together; as `--timeout` when absent.
    #[arg(long, value_name = "TIME", value_parser = duration::seconds)]
    cpu: Option<u64>,
    /// MiB of memory, temporary files included; up to 1024.
    #[arg(long, value_name = "MIB", default_value_t = JobLimits::default().mem_mb)]
    memory: u32,
    /// Processes and threads; up to 256.
    #[arg(long, value_name = "COUNT", default_value_t = JobLimits::default().max_pids)]
    processes: u32,
    /// MiB of the largest file it may write; up to 256.
    #[arg(long, value_name = "MIB", default_value_t = JobLimits::default().max_file_mb)]
    file_size: u32,
}

impl LimitArgs {
    /// The limits; where a job runs they are brought within what that node grants.
    pub(crate) fn limits(&self) -> JobLimits {
        let seconds = |time: u64| u32::try_from(time).unwrap_or(u32::MAX);
        JobLimits {
            wall_seconds: seconds(self.timeout),
            cpu_seconds: seconds(self.cpu.unwrap_or(self.timeout)),
            mem_mb: self.memory,
            max_pids: self.processes,
            max_file_mb: self.file_size,
            allow_network: false,
        }
    }
}

impl RunArgs {
    /// The weakest isolation that is accepted.
    pub(crate) fn minimum_isolation(&self) -> IsolationClass {
        if self.shared_kernel { IsolationClass::LinuxSharedKernel } else { IsolationClass::default() }
    }
}

/// A file for a job: where it is, and what the job knows it as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputArg {
    /// Below `input/`.
    pub(crate) name: String,
    /// On this machine.
    pub(crate) file: PathBuf,
}

impl FromStr for InputArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((name, file)) = text.split_once('=') {
            return Ok(Self { name: name.to_owned(), file: file.into() });
        }
        let file = PathBuf::from(text);
        let name = file.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        name.map(|name| Self { name, file })
            .ok_or_else(|| "has no name of its own; give NAME=FILE".to_owned())
    }
}

/// `jobs`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct JobsArgs {
    /// What to do with jobs; list them, or show one, when absent.
    #[command(subcommand)]
    pub(crate) what: Option<JobsCommand>,
    /// Show one job, by its id or the end of it.
    pub(crate) job: Option<String>,
    /// What to list.
    #[command(flatten)]
    pub(crate) list: JobListArgs,
}

/// What `jobs` does.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List jobs, newest first.
    List(JobListArgs),
    /// Show one job.
    Show(JobArg),
    /// Show what a job writes.
    Logs(JobLogsArgs),
    /// Stop a job.
    Cancel(JobArg),
    /// Wait for a job; its outputs and its exit code become this command's own.
    Result(JobResultArgs),
    /// Save what its executor signed.
    Attestation(JobAttestationArgs),
}

/// Which jobs to list.
#[derive(Debug, Args)]
pub(crate) struct JobListArgs {
    /// How many to list.
    #[arg(long, default_value_t = 20, value_name = "ROWS")]
    pub(crate) limit: usize,
    /// In this status only.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub(crate) status: Option<JobStatus>,
    /// In this language only.
    #[arg(long)]
    pub(crate) language: Option<Language>,
    /// Behind an earlier page: its `next_cursor`.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

/// The published name of a status.
fn status(text: &str) -> Result<JobStatus, String> {
    let all = [
        JobStatus::Queued,
        JobStatus::Running,
        JobStatus::Succeeded,
        JobStatus::Failed,
        JobStatus::TimedOut,
        JobStatus::OomKilled,
        JobStatus::Cancelled,
        JobStatus::Error,
    ];
    all.into_iter().find(|status| status.name() == text).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|status| status.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

/// One job.
#[derive(Debug, Args)]
pub(crate) struct JobArg {
    /// Its id, or the end of it.
    pub(crate) job: String,
}

/// `jobs logs`
#[derive(Debug, Args)]
pub(crate) struct JobLogsArgs {
    /// Its id, or the end of it.
    pub(crate) job: String,
    /// Go on until it has ended.
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// `jobs result`
#[derive(Debug, Args)]
pub(crate) struct JobResultArgs {
    /// Its id, or the end of it.
    pub(crate) job: String,
    /// Do not wait.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Save the files it left here.
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
}

/// `jobs attestation`
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("saved").required(true).multiple(true).args(["evidence", "envelope", "artifact"])))]
#[command(after_help = "`mesh-cli verify` checks what is saved, on any machine.")]
pub(crate) struct JobAttestationArgs {
    /// Its id, or the end of it.
    pub(crate) job: String,
    /// Save everything in one file.
    #[arg(long, value_name = "FILE")]
    pub(crate) evidence: Option<PathBuf>,
    /// Save the signed envelope, as any DSSE tool reads it.
    #[arg(long, value_name = "FILE")]
    pub(crate) envelope: Option<PathBuf>,
    /// Save the result that the envelope is about.
    #[arg(long, value_name = "FILE")]
    pub(crate) artifact: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_called_as_its_file_unless_it_is_given_a_name() {
        let read = |text: &str| text.parse::<InputArg>();
        let plain = InputArg { name: "a.csv".into(), file: "some/a.csv".into() };
        assert_eq!(read("some/a.csv"), Ok(plain));
        assert_eq!(read("b/c=a=b"), Ok(InputArg { name: "b/c".into(), file: "a=b".into() }));
        assert!(read("..").is_err());
    }
}

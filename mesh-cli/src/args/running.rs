//! Arguments of the commands about jobs.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::{JobLimits, Language};

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
        }
    }
}

impl RunArgs {
    /// The weakest isolation that is accepted.
    pub(crate) fn minimum_isolation(&self) -> IsolationClass {
        if self.shared_kernel { IsolationClass::LinuxSharedKernel } else { IsolationClass::default() }
    }
}

/// `jobs`
#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    /// Show one job, by its id or the end of it.
    pub(crate) job: Option<String>,
    /// How many to list.
    #[arg(long, default_value_t = 20, value_name = "ROWS")]
    pub(crate) limit: usize,
}

//! Compares a cold job through this crate with a bare `runsc run` of the same bundle: median of N, interleaved.
//!
//! `measure <directory> [count]`
#![expect(clippy::print_stdout, reason = "an example for a terminal")]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mesh_sandbox::{Cancel, Job, JobObserver, Language, Outcome, Sandbox, SandboxConfig};

/// Copies the bundle of the job that became ready, so that it can be run again without this crate.
struct Copy<'a> {
    jobs: &'a Path,
    to: &'a Path,
}

impl JobObserver for Copy<'_> {
    fn ready(&mut self) {
        let Some(job) = fs::read_dir(self.jobs).ok().and_then(|mut jobs| jobs.next()?.ok()) else { return };
        let parts = ["bundle", "code", "input"].map(|part| job.path().join(part));
        let _ = fs::create_dir_all(self.to);
        let _ = Command::new("cp").arg("-a").args(parts).arg(self.to).status();
        let config = self.to.join("bundle/config.json");
        if let (Ok(text), Some(old), Some(new)) =
            (fs::read_to_string(&config), job.path().to_str(), self.to.to_str())
        {
            let _ = fs::write(&config, text.replace(old, new));
        }
    }
}

/// One bare run: as this crate calls it, with nobody watching.
fn bare(bundle: &Path, number: usize) -> Result<Duration, Box<dyn Error>> {
    let state = bundle.with_file_name(format!("state-{number}"));
    fs::create_dir_all(&state)?;
    let line = format!(
        "exec runsc --root {} --network=none --ignore-cgroups --platform=systrap --directfs=false --overlay2=none \
         --oci-seccomp --host-uds=none --watchdog-action=panic run --pass-fd=3:3 --bundle {} bare-{number} 3> /dev/null",
        state.display(),
        bundle.display()
    );
    let started = Instant::now();
    let output = Command::new("bash").arg("-c").arg(line).stdin(Stdio::null()).output()?;
    let took = started.elapsed();
    if output.stdout != b"1\n" {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    fs::remove_dir_all(&state)?;
    Ok(took)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("usage: measure <directory> [count]")?);
    let count: usize = arguments.next().map_or(Ok(10), |count| count.parse())?;
    let config = SandboxConfig::new(&dir, "measure");
    let sandbox = Sandbox::preflight(&config).sandbox?;
    let cancel = Cancel::new()?;
    for (language, code) in
        [(Language::Python, "print(1)"), (Language::Node, "console.log(1)"), (Language::Bash, "echo 1")]
    {
        let job = Job::new(language, code);
        let copy = dir.join(format!("copy-{language}"));
        let _ = fs::remove_dir_all(&copy);
        sandbox.run(&job, &cancel, &mut Copy { jobs: &config.home.join("jobs"), to: &copy })?;
        let (mut ours, mut boots, mut bares) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..count {
            let started = Instant::now();
            let report = sandbox.run(&job, &cancel, &mut ())?;
            ours.push(started.elapsed());
            boots.push(Duration::from_millis(report.resource_usage.boot_time_ms));
            assert_eq!(report.outcome, Outcome::Succeeded);
            bares.push(bare(&copy.join("bundle"), number)?);
        }
        println!(
            "{language}: whole {:?}, to ready {:?}, bare {:?}",
            median(ours),
            median(boots),
            median(bares)
        );
    }
    Ok(())
}

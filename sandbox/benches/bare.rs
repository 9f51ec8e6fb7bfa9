//! The floor: `runsc run` alone, on the bundle of our own sandbox with a program in the place of the init, and nobody
//! watching.
//!
//! An ordinary bundle has its root file system in a directory, so that is what it is compared with; ours, from an image,
//! is shown beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mesh_sandbox::{Cancel, Job, JobObserver, Language, Sandbox, SandboxConfig};
use serde_json::{Value, json};

/// A program that prints 1, as our job and as arguments of its interpreter.
pub(crate) fn trivial(language: Language) -> (&'static str, &'static [&'static str]) {
    match language {
        Language::Python => ("print(1)", &["-I", "-c", "print(1)"]),
        Language::Node => ("console.log(1)", &["-e", "console.log(1)"]),
        Language::Bash => ("echo 1", &["-c", "echo 1"]),
    }
}

/// Where a bundle has its root file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    Directory,
    Image,
}

/// One program to run bare.
pub(crate) struct Bare {
    dir: PathBuf,
    number: AtomicU64,
}

impl Bare {
    /// Takes the bundle of a job of ours while it runs.
    pub(crate) fn prepare(
        dir: &Path,
        sandbox: &Sandbox,
        config: &SandboxConfig,
        language: Language,
        root: Root,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let mut take = Take { jobs: config.home.join("jobs"), config: None };
        let (code, arguments) = trivial(language);
        sandbox.run(&Job::new(language, code), &Cancel::new()?, &mut take)?;
        let mut bundle = take.config.ok_or("no bundle was seen")?;
        if root == Root::Directory
            && let Some(bundle) = bundle.as_object_mut()
        {
            bundle.remove("annotations");
        }
        let process = bundle.get_mut("process").ok_or("no process")?;
        let interpreter = process.pointer("/args/3").cloned().ok_or("no interpreter")?;
        let arguments = arguments.iter().map(|&argument| Value::from(argument));
        process["args"] = std::iter::once(interpreter).chain(arguments).collect();
        process["user"] = json!({"uid": 65534, "gid": 65534});
        process["capabilities"] = json!({});
        process["cwd"] = json!("/work");
        if let Some(environment) = process["env"].as_array_mut() {
            environment.retain(|entry| !entry.as_str().is_some_and(|entry| entry.starts_with("BASH_ENV")));
        }
        let dir = dir.join(format!("{language}-{root:?}"));
        fs::create_dir_all(dir.join("bundle"))?;
        fs::write(dir.join("bundle/config.json"), serde_json::to_vec(&bundle)?)?;
        Ok(Self { dir, number: AtomicU64::new(0) })
    }

    /// Runs it once, with the options our sandbox uses.
    pub(crate) fn run(&self) -> Result<Duration, Box<dyn std::error::Error + Send + Sync>> {
        let id = format!("bare-{}-{}", std::process::id(), self.number.fetch_add(1, Ordering::Relaxed));
        let state = self.dir.join(&id);
        fs::create_dir(&state)?;
        let flags = "--network=none --ignore-cgroups --platform=systrap --directfs=false --overlay2=none --oci-seccomp \
                     --host-uds=none --watchdog-action=panic";
        let mut command = Command::new("runsc");
        command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command.arg("--root").arg(&state).args(flags.split_whitespace());
        command.args(["run", "--bundle"]).arg(self.dir.join("bundle")).arg(&id);
        let started = Instant::now();
        let output = command.output()?;
        let took = started.elapsed();
        fs::remove_dir_all(&state)?;
        if output.stdout != b"1\n" {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(took)
    }
}

/// Reads the configuration of the job that has just been handed over.
struct Take {
    jobs: PathBuf,
    config: Option<Value>,
}

impl JobObserver for Take {
    fn ready(&mut self) {
        let jobs = fs::read_dir(&self.jobs).into_iter().flatten().filter_map(Result::ok);
        let texts = jobs.filter_map(|job| fs::read(job.path().join("bundle/config.json")).ok());
        self.config = texts.filter_map(|text| serde_json::from_slice(&text).ok()).next();
    }
}

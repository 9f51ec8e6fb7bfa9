//! Runs the preflight and one job: `run_once <directory> <python|node|bash> <code>`.
#![expect(clippy::print_stdout, reason = "an example for a terminal")]

use std::error::Error;
use std::path::Path;

use mesh_sandbox::{Cancel, Job, JobObserver, Language, Sandbox, SandboxConfig, Stream};

struct Print;

impl JobObserver for Print {
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        println!("{stream:?}: {}", String::from_utf8_lossy(bytes));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, language, code] = arguments.as_slice() else {
        return Err("usage: run_once <directory> <python|node|bash> <code>".into());
    };
    let language =
        Language::ALL.into_iter().find(|known| known.name() == language).ok_or("no such language")?;
    let config = SandboxConfig::new(Path::new(dir), "example");
    println!("{:?}", Sandbox::sweep(&config)?);
    let preflight = Sandbox::preflight(&config);
    for probe in &preflight.probes {
        println!("{} {}: {}", if probe.ok { "ok  " } else { "FAIL" }, probe.name, probe.finding);
    }
    let report = preflight.sandbox?.run(&Job::new(language, code.as_str()), &Cancel::new()?, &mut Print)?;
    println!("{report:#?}");
    Ok(())
}

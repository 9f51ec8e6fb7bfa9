//! What a job costs beside a bare `runsc run` of the same program on the same machine in the same minutes, what keeping
//! sandboxes ready costs, and what 200 hostile jobs leave behind.
//!
//! Kinds of run take turns, so that each meets the same machine. A bar that is missed is printed as missed, and the
//! program fails when a hostile job was told wrongly or left something.
//!
//! `cargo bench -p mesh-sandbox --bench sandbox`, with `-- latency`, `idle`, `rate` or `hostile` for a part of it.

#![expect(clippy::print_stdout, reason = "measurements are printed")]

mod bare;
#[path = "../tests/gvisor/hostile.rs"]
mod hostile;
mod leftovers;
mod rate;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bare::{Bare, Root, trivial};
use leftovers::Leftovers;
use mesh_sandbox::limits::ARMED_MIB;
use mesh_sandbox::{Cancel, Job, Language, Outcome, PoolConfig, Sandbox, SandboxConfig};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Turns of each kind of run.
const ROUNDS: usize = 20;
/// How long waiting sandboxes are watched.
const IDLE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    // `cargo bench` says so; a test runner that starts every target must not wait minutes for this one.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Error> {
    let root = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    println!("load average before: {}", load.trim());
    let asked: Vec<String> = std::env::args().collect();
    let wanted = |part: &str| {
        let parts = ["latency", "idle", "rate", "hostile"];
        asked.iter().any(|asked| asked == part) || !asked.iter().any(|asked| parts.contains(&&**asked))
    };
    if wanted("latency") {
        latency(root.path())?;
    }
    if wanted("idle") {
        idle(root.path())?;
    }
    if wanted("rate") {
        rate::measure(root.path())?;
    }
    if wanted("hostile") {
        hostile_jobs(root.path())?;
    }
    Ok(())
}

/// A configuration of its own, with so many sandboxes of each language kept ready.
pub(crate) fn config(root: &Path, name: &str, armed: usize) -> SandboxConfig {
    let dir = root.join(name);
    SandboxConfig {
        rootfs: root.join("rootfs"),
        pool: PoolConfig { armed, memory_mb: u64::MAX, ..PoolConfig::default() },
        ..SandboxConfig::new(&dir, format!("bench-{name}-{}", std::process::id()))
    }
}

pub(crate) fn open(config: &SandboxConfig) -> Result<Sandbox, Error> {
    Sandbox::preflight(config).sandbox.map_err(|error| format!("{error}: {}", error.hint()).into())
}

/// Waits until so many sandboxes wait for jobs.
pub(crate) fn fill(sandbox: &Sandbox, armed: usize) -> Result<(), Error> {
    let started = Instant::now();
    while sandbox.armed() < armed {
        if started.elapsed() > Duration::from_secs(300) {
            return Err("the pool does not fill".into());
        }
        pause(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits until no more are added for a while.
pub(crate) fn settle(sandbox: &Sandbox) -> usize {
    loop {
        let before = sandbox.armed();
        pause(Duration::from_secs(2));
        if sandbox.armed() == before {
            return before;
        }
    }
}

/// Lets time pass: what is measured is what others do in it.
fn pause(time: Duration) {
    if let Ok(time) = rustix::event::Timespec::try_from(time) {
        let _ = rustix::event::poll(&mut [], Some(&time));
    }
}

/// Runs the trivial program once.
pub(crate) fn one(sandbox: &Sandbox, language: Language) -> Result<Duration, Error> {
    let (job, cancel) = (Job::new(language, trivial(language).0), Cancel::new()?);
    let started = Instant::now();
    let report = sandbox.run(&job, &cancel, &mut ())?;
    let took = started.elapsed();
    if report.outcome == Outcome::Succeeded { Ok(took) } else { Err(format!("{report:?}").into()) }
}

fn p50(times: &mut [Duration]) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64) * 1000.0
}

pub(crate) fn bar(what: &str, value: f64, most: f64) {
    let verdict = if value <= most { "ok" } else { "MISSED" };
    println!("    {what}: {value:.3} (bar {most}) {verdict}");
}

fn latency(root: &Path) -> Result<(), Error> {
    let (cold_config, warm_config) = (config(root, "cold", 0), config(root, "warm", 2));
    let (cold, warm) = (open(&cold_config)?, open(&warm_config)?);
    println!("one trivial job, p50 of {ROUNDS}, from the call until nothing of it is left:");
    for language in Language::ALL {
        let prepare = |root_of| {
            Bare::prepare(&root.join("bare"), &cold, &cold_config, language, root_of)
                .map_err(|error| error.to_string())
        };
        let (bare, from_image) = (prepare(Root::Directory)?, prepare(Root::Image)?);
        let (mut bares, mut images, mut colds, mut warms) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            fill(&warm, 2 * Language::ALL.len())?;
            bares.push(bare.run()?);
            colds.push(one(&cold, language)?);
            images.push(from_image.run()?);
            warms.push(one(&warm, language)?);
        }
        let (bare, image, cold, warm) = (p50(&mut bares), p50(&mut images), p50(&mut colds), p50(&mut warms));
        println!(
            "  {language}: bare runsc {bare:.1} ms (from our image {image:.1} ms), cold {cold:.1} ms, warm {warm:.1} ms"
        );
        bar("warm / bare", warm / bare, if language == Language::Node { 0.35 } else { 0.25 });
        bar("cold / bare", cold / bare, 1.15);
    }
    Ok(())
}

fn idle(root: &Path) -> Result<(), Error> {
    let config = config(root, "idle", 2);
    let sandbox = open(&config)?;
    let kinds = Language::ALL.len();
    fill(&sandbox, 2 * kinds)?;
    let before = Leftovers::of(&config);
    pause(IDLE);
    let after = Leftovers::of(&config);
    let core = (after.cpu_usec - before.cpu_usec) as f64 / IDLE.as_secs_f64() / 1e6 * 100.0;
    let each = |bytes: u64| bytes as f64 / (2 * kinds) as f64 / 1024.0 / 1024.0;
    println!("{} waiting sandboxes for {} s:", 2 * kinds, IDLE.as_secs());
    bar("% of a core", core, 0.1);
    println!(
        "    memory each: {:.1} MiB in its control group, {:.1} MiB resident (PSS)",
        each(after.memory),
        each(after.pss)
    );
    Ok(())
}

/// 200 hostile jobs, four at a time.
fn hostile_jobs(root: &Path) -> Result<(), Error> {
    const JOBS: usize = 200;
    const LANES: usize = 4;
    let mut config = config(root, "hostile", 2);
    // A pool that grows would be counted as something left.
    config.pool.memory_mb = (2 * Language::ALL.len()) as u64 * ARMED_MIB;
    let sandbox = open(&config)?;
    let lane = |first: usize| -> Result<Vec<String>, Error> {
        let mut wrong = Vec::new();
        for number in (first..JOBS).step_by(LANES) {
            let Some(hostile) = hostile::HOSTILE.get(number % hostile::HOSTILE.len()) else { continue };
            let report = sandbox.run(&hostile.job(), &Cancel::new()?, &mut ())?;
            if !hostile.is_right(&report) {
                wrong.push(format!("{}: {report:?}", hostile.name));
            }
        }
        Ok(wrong)
    };
    // The first round of each makes what stays for good: threads, buffers of the allocator.
    for hostile in hostile::HOSTILE {
        sandbox.run(&hostile.job(), &Cancel::new()?, &mut ())?;
    }
    fill(&sandbox, 2 * Language::ALL.len())?;
    let before = Leftovers::of(&config);
    let started = Instant::now();
    let told: Result<Vec<Vec<String>>, Error> = std::thread::scope(|scope| {
        let lane = &lane;
        let lanes: Vec<_> = (0..LANES).map(|first| scope.spawn(move || lane(first))).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|_| Err("a lane panicked".into()))).collect()
    });
    let wrong = told?.concat();
    let took = started.elapsed();
    fill(&sandbox, 2 * Language::ALL.len())?;
    let after = Leftovers::of(&config);
    println!(
        "{JOBS} hostile jobs, {LANES} at a time, in {:.1} s: {} told wrongly",
        took.as_secs_f64(),
        wrong.len()
    );
    wrong.iter().for_each(|report| println!("    {report}"));
    println!("    before: {before}\n    after:  {after}");
    drop(sandbox);
    let closed = Leftovers::of(&config);
    println!("    closed: {closed}");
    if !wrong.is_empty() || !after.is_no_more_than(&before) || !closed.is_nothing() {
        return Err("hostile jobs were told wrongly or left something".into());
    }
    Ok(())
}

//! Proves what control groups do here: the kernel kills for memory in one, accounts for processor time, and
//! everything in one can be ended.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::Probe;
use crate::cgroup::{Ceilings, CgroupKind, Cgroups, Usage};
use crate::spawn::{Birth, Joins, Offspring, Spawner};
use crate::wait::pause;

/// The ceiling the memory probe runs under, and what it asks for, in bytes: far enough apart.
const CEILING: u64 = 16 * 1024 * 1024;
const APPETITE: &str = "bs=67108864";
/// Longest wait for a probe.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads that empty a full pipe.
const PIPE_READS: usize = 32;
/// A stopped process is quiet for so long.
const SILENCE: Duration = Duration::from_millis(20);

/// What was seen to work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proven {
    pub(super) memory: bool,
    pub(super) cpu: bool,
    pub(super) freeze: bool,
}

/// Tries everything, and notes how it went. Nothing here is required: what fails is reported as not enforced.
pub(super) fn probe(cgroups: &Cgroups, spawner: &Spawner, probes: &mut Vec<Probe>) -> Proven {
    let kind = cgroups.kind();
    probes.push(Probe {
        name: "cgroups",
        ok: kind != CgroupKind::None,
        finding: format!("{kind:?}").to_lowercase(),
        hint: (kind == CgroupKind::None)
            .then_some("run as a service with a delegated control group, or as root"),
    });
    let memory = starve(cgroups, spawner);
    let frozen = freeze_spinner(cgroups, spawner);
    let proven = Proven {
        freeze: frozen.as_ref().is_ok_and(|&stopped| stopped),
        memory: memory.as_ref().is_ok_and(|usage| usage.oom_kills.is_some_and(|kills| kills > 0)),
        cpu: memory.as_ref().is_ok_and(|usage| usage.cpu_usec.is_some_and(|micros| micros > 0)),
    };
    probes.push(Probe {
        name: "memory",
        ok: proven.memory,
        finding: match (&memory, proven.memory) {
            (_, true) => "the kernel kills what exceeds its memory".to_owned(),
            (Ok(usage), false) => format!("no kill was seen: {usage:?}"),
            (Err(error), false) => error.to_string(),
        },
        hint: (!proven.memory).then_some("memory is only looked at here: delegate the memory controller"),
    });
    probes.push(Probe {
        name: "freeze",
        ok: proven.freeze,
        finding: match &frozen {
            Ok(true) => "a stopped group uses no processor time".to_owned(),
            Ok(false) => "a stopped group goes on".to_owned(),
            Err(error) => error.to_string(),
        },
        hint: (!proven.freeze).then_some("no sandbox is kept ready: every job starts its own"),
    });
    let ended = end_sleeper(cgroups, spawner);
    probes.push(Probe {
        name: "kill",
        ok: ended.is_ok(),
        finding: match &ended {
            Ok(took) => format!("a group is gone after {} ms", took.as_millis()),
            Err(error) => error.to_string(),
        },
        hint: ended.is_err().then_some("jobs are ended through their process group only"),
    });
    proven
}

/// Runs a program that needs more memory than its group may have.
fn starve(cgroups: &Cgroups, spawner: &Spawner) -> io::Result<Usage> {
    if cgroups.kind() == CgroupKind::None {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let group = cgroups.create("probe-memory")?;
    group.set_limits(&Ceilings { memory_bytes: CEILING, host_threads: 64 })?;
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "of=/dev/null", APPETITE, "count=1"]);
    let mut child = spawn(spawner, command, group.joins()?)?;
    let killed = wait(&mut child)?.signal() == Some(Signal::KILL.as_raw());
    let started = Instant::now();
    // The count follows the death by a moment.
    while killed && group.usage().oom_kills == Some(0) && started.elapsed() < PATIENCE {
        pause(Duration::from_millis(5));
    }
    Ok(group.usage())
}

/// Stops a group with a busy process in it, which must not go on until it is let to. Returns whether it did not.
fn freeze_spinner(cgroups: &Cgroups, spawner: &Spawner) -> io::Result<bool> {
    let group = cgroups.create("probe-freeze")?;
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new("yes");
    command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
    let mut child = spawner.spawn(Birth { command, joins: group.joins()?, keeps: Vec::new() })?;
    let hears = |within: Duration| {
        let within = Timespec::try_from(within).unwrap_or_default();
        poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&within)).is_ok_and(|ready| ready > 0)
    };
    if !hears(PATIENCE) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    group.freeze()?;
    // What was written before is read away; then there must be silence.
    let mut buffer = [0; 64 * 1024];
    for _ in 0..PIPE_READS {
        if hears(Duration::ZERO) {
            rustix::io::read(&reader, &mut buffer)?;
        }
    }
    let silent = !hears(SILENCE);
    group.thaw()?;
    let goes_on = hears(PATIENCE);
    group.end();
    wait(&mut child)?;
    Ok(silent && goes_on)
}

/// Ends a group with a process in it that would stay for a minute.
fn end_sleeper(cgroups: &Cgroups, spawner: &Spawner) -> io::Result<Duration> {
    if cgroups.kind() == CgroupKind::None {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let group = cgroups.create("probe-kill")?;
    let mut command = Command::new("sleep");
    command.arg("60");
    let mut child = spawn(spawner, command, group.joins()?)?;
    let started = Instant::now();
    group.end();
    wait(&mut child)?;
    group.remove()?;
    Ok(started.elapsed())
}

fn spawn(spawner: &Spawner, mut command: Command, joins: Joins) -> io::Result<Offspring> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    spawner.spawn(Birth { command, joins, keeps: Vec::new() })
}

/// Waits for `child`, for a bounded time, and says how it ended.
fn wait(child: &mut Offspring) -> io::Result<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() > PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        pause(Duration::from_millis(2));
    }
}

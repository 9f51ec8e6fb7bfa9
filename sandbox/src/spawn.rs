//! Starts child processes so that none outlives this process and none ever runs outside its control group.
//!
//! The kernel ties a child's "parent death signal" (`PR_SET_PDEATHSIG`, prctl(2)) to the *thread* that made
//! it, so every child is made by one thread that lives as long as its [`Spawner`]. That thread does nothing
//! else. Dropping the last handle of a spawner therefore kills what it started.
//!
//! This is the only file with unsafe code: what runs between fork and exec.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use crate::limits::KILL_DEADLINE;
use crate::wait::pause;

/// A child to start.
#[derive(Debug)]
pub(crate) struct Birth {
    /// Program, arguments, environment and standard streams.
    pub(crate) command: Command,
    /// `cgroup.procs` files the child writes itself into.
    pub(crate) joins: Vec<OwnedFd>,
    /// Descriptors the child keeps, under their own numbers.
    pub(crate) keeps: Vec<OwnedFd>,
}

/// A started child. Dropped, it is killed and reaped, so no panic and no early return leaves one behind.
#[derive(Debug)]
pub(crate) struct Offspring(Child);

impl Offspring {
    /// The process.
    pub(crate) fn pid(&self) -> rustix::io::Result<Pid> {
        i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
    }

    /// How it ended, if it has. Does not wait.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait()
    }
}

impl Drop for Offspring {
    fn drop(&mut self) {
        // Has no effect on one that was waited for.
        let _ = self.0.kill();
        let started = Instant::now();
        while matches!(self.try_wait(), Ok(None)) && started.elapsed() < KILL_DEADLINE {
            pause(Duration::from_millis(2));
        }
    }
}

/// A handle to the thread that starts children.
#[derive(Clone, Debug)]
pub(crate) struct Spawner {
    births: SyncSender<(Birth, SyncSender<io::Result<Offspring>>)>,
}

impl Spawner {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (births, queue) = sync_channel(0);
        std::thread::Builder::new().name("sandbox-spawner".to_owned()).spawn(move || serve(&queue))?;
        Ok(Self { births })
    }

    /// Starts a child in a process group of its own.
    pub(crate) fn spawn(&self, birth: Birth) -> io::Result<Offspring> {
        let (answer, result) = sync_channel(1);
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.births.send((birth, answer)).map_err(|_| gone())?;
        result.recv().map_err(|_| gone())?
    }
}

fn serve(queue: &Receiver<(Birth, SyncSender<io::Result<Offspring>>)>) {
    for (birth, answer) in queue {
        // Nobody waits only if the caller's thread is gone; the child then goes as it is dropped.
        let _ = answer.send(bear(birth));
    }
}

fn bear(birth: Birth) -> io::Result<Offspring> {
    let Birth { mut command, joins, keeps } = birth;
    let parent = getpid();
    command.process_group(0);
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            // The parent died before the line above took effect.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        for procs in &joins {
            rustix::io::write(procs, b"0")?;
        }
        for fd in &keeps {
            fcntl_setfd(fd.as_fd(), FdFlags::empty())?;
        }
        Ok(())
    };
    #[expect(unsafe_code, reason = "the only way to act between fork and exec")]
    // SAFETY: `prepare` runs in the child of a multi-threaded process, where only async-signal-safe operations
    // are allowed. It makes four system calls through rustix (prctl, getppid, write, fcntl), allocates nothing,
    // takes no lock, and its errors hold plain codes.
    unsafe {
        command.pre_exec(prepare);
    }
    command.spawn().map(Offspring)
}

//! Starts child processes so that none outlives this process and none ever runs outside its control group.
//!
//! The kernel ties a child's "parent death signal" (`PR_SET_PDEATHSIG`, prctl(2)) to the *thread* that made
//! it, so every child is made by one thread that lives as long as its [`Spawner`]. That thread does nothing
//! else. Dropping the last handle of a spawner therefore kills what it started.
//!
//! A process that is moved into a group of a unified tree waits for a grace period of the kernel's, 8 to 27 ms at the
//! first move after a pause; one that is born there does not (`CLONE_INTO_CGROUP`, clone(2)). So what was forked makes
//! one more process there, beside itself, and ends; that one becomes the program. In the trees of single controllers a
//! lone thread moves without waiting (`tasks`).
//!
//! ```text
//! this thread ──fork──> child: joins the trees of controllers ──clone3──> the same child again, in the unified group
//!                         └── ends, reaped here                              └── exec, or an error told and reaped
//! ```
//!
//! This is the only file with unsafe code: what runs between fork and exec.

use std::ffi::{c_int, c_long};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, setpgid,
    waitpid,
};

use crate::limits::KILL_DEADLINE;
use crate::wait::pause;

/// The same on every architecture.
const SYS_CLONE3: c_long = 435;
const CLONE_PARENT: u64 = 0x8000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A child to start.
#[derive(Debug)]
pub(crate) struct Birth {
    /// Program, arguments, environment and standard streams.
    pub(crate) command: Command,
    /// The groups it is in from its first instruction.
    pub(crate) joins: Joins,
    /// Descriptors the child keeps, under their own numbers.
    pub(crate) keeps: Vec<OwnedFd>,
}

/// Control groups to be born into.
#[derive(Debug, Default)]
pub(crate) struct Joins {
    /// `tasks` files in the trees of single controllers.
    pub(crate) tasks: Vec<OwnedFd>,
    /// The directory in the unified tree.
    pub(crate) unified: Option<OwnedFd>,
}

/// A started child. Dropped, it is killed and reaped, so no panic and no early return leaves one behind.
#[derive(Debug)]
pub(crate) struct Offspring {
    pid: Pid,
    /// Set once it is reaped: from then on its number may be another's.
    ended: Option<ExitStatus>,
}

impl Offspring {
    /// The process.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// How it ended, if it has. Does not wait.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.reap(WaitOptions::NOHANG)
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.reap(WaitOptions::empty())?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn reap(&mut self, options: WaitOptions) -> io::Result<Option<ExitStatus>> {
        while self.ended.is_none() {
            match waitpid(Some(self.pid), options) {
                Ok(Some((_, status))) => self.ended = Some(ExitStatus::from_raw(status.as_raw())),
                Ok(None) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.ended)
    }
}

impl Drop for Offspring {
    fn drop(&mut self) {
        if self.ended.is_some() {
            return;
        }
        let _ = kill_process(self.pid, Signal::KILL);
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
    let (mut told, tell) = io::pipe()?;
    let prepare = move || {
        let first = getpid();
        for tasks in &joins.tasks {
            rustix::io::write(tasks, b"0")?;
        }
        if let Some(group) = &joins.unified {
            be_born_in(group)?;
        }
        // Before anything else that may fail, so that whoever is left is reaped.
        for pid in [first, getpid()] {
            rustix::io::write(&tell, &pid.as_raw_nonzero().get().to_ne_bytes())?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            // The parent died before the line above took effect.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        setpgid(None, None)?;
        for fd in &keeps {
            fcntl_setfd(fd.as_fd(), FdFlags::empty())?;
        }
        Ok(())
    };
    #[expect(unsafe_code, reason = "the only way to act between fork and exec")]
    // SAFETY: `prepare` runs in the child of a multi-threaded process, where only async-signal-safe operations
    // are allowed. It makes system calls through rustix (write, openat, prctl, getppid, setpgid, fcntl, getpid) and
    // those of `be_born_in`, allocates nothing, takes no lock, and its errors hold plain codes.
    unsafe {
        command.pre_exec(prepare);
    }
    let spawned = command.spawn();
    // Its copy of the pipe goes with it; the child's went as it became the program.
    drop(command);
    let mut numbers = [0; 2 * size_of::<i32>()];
    let numbers = told.read_exact(&mut numbers).ok().map(|()| numbers);
    let born = numbers.and_then(|[a, b, c, d, e, f, g, h]| {
        let number = |bytes| Pid::from_raw(i32::from_ne_bytes(bytes));
        Some((number([a, b, c, d])?, number([e, f, g, h])?))
    });
    match (spawned, born) {
        (Ok(mut forked), Some((first, pid))) => {
            if first != pid {
                forked.wait()?;
            }
            Ok(Offspring { pid, ended: None })
        }
        (Err(error), Some((first, pid))) if first != pid => {
            // What was forked is reaped, and its other self is not.
            drop(Offspring { pid, ended: None });
            Err(error)
        }
        (Err(error), _) => Err(error),
        (Ok(mut forked), None) => {
            // Ended before it said who it is.
            forked.wait()?;
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
}

/// The argument of clone3(2), as far as it is used.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    unused: [u64; 9],
    cgroup: u64,
}

/// Goes on as a new process in this group, with the same parent; where the kernel has no such call, moves there.
#[expect(unsafe_code, reason = "no library offers the call")]
fn be_born_in(group: &OwnedFd) -> io::Result<()> {
    unsafe extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
        fn _exit(status: c_int) -> !;
    }
    let cgroup = u64::from(group.as_raw_fd().cast_unsigned());
    let arguments =
        CloneArguments { flags: CLONE_PARENT | CLONE_INTO_CGROUP, cgroup, ..CloneArguments::default() };
    // SAFETY: the structure lives across the call and its size is given. Without `CLONE_VM` the new process has memory of
    // its own, as after a fork; both are the only thread in theirs.
    let pid = unsafe { syscall(SYS_CLONE3, &raw const arguments, size_of::<CloneArguments>()) };
    match pid {
        0 => Ok(()),
        // SAFETY: ends this process at once; nothing of it is needed any more.
        1.. => unsafe { _exit(0) },
        _ => {
            let procs = openat(group, c"cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::io::write(procs, b"0")?;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_an_error_that_names_it_so_and_leaves_no_process() {
        let spawner = Spawner::start().unwrap();
        let command = Command::new("/nowhere/at/all");
        let error = spawner.spawn(Birth { command, joins: Joins::default(), keeps: Vec::new() }).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_child_is_alone_in_its_process_group_and_its_end_is_told_once_and_for_all() {
        let spawner = Spawner::start().unwrap();
        let mut command = Command::new("sleep");
        command.arg("60");
        let mut child = spawner.spawn(Birth { command, joins: Joins::default(), keeps: Vec::new() }).unwrap();
        assert_eq!(rustix::process::getpgid(Some(child.pid())).unwrap(), child.pid());
        assert_eq!(child.try_wait().unwrap(), None);
        kill_process(child.pid(), Signal::KILL).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert_eq!(child.try_wait().unwrap().unwrap().signal(), Some(9));
    }
}

//! The system calls that the standard library does not offer, and the descriptors they are about.
//!
//! All unsafe code of the init is here.

use std::ffi::{c_int, c_uint};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::{Child, Command};

/// Where the control socket is.
const CONTROL: c_int = 3;
/// Where the interpreter waits for its job, and where it says that it does: the first ends of the two pipes that can be
/// had once only the control socket is open.
const GO: c_int = 4;
const UP: c_int = 7;
/// The job's user and group.
const JOB: c_uint = 65_534;
/// No change; setresuid(2).
const SAME: c_uint = c_uint::MAX;
/// Numbers of limits; getrlimit(2).
const RLIMIT_FSIZE: c_int = 1;
const RLIMIT_NPROC: c_int = 6;
const SIGKILL: c_int = 9;
const F_SETFD: c_int = 2;
const FD_CLOEXEC: c_int = 1;
const PR_SET_DUMPABLE: c_int = 4;
const PR_CAP_AMBIENT: c_int = 47;
const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;

/// A limit, soft and hard.
#[repr(C)]
struct Limit(u64, u64);

unsafe extern "C" {
    fn closefrom(lowest: c_int);
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn geteuid() -> c_uint;
    fn prctl(option: c_int, ...) -> c_int;
    fn prlimit(pid: c_int, resource: c_int, new: *const Limit, old: *mut Limit) -> c_int;
    fn setgroups(count: usize, list: *const c_uint) -> c_int;
    fn setresgid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    fn setresuid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Takes the control socket, which no other process is to have, and moves it to its place.
pub(super) fn control_socket(at: c_int) -> Option<File> {
    if at != CONTROL {
        // SAFETY: no memory is involved; a wrong descriptor is an error.
        check(unsafe { dup2(at, CONTROL) }).ok()?;
    }
    // SAFETY: no memory is involved, and this program owns no descriptor yet. Whatever else the platform left open is
    // no business of a job.
    unsafe { closefrom(CONTROL + 1) };
    // SAFETY: no memory is involved; a wrong descriptor is an error.
    check(unsafe { fcntl(CONTROL, F_SETFD, FD_CLOEXEC) }).ok()?;
    // SAFETY: no memory is involved.
    check(unsafe { prctl(PR_SET_DUMPABLE, 0) }).ok()?;
    // The capabilities that bubblewrap gives this process are ambient: every program it starts would have them too.
    // Where that is not known (gVisor) there are none. Whether a job has any is probed before the first one runs.
    // SAFETY: no memory is involved.
    unsafe { prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0_usize, 0_usize, 0_usize) };
    // SAFETY: the descriptor is open, as the line above found, and nothing else in this program owns it.
    Some(unsafe { File::from_raw_fd(CONTROL) })
}

/// The interpreter, and the two pipes to it.
pub(super) struct Interpreter {
    child: Child,
    go: PipeWriter,
    up: PipeReader,
}

/// Starts the interpreter as the job's user, in this process's directory.
///
/// A child that changes anything about itself before it becomes another program has to be a copy of this process, which
/// takes gVisor 6 ms. So what is to change changes here, the child shares this process's memory until it is the
/// interpreter (posix_spawn(3)), and then it changes back. The interpreter has no way back: the user that is kept here to
/// return to is not kept over execve(2), and no capability is ambient ([`control_socket`]).
pub(super) fn start(program: &str, arguments: impl Iterator<Item = String>) -> io::Result<Interpreter> {
    let (go_inside, go) = io::pipe()?;
    let (up, up_inside) = io::pipe()?;
    for (end, place) in [(go_inside.as_raw_fd(), GO), (up_inside.as_raw_fd(), UP)] {
        if end != place {
            return Err(io::Error::other("descriptors are not where they should be"));
        }
        // SAFETY: no memory is involved; a wrong descriptor is an error.
        check(unsafe { fcntl(end, F_SETFD, 0) })?;
    }
    let mut command = Command::new(program);
    command.args(arguments);
    let child = if is_apart() {
        // Those of whoever started the platform. They would stay with the job whatever user it is.
        // SAFETY: an empty list needs no pointer.
        check(unsafe { setgroups(0, std::ptr::null()) })?;
        users(JOB, JOB)?;
        let child = command.spawn();
        users(0, 0)?;
        child?
    } else {
        command.spawn()?
    };
    Ok(Interpreter { child, go, up })
}

impl Interpreter {
    /// Waits until it says that it is up.
    pub(super) fn wait_until_up(&mut self) -> io::Result<()> {
        self.up.read_exact(&mut [0])
    }

    /// Lowers its limits for good. No code of the job has run yet.
    pub(super) fn limit(&self, processes: u64, file_bytes: u64) -> io::Result<()> {
        // The limits of another user's process need a capability that this one does not have, those of one's own (by
        // the real user) none.
        real_user(JOB)?;
        for (resource, most) in [(RLIMIT_NPROC, processes), (RLIMIT_FSIZE, file_bytes)] {
            // SAFETY: the pointer is to a live value, and a null pointer says that the old limit is not wanted.
            check(unsafe { prlimit(self.pid(), resource, &Limit(most, most), std::ptr::null_mut()) })?;
        }
        real_user(0)
    }

    /// Lets it run its job. Returns what it ended with: 128 + n after signal n.
    pub(super) fn run_to_its_end(mut self) -> io::Result<u8> {
        self.go.write_all(b"\n")?;
        let (pid, mut status) = (self.pid(), 0);
        drop(self);
        // Everything that loses its parent in here becomes a child of this process.
        loop {
            // SAFETY: the pointer is to a live value.
            let ended = check(unsafe { waitpid(-1, &mut status, 0) })?;
            if ended == pid {
                let (signal, code) = (status & 0x7f, (status >> 8) & 0xff);
                let code = if signal == 0 { code } else { 128 + signal };
                return Ok(u8::try_from(code).unwrap_or(u8::MAX));
            }
        }
    }

    fn pid(&self) -> c_int {
        c_int::try_from(self.child.id()).unwrap_or(c_int::MAX)
    }
}

/// Whether this process and the job are two users.
fn is_apart() -> bool {
    // SAFETY: no memory is involved.
    unsafe { geteuid() == 0 }
}

fn real_user(id: c_uint) -> io::Result<()> {
    if is_apart() { users(id, SAME) } else { Ok(()) }
}

/// Changes user and group (all others were given up); those that are saved stay, and with them the way back and the
/// capabilities.
fn users(real: c_uint, effective: c_uint) -> io::Result<()> {
    let group = || {
        // SAFETY: no memory is involved.
        check(unsafe { setresgid(real, effective, SAME) })
    };
    let user = || {
        // SAFETY: no memory is involved.
        check(unsafe { setresuid(real, effective, SAME) })
    };
    // Whoever is no user 0 may not change groups.
    if effective == JOB { group().and_then(|_| user()) } else { user().and_then(|_| group()) }.map(drop)
}

/// Kills every process but this one, until there is none.
pub(super) fn end_everything_else() {
    loop {
        // SAFETY: no memory is involved. Each round reaps one and kills what was born since the last.
        let left = unsafe {
            kill(-1, SIGKILL);
            waitpid(-1, std::ptr::null_mut(), 0)
        };
        if left < 0 {
            return;
        }
    }
}

/// Gives up user 0 for good.
pub(super) fn become_the_jobs_user() -> io::Result<()> {
    if !is_apart() {
        return Ok(());
    }
    // SAFETY: no memory is involved.
    check(unsafe { setresgid(JOB, JOB, JOB) })?;
    // SAFETY: no memory is involved.
    check(unsafe { setresuid(JOB, JOB, JOB) }).map(drop)
}

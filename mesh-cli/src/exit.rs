//! What the exit code says: the one table that the program, its help and its tests share.
//!
//! A negative answer is not an error: it has a code of its own, apart from wrong usage and from a node that is not
//! there. The codes 125 and up of `run` follow env(1) and timeout(1), so that scripts already know them.

use std::process::ExitCode;

use mesh_protocol::api::error::ErrorKind;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, or already so.
    Done,
    /// It worked, and the answer is no.
    Negative,
    /// The command line or a file it names is wrong.
    Usage,
    /// Something is not there now, or not ready yet.
    Unavailable,
    /// Not allowed.
    Refused,
    /// The evidence is authentic and not complete.
    Incomplete,
    /// A fault of this program.
    Bug,
    /// Ctrl-C.
    Interrupted,
    /// The mesh could not run the job.
    NotRun,
    /// The job's own code, or that of the way it was ended.
    Job(u8),
}

/// The job ran out of wall or CPU time, as timeout(1) says it.
pub(crate) const JOB_TIMED_OUT: Exit = Exit::Job(124);
/// The job was killed: 128 and the number of SIGKILL, as a shell says it.
pub(crate) const JOB_KILLED: Exit = Exit::Job(137);

impl Exit {
    /// The number.
    #[must_use]
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::Unavailable => 3,
            Self::Refused => 4,
            Self::Incomplete => 5,
            Self::Bug => 70,
            Self::NotRun => 125,
            Self::Interrupted => 130,
            Self::Job(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Invalid | ErrorKind::Ambiguous => Self::Usage,
            ErrorKind::NotFound | ErrorKind::Conflict => Self::Negative,
            ErrorKind::Refused => Self::Refused,
            ErrorKind::Busy | ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::Internal => Self::Bug,
        }
    }
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// The code.
    pub(crate) exit: Exit,
    /// What it means.
    pub(crate) meaning: &'static str,
    /// Whether the same command may do better later.
    pub(crate) retry: &'static str,
}

const fn row(exit: Exit, meaning: &'static str, retry: &'static str) -> Row {
    Row { exit, meaning, retry }
}

/// Every code, in order.
pub(crate) const TABLE: [Row; 11] = [
    row(Exit::Done, "done, or already so; `ask`: answered", "-"),
    row(Exit::Negative, "it worked and the answer is no: ask failed, check failed", "no"),
    row(Exit::Usage, "wrong usage, or a wrong file or setting", "no"),
    row(Exit::Unavailable, "node not running, still pending, no room", "yes"),
    row(Exit::Refused, "not allowed, by policy, trust or credential", "no"),
    row(Exit::Incomplete, "`verify`: authentic, and not complete", "no"),
    row(Exit::Bug, "a fault of mesh itself", "no"),
    row(JOB_TIMED_OUT, "`run`: the job ran out of time", "no"),
    row(Exit::NotRun, "`run`: the mesh could not run the job", "maybe"),
    row(Exit::Interrupted, "interrupted with Ctrl-C", "-"),
    row(JOB_KILLED, "`run`: the job was killed, or ran out of memory", "no"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_names_each_code_once() {
        let codes = TABLE.map(|row| row.exit.code());
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
    }

    #[test]
    fn what_may_succeed_later_has_the_code_that_says_so() {
        for kind in [ErrorKind::Busy, ErrorKind::Unavailable] {
            assert_eq!(Exit::from(kind), Exit::Unavailable);
        }
    }
}

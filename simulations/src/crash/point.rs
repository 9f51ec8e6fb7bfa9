//! Where a machine stops.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, bail};

/// Which of the two sides: 0 or 1.
pub type SideIndex = usize;

/// Both.
pub const SIDES: [SideIndex; 2] = [0, 1];

/// When in the life of its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// At the storage operation of this number, counted from 1 since the run began.
    Operation(u64),
    /// After the commit of this number, before its actions and replies, or among them.
    Commit(u64),
}

/// One machine, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Whose.
    pub side: SideIndex,
    /// When.
    pub at: At,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, number) = match self.at {
            At::Operation(number) => ("operation", number),
            At::Commit(number) => ("commit", number),
        };
        write!(f, "{}:{what}:{number}", if self.side == 0 { 'a' } else { 'b' })
    }
}

impl FromStr for Point {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut parts = text.split(':');
        let mut next = || parts.next().context("a point is `a:operation:7` or `b:commit:7`");
        let side = match next()? {
            "a" => 0,
            "b" => 1,
            other => bail!("`{other}` is no side: there are `a` and `b`"),
        };
        let (what, number) = (next()?, next()?.parse()?);
        let at = match what {
            "operation" => At::Operation(number),
            "commit" => At::Commit(number),
            other => bail!("`{other}` is neither `operation` nor `commit`"),
        };
        Ok(Self { side, at })
    }
}

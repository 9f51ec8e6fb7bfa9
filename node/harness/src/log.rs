//! Prose about a run, for a person who follows it.
//!
//! The machine-readable account is [`event`](crate::event). A run never fails because of its log, and nothing here
//! writes to a terminal or a file: the caller decides where lines go.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

type Line = Arc<dyn Fn(&str) + Send + Sync>;

/// Takes lines about a run. Clones write to the same place.
#[derive(Clone, Default)]
pub struct Log {
    line: Option<Line>,
}

impl Log {
    /// Hands every line to `line`, which must not block. If it panics, the line is lost and the run goes on.
    #[must_use]
    pub fn new(line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { line: Some(Arc::new(line)) }
    }

    /// Drops every line.
    #[must_use]
    pub fn silent() -> Self {
        Self::default()
    }

    /// Writes one line.
    pub fn line(&self, text: &str) {
        if let Some(line) = &self.line {
            // A run does not fail because of its log, and there is nobody else to tell.
            let _lost = catch_unwind(AssertUnwindSafe(|| line(text)));
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.line.is_some() { "Log" } else { "Log(silent)" })
    }
}

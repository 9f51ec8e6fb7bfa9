//! Values that must not be shown: keys, tokens, a run's secrets.
//!
//! Nothing here keeps memory clean of them; it keeps them out of logs, errors and `Debug`. Whoever needs one asks for it
//! by [`Secret::expose`], at the place that sends it.

use std::collections::BTreeMap;
use std::fmt;

/// A value that must not be shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Keeps a value from being shown.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing in it, which counts as having none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `text` without this value, for text that came from somebody who was shown it.
    #[must_use]
    pub fn removed_from(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "[redacted]") }
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Resolved secrets as the environment of what a run executes: each under its own name, as it is.
#[must_use]
pub fn secrets_to_env(secrets: &BTreeMap<String, Secret>) -> BTreeMap<String, Secret> {
    secrets.clone()
}

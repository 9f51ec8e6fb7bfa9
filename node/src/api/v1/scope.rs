//! What a key may be used for.

use serde::{Deserialize, Serialize};

/// One permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// To have jobs run.
    #[serde(rename = "jobs:submit")]
    Submit,
    /// To see jobs, their results and their proofs.
    #[serde(rename = "jobs:read")]
    Read,
    /// To stop jobs.
    #[serde(rename = "jobs:cancel")]
    Cancel,
    /// To see what the service offers, and who one is.
    #[serde(rename = "service:read")]
    Service,
    /// To see the tenant's own figures.
    #[serde(rename = "metrics:read")]
    Metrics,
}

impl std::str::FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|scope| scope.name() == text);
        known.ok_or_else(|| {
            format!("there is no scope `{text:.40}`: {} are", Self::ALL.map(Self::name).join(", "))
        })
    }
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Submit, Self::Read, Self::Cancel, Self::Service, Self::Metrics];

    /// The published name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submit => "jobs:submit",
            Self::Read => "jobs:read",
            Self::Cancel => "jobs:cancel",
            Self::Service => "service:read",
            Self::Metrics => "metrics:read",
        }
    }
}

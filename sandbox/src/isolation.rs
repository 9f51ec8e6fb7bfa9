//! How strongly a job was kept apart from its host.
//!
//! Classes are observed, never configured: a job has a class only after its sandbox itself reported ready.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An isolation class, weakest first. The order is the order of strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationClass {
    /// A plain process: nothing is promised.
    None,
    /// Namespaces and filters, but the host's kernel answers the job's system calls.
    LinuxSharedKernel,
    /// gVisor: a kernel in user space answers them, and that kernel is itself confined.
    GvisorApplicationKernel,
}

impl IsolationClass {
    /// The stable name, as published in capabilities and receipts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::LinuxSharedKernel => "linux-shared-kernel",
            Self::GvisorApplicationKernel => "gvisor-application-kernel",
        }
    }

    /// Whether this class is at least as strong as `minimum`.
    #[must_use]
    pub fn satisfies(self, minimum: Self) -> bool {
        self >= minimum
    }
}

impl fmt::Display for IsolationClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::IsolationClass::{GvisorApplicationKernel, LinuxSharedKernel, None};

    #[test]
    fn a_stronger_class_satisfies_every_weaker_minimum_and_no_stronger_one() {
        for (weaker, stronger) in [(None, LinuxSharedKernel), (LinuxSharedKernel, GvisorApplicationKernel)] {
            assert!(stronger.satisfies(weaker) && stronger.satisfies(stronger));
            assert!(!weaker.satisfies(stronger));
        }
    }

    #[test]
    fn the_serialised_form_is_the_published_name() {
        for class in [None, LinuxSharedKernel, GvisorApplicationKernel] {
            assert_eq!(serde_json::to_string(&class).unwrap(), format!("\"{}\"", class.name()));
        }
    }
}

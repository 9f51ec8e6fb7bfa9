//! How strongly a job is kept from its machine: the classes and the one order between them.
//!
//! A class is something a sandbox was observed to be, never something a configuration claims.

use serde::{Deserialize, Serialize};

/// An isolation class. The order is by what an escape would have to break, and only classes this product can offer
/// are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationClass {
    /// Namespaces, seccomp and a read-only root on the host's own kernel.
    LinuxSharedKernel,
    /// A kernel in user space (gVisor) between the job and the host's. The default minimum of every request.
    #[default]
    #[serde(rename = "gvisor-application-kernel")]
    GvisorApplicationKernel,
}

/// Names of classes that are stronger than any of these and that no sandbox here is: asking for one cannot be met.
/// `none` is no class that can be asked for or offered.
pub const STRONGER: [&str; 3] = ["wasm-capability", "hardware-vm", "confidential-vm"];

/// A name that is no class of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an isolation class")]
pub struct UnknownClass;

impl std::str::FromStr for IsolationClass {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, UnknownClass> {
        Self::ALL.into_iter().find(|class| class.name() == text).ok_or(UnknownClass)
    }
}

impl IsolationClass {
    /// All of them, weakest first.
    pub const ALL: [Self; 2] = [Self::LinuxSharedKernel, Self::GvisorApplicationKernel];

    /// The published name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LinuxSharedKernel => "linux-shared-kernel",
            Self::GvisorApplicationKernel => "gvisor-application-kernel",
        }
    }

    /// Whether a sandbox of this class may run a job that asks for at least `minimum`.
    #[must_use]
    pub fn satisfies(self, minimum: Self) -> bool {
        self >= minimum
    }
}

impl std::fmt::Display for IsolationClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::IsolationClass::{GvisorApplicationKernel, LinuxSharedKernel};

    #[test]
    fn a_stronger_class_satisfies_a_weaker_minimum_and_never_the_other_way() {
        assert!(GvisorApplicationKernel.satisfies(LinuxSharedKernel));
        assert!(GvisorApplicationKernel.satisfies(GvisorApplicationKernel));
        assert!(!LinuxSharedKernel.satisfies(GvisorApplicationKernel));
    }

    #[test]
    fn the_name_in_json_is_the_published_name() {
        for class in [LinuxSharedKernel, GvisorApplicationKernel] {
            assert_eq!(serde_json::to_string(&class).unwrap(), format!("\"{class}\""));
        }
    }
}

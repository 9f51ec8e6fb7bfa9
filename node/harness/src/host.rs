//! What this process's environment says, as a value that can be handed on and replaced.
//!
//! Everything that depends on a variable of the host takes a [`HostEnv`]. Values are read when they are needed, so a
//! change counts for the next call. `Debug` shows no value: most of what is asked for is a credential.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Variables of the host. The default reads this process's environment.
#[derive(Clone, Default)]
pub struct HostEnv {
    /// None for the process's own.
    fixed: Option<Arc<BTreeMap<String, String>>>,
}

impl HostEnv {
    /// This process's environment.
    #[must_use]
    pub fn process() -> Self {
        Self::default()
    }

    /// Exactly these variables.
    pub fn fixed<N: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { fixed: Some(Arc::new(variables.collect())) }
    }

    /// The value of a variable. An empty value and one that is not UTF-8 count as absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        let value = match &self.fixed {
            Some(variables) => variables.get(name).cloned(),
            None => std::env::var(name).ok(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// Every variable that is UTF-8, for those who build a child's environment from an allow-list.
    #[must_use]
    pub fn all(&self) -> Vec<(String, String)> {
        match &self.fixed {
            Some(variables) => variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            None => std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        }
    }

    /// Whether a variable is exactly `1`.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).as_deref() == Some("1")
    }

    /// A variable that is a number, rounded down; None for anything else, also for a negative one.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        let number = self.get(name)?.trim().parse::<f64>().ok()?;
        // A float beyond the range becomes its end.
        (number.is_finite() && number >= 0.0).then_some(number as u64)
    }

    /// A variable that is a number of milliseconds.
    #[must_use]
    pub fn millis(&self, name: &str) -> Option<Duration> {
        self.number(name).map(Duration::from_millis)
    }
}

impl fmt::Debug for HostEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fixed {
            Some(variables) => write!(f, "HostEnv({} variables)", variables.len()),
            None => f.write_str("HostEnv(process)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_down_and_nonsense_is_absent() {
        let host =
            HostEnv::fixed([("A", "7.9"), ("B", "-1"), ("C", "many"), ("D", ""), ("E", "0"), ("F", "inf")]);
        let numbers = ["A", "B", "C", "D", "E", "F", "G"].map(|name| host.number(name));
        assert_eq!(numbers, [Some(7), None, None, None, Some(0), None, None]);
    }

    #[test]
    fn showing_it_shows_no_value() {
        let host = HostEnv::fixed([("KEY", "canary")]);
        assert!(!format!("{host:?}").contains("canary"));
    }
}

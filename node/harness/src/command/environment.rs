//! The environment a program gets: an allow-list, never this process's whole one, which holds credentials.

use std::ffi::{OsStr, OsString};

use crate::engine::Variable;

/// What every program gets from this process, if set: where things are, who runs it, and in which language.
pub const ALWAYS_PASSED: [&str; 7] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER"];

/// The whole environment of a run: what is passed of this process's own, then the run's variables. The later of one
/// name counts.
pub(super) fn of_run(
    own: impl IntoIterator<Item = (OsString, OsString)>,
    passed: &[String],
    variables: &[Variable],
) -> Vec<(OsString, OsString)> {
    let is_passed = |name: &OsStr| {
        ALWAYS_PASSED.iter().any(|allowed| name == *allowed)
            || passed.iter().any(|allowed| name == allowed.as_str())
    };
    let own = own.into_iter().filter(|(name, _)| is_passed(name));
    let added = variables.iter().map(|added| (added.name.clone().into(), added.value.expose().into()));
    own.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Secret;

    #[test]
    fn only_exact_names_pass_and_the_run_adds_its_own() {
        let own = ["PATH", "PATH2", "LC_ALL", "AWS_SECRET_ACCESS_KEY", "MODE", "MODEL"]
            .map(|name| (OsString::from(name), OsString::from("own")));
        let variables = [Variable { name: "TOKEN".into(), value: Secret::new("t") }];

        let names: Vec<_> =
            of_run(own, &["MODE".into()], &variables).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["PATH", "LC_ALL", "MODE", "TOKEN"]);
    }
}

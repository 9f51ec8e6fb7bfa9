//! The checks of `doctor`: a line each, and under a fault the one thing that mends it.

use mesh_protocol::api::node::Check;

use crate::foreign;
use crate::style::{self, LITERAL};

/// All of them.
pub(crate) fn checks(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    checks.iter().map(|check| one(check, width)).collect()
}

/// Whether any of them failed.
pub(crate) fn any_failed(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.verdict == "fail")
}

fn one(check: &Check, width: usize) -> String {
    let verdict =
        style::paint(style::of_state(&check.verdict), format_args!("{:4}", foreign::line(&check.verdict)));
    let name = foreign::line(&check.name);
    let mut text = format!("{verdict}  {name:width$}  {}\n", foreign::line(&check.finding));
    if let Some(fix) = &check.fix {
        text.push_str(&format!(
            "      {:width$}  {} {}\n",
            "",
            style::paint(LITERAL, "fix:"),
            foreign::line(fix)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::specimen::plain;

    fn check(name: &str, verdict: &str, fix: Option<&str>) -> Check {
        Check {
            name: name.into(),
            verdict: verdict.into(),
            finding: "as found".into(),
            fix: fix.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn a_fault_comes_with_the_one_thing_that_mends_it() {
        let found =
            [check("node", "ok", None), check("sandbox-runsc", "fail", Some("`mesh-cli setup gvisor`"))];
        insta::assert_snapshot!(plain(&checks(&found)), @r"
        ok    node           as found
        fail  sandbox-runsc  as found
                             fix: `mesh-cli setup gvisor`
        ");
        assert!(any_failed(&found));
        assert!(!any_failed(&found[..1]));
    }
}

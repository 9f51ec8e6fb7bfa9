//! A plan for this machine, before it is carried out.

use mesh_node::setup::{SetupPlan, SetupStep};

use crate::style::{self, KEY, LITERAL};

/// The steps, numbered, each with its reason.
pub(crate) fn plan(plan: &SetupPlan) -> String {
    if plan.is_empty() {
        return "nothing to do: this machine has what jobs need\n".to_owned();
    }
    plan.steps.iter().enumerate().map(|(index, step)| numbered(index + 1, plan.steps.len(), step)).collect()
}

/// One step, with its number.
pub(crate) fn numbered(number: usize, count: usize, setup_step: &SetupStep) -> String {
    format!("[{number}/{count}] {}", step(setup_step))
}

fn step(step: &SetupStep) -> String {
    match step {
        SetupStep::WriteFile { path, contents, why } => {
            let contents: String = contents.lines().map(|line| format!("        {line}\n")).collect();
            format!("write {}: {why}\n{contents}", style::paint(LITERAL, path.display()))
        }
        SetupStep::Run { argv, why } => format!("run {}: {why}\n", style::paint(LITERAL, argv.join(" "))),
        SetupStep::ByHand { what } => format!("{} {what}\n", style::paint(KEY, "by hand:")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::specimen::plain;

    #[test]
    fn every_step_says_what_and_why_before_it_is_done() {
        let steps = vec![
            SetupStep::WriteFile {
                path: "/etc/apt/sources.list.d/x.sources".into(),
                contents: "Types: deb\nSuites: trixie\n".into(),
                why: "a newer runsc".into(),
            },
            SetupStep::Run { argv: vec!["apt-get".into(), "update".into()], why: "fetch the lists".into() },
            SetupStep::ByHand { what: "restart".into() },
        ];
        insta::assert_snapshot!(plain(&plan(&SetupPlan { steps })), @r"
        [1/3] write /etc/apt/sources.list.d/x.sources: a newer runsc
                Types: deb
                Suites: trixie
        [2/3] run apt-get update: fetch the lists
        [3/3] by hand: restart
        ");
    }
}

//! `setup gvisor`: what jobs need on this machine, shown as a plan before anything is changed.

use mesh_node::setup::{self, SetupPlan, SetupStep};
use serde::Serialize;

use crate::args::{SetupArgs, SetupTarget};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::{prompt, render};

/// One step, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Step {
    /// `write`, `run` or `by_hand`.
    action: &'static str,
    /// The file, the command line, or what to do.
    what: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// Shows the plan, asks, and carries it out.
pub(crate) async fn setup(invocation: &Invocation, args: &SetupArgs) -> Result<Exit, Failure> {
    let SetupTarget::Gvisor { yes, dry_run } = args.target;
    let plan = setup::plan()?;
    let steps: Vec<Step> = plan.steps.iter().map(Step::from).collect();
    invocation.printer.answer(&steps, |_| render::setup::plan(&plan));
    if dry_run || plan.is_empty() {
        return Ok(Exit::Done);
    }
    if plan.needs_a_person() {
        invocation.printer.note("this machine is not one that mesh changes by itself; nothing was done");
        return Ok(Exit::Negative);
    }
    if !yes {
        prompt::yes(invocation, "do this?", "--yes").await?;
    }
    carry_out(invocation, &plan)?;
    invocation.printer.note("done; a node that runs finds it after `mesh-cli down` and `mesh-cli up`");
    Ok(Exit::Done)
}

fn carry_out(invocation: &Invocation, plan: &SetupPlan) -> Result<(), Failure> {
    let mut number = 0;
    let mut progress = |step: &SetupStep| {
        number += 1;
        invocation.printer.note(&render::setup::numbered(number, plan.steps.len(), step));
    };
    Ok(setup::apply(plan, &mut progress)?)
}

impl From<&SetupStep> for Step {
    fn from(step: &SetupStep) -> Self {
        match step {
            SetupStep::WriteFile { path, why, .. } => {
                Self { action: "write", what: path.display().to_string(), why: Some(why.clone()) }
            }
            SetupStep::Run { argv, why } => {
                Self { action: "run", what: argv.join(" "), why: Some(why.clone()) }
            }
            SetupStep::ByHand { what } => Self { action: "by_hand", what: what.clone(), why: None },
        }
    }
}

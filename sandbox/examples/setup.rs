//! Shows what this machine lacks for running jobs, and installs it when called with `--apply`.
#![expect(clippy::print_stdout, reason = "an example for a terminal")]

use mesh_sandbox::setup::{self, SetupStep};

fn show(step: &SetupStep) {
    match step {
        SetupStep::WriteFile { path, contents, why } => {
            println!("write {} ({why})\n{contents}", path.display())
        }
        SetupStep::Run { argv, why } => println!("run {} ({why})", argv.join(" ")),
        SetupStep::ByHand { what } => println!("by hand: {what}"),
    }
}

fn main() -> Result<(), setup::SetupError> {
    let plan = setup::plan()?;
    if plan.is_empty() {
        println!("nothing to do");
    } else if std::env::args().any(|argument| argument == "--apply") {
        setup::apply(&plan, &mut show)?;
    } else {
        plan.steps.iter().for_each(show);
    }
    Ok(())
}

//! `doctor`: what is wrong, the cause first, with the one thing that mends it.
//!
//! The node checks itself. Where no node answers, that is the first fault, and what can be seen without one follows.

use mesh_node::client::ClientError;
use mesh_node::setup;
use mesh_protocol::api::node::Check;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Shows every check; a fault is a negative answer.
pub(crate) async fn doctor(invocation: &Invocation) -> Result<Exit, Failure> {
    let answer = match invocation.client() {
        Ok(client) => client.doctor().await.map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    let checks = match answer {
        Ok(checks) => checks,
        // The node is well enough to say no.
        Err(failure @ Failure::Client(ClientError::Refused(_))) => return Err(failure),
        Err(failure) => vec![unreachable_node(failure), sandbox_packages()],
    };
    invocation.printer.answer(&checks, |checks| render::check::checks(checks));
    Ok(if render::check::any_failed(&checks) { Exit::Negative } else { Exit::Done })
}

fn unreachable_node(failure: Failure) -> Check {
    let report = failure.into_report();
    Check {
        name: "node".to_owned(),
        verdict: "fail".to_owned(),
        finding: report.error.message,
        fix: report.error.hints.into_iter().next(),
    }
}

/// Whether this machine has what jobs need; a node without it is a node still.
fn sandbox_packages() -> Check {
    let (verdict, finding, fix) = match setup::plan() {
        Ok(plan) if plan.is_empty() => {
            ("ok", "gVisor and the languages of jobs are installed".to_owned(), None)
        }
        Ok(_) => {
            let fix = "`mesh-cli setup gvisor` installs it, `--dry-run` shows how".to_owned();
            ("warn", "something that jobs need is not installed".to_owned(), Some(fix))
        }
        Err(error) => ("warn", error.to_string(), None),
    };
    Check { name: "sandbox-packages".to_owned(), verdict: verdict.to_owned(), finding, fix }
}

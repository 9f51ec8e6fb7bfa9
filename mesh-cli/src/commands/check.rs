//! `check`: whether this machine can run jobs, found out by trying; needs no node.

use std::path::PathBuf;

use mesh_node::executor::check_machine;
use mesh_node::home::{ExecutorSection, Home};
use mesh_node::node::NodeError;
use mesh_protocol::api::node::Check;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// Shows every probe; a machine that runs no jobs is a negative answer.
pub(crate) async fn check(invocation: &Invocation) -> Result<Exit, Failure> {
    let (dir, section) = settings(invocation)?;
    invocation.printer.note("trying a sandbox; the first time this takes some seconds");
    let trial = tokio::task::spawn_blocking(move || check_machine(&dir, &section));
    let checks = trial.await.unwrap_or_else(|error| {
        let finding = format!("the trial ended by itself: {error}");
        vec![Check { name: "sandbox".to_owned(), verdict: "fail".to_owned(), finding, fix: None }]
    });
    invocation.printer.answer(&checks, |checks| render::check::checks(checks));
    Ok(if render::check::any_failed(&checks) { Exit::Negative } else { Exit::Done })
}

/// Those of the home, where there is one.
fn settings(invocation: &Invocation) -> Result<(PathBuf, ExecutorSection), Failure> {
    let home = Home::open(&invocation.home()?)?;
    let configured = home.config_file().exists();
    let section = if configured {
        home.config().map_err(NodeError::from)?.executor
    } else {
        ExecutorSection::default()
    };
    Ok((home.root().to_owned(), section))
}

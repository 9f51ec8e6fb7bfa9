//! The demo as a story: each step as a heading and what was found, pure.

use mesh_protocol::api::job::AttestationView;
use mesh_protocol::isolation::IsolationClass;

use crate::foreign;
use crate::measure::{bytes, count, took};
use crate::render;
use crate::style::{self, BAD, DOUBTFUL, GOOD, KEY, LITERAL};
use crate::table::key_values;
use crate::wrap::wrapped;

use super::agent::Answer;
use super::report::{
    Asked, End, Finding, Founding, Hold, Left, NodeLog, Proof, Report, Resumption, Sight, Step, StepName,
};

/// Blanks before everything that belongs to a step.
const INDENT: &str = "   ";

/// What is being done, said while it is.
pub(crate) const fn under_way(name: StepName) -> &'static str {
    match name {
        StepName::Found => "founding a mesh and letting two nodes in (atlas, nova, vega: a process each)",
        StepName::Look => "waiting until all see each other, and nova its sandbox (built once: some seconds)",
        StepName::Ask => "asking the agent on vega, and waiting for its job on nova",
        StepName::Verify => "taking the job's evidence from vega and verifying it here, offline",
        StepName::Hold => "killing vega (SIGKILL), and waiting until atlas calls it unreachable",
        StepName::Resume => "starting vega again, and waiting for the answer to what was held",
    }
}

/// A step and how it ended.
pub(crate) fn step(step: &Step, now_ms: u64) -> String {
    let (number, title) = title(step.name);
    let heading = style::paint(KEY, format_args!("{number}. {title}"));
    let page = match &step.end {
        End::Found(finding) => found(finding, now_ms),
        End::Skipped { why, fix } => left_out(why, fix),
        End::Failed { error, causes, logs } => failed(error, causes, logs),
    };
    format!(
        "\n{heading} {}\n{}",
        style::paint(LITERAL, format_args!("({})", took(step.took_ms))),
        indented(&page)
    )
}

const fn title(name: StepName) -> (u8, &'static str) {
    match name {
        StepName::Found => (1, "Three nodes, one mesh"),
        StepName::Look => (2, "Who sees whom"),
        StepName::Ask => (3, "An ask across the mesh, with a job in a sandbox"),
        StepName::Verify => (4, "The job's evidence"),
        StepName::Hold => (5, "A node is killed, its agent asked again"),
        StepName::Resume => (6, "The node is back"),
    }
}

fn found(finding: &Finding, now_ms: u64) -> String {
    match finding {
        Finding::Founding(founding) => mesh(founding),
        Finding::Sight(sight) => seen(sight, now_ms),
        Finding::Asked(asked) => answered(asked),
        Finding::Proof(proof) => proved(proof),
        Finding::Hold(hold) => held(hold, now_ms),
        Finding::Resumption(resumption) => resumed(resumption),
    }
}

/// Said where gVisor does not work.
const WEAKER: &str = "gVisor does not work on this machine, so the demo allows its own three nodes a weaker class: \
                      namespaces, where the job speaks to this machine's own kernel. No other node offers it unless \
                      its operator writes so; `mesh-cli setup gvisor` installs the stronger one.";

fn mesh(founding: &Founding) -> String {
    let mesh = founding.mesh.map_or_else(|| "the mesh".to_owned(), |mesh| mesh.to_string());
    let mut page = format!("{mesh}, joined with {}\n", count(founding.tickets as u64, "ticket"));
    for member in &founding.nodes {
        let process = member.pid.map_or_else(String::new, |pid| format!(", process {pid}"));
        let name = style::paint(KEY, format_args!("{:6}", member.name));
        page.push_str(&format!(
            "{name} {} at {}{process}\n",
            member.node.short(),
            member.addresses.join(", ")
        ));
    }
    page
}

fn seen(sight: &Sight, now_ms: u64) -> String {
    let page = render::status::status(&sight.status, now_ms);
    let sandbox = render::status::sandbox(&sight.sandbox);
    let weaker =
        sight.sandbox.classes.first().is_some_and(|class| *class == IsolationClass::LinuxSharedKernel);
    let note = if weaker { wrapped(WEAKER, 0) + "\n" } else { String::new() };
    format!("{page}\nnova's sandbox: {sandbox}\n{note}")
}

fn answered(asked: &Asked) -> String {
    let target = style::paint(LITERAL, &asked.receipt.target);
    let how = match asked.answer.job {
        Some(job) => format!("by Python job {} in a sandbox on nova", style::paint(LITERAL, job.suffix())),
        None => "by the agent itself, without a sandbox".to_owned(),
    };
    let said = format!("{target} answered after {}, counted {how}:", took(asked.answered_after_ms));
    format!("{}\n{}the same as this process counts itself\n", wrapped(&said, 0), figures(&asked.answer))
}

fn figures(answer: &Answer) -> String {
    let counts = &answer.counts;
    let frequent =
        counts.frequent.iter().map(|entry| format!("{} {}", foreign::line(&entry.word), entry.times));
    key_values(&[
        ("lines", counts.lines.to_string()),
        ("words", counts.words.to_string()),
        ("frequent", foreign::cut(&frequent.collect::<Vec<_>>().join(", "), 66)),
        ("sha256", foreign::line(&counts.sha256)),
    ])
}

fn proved(proof: &Proof) -> String {
    let arrival = match &proof.attestation {
        AttestationView::Verified { .. } => "vega had checked it when it arrived",
        AttestationView::Pending
        | AttestationView::Missing { .. }
        | AttestationView::Unverified { .. }
        | AttestationView::Unsigned { .. } => "vega has not checked it",
    };
    let said = format!(
        "{} of evidence, kept by vega, checked here with the mesh's root certificate; {arrival}",
        bytes(proof.evidence_bytes as u64),
    );
    format!("{}\n\n{}", wrapped(&said, 0), render::evidence::verdict(&proof.verdict))
}

fn held(hold: &Hold, now_ms: u64) -> String {
    let process = hold.killed_pid.map_or_else(String::new, |pid| format!("process {pid} "));
    let mut page = format!("{process}was killed; atlas noticed after {}\n", took(hold.noticed_after_ms));
    page.push_str(&format!("{}\n", render::receipt::asked(&hold.receipt)));
    if let Some(held) = &hold.receipt.held {
        page.push_str(&render::receipt::held(held, "vega", now_ms));
    }
    page
}

fn resumed(resumption: &Resumption) -> String {
    format!(
        "the held ask was answered {} after vega was started again, correctly;\nthe agent was begun for it {}\n",
        took(resumption.answered_after_ms),
        if resumption.runs == 1 { "once".to_owned() } else { format!("{} times", resumption.runs) }
    )
}

/// Why; most reasons name the command that helps already.
fn left_out(why: &str, fix: &str) -> String {
    let mut line = format!("{} {}", style::paint(DOUBTFUL, "left out:"), foreign::line(why));
    if !why.contains(fix) {
        line.push_str(&format!("; `{fix}` sets it up"));
    }
    wrapped(&line, 0)
}

fn failed(error: &str, causes: &[String], logs: &[NodeLog]) -> String {
    let mut page = format!("{} {}\n", style::paint(BAD, "failed:"), foreign::block(error));
    for cause in causes {
        page.push_str(&format!("  because {}\n", foreign::line(cause)));
    }
    for log in logs.iter().filter(|log| log.ended.is_some() || !log.lines.is_empty()) {
        let ended = log.ended.as_ref().map_or_else(String::new, |how| format!(", which has ended ({how})"));
        page.push_str(&format!("the last lines of {}{ended}:\n", log.node));
        log.lines.iter().for_each(|line| page.push_str(&format!("  {}\n", foreign::line(line))));
    }
    page
}

/// How the whole of it ended.
pub(crate) fn ending(report: &Report) -> String {
    let steps = count(report.steps.len() as u64, "step");
    let took = took(report.took_ms);
    let failed = report.steps.iter().find(|step| !step.ok);
    let mut page = match failed {
        None => format!("\n{} {steps} in {took}, about {}\n", style::paint(GOOD, "done:"), of(report)),
        Some(step) => {
            format!("\n{} in step {} after {took}\n", style::paint(BAD, "failed"), title(step.name).0)
        }
    };
    if let Some(left) = &report.left {
        page.push_str(&left_running(left));
    }
    page
}

fn of(report: &Report) -> String {
    let text = &report.input;
    format!("{} ({})", foreign::line(&text.source), bytes(text.counts.bytes))
}

fn left_running(left: &Left) -> String {
    let mut page = String::from("\nthe nodes go on running; speak to one with\n");
    for home in &left.homes {
        page.push_str(&format!("  export MESH_HOME={}\n", home.display()));
    }
    page.push_str("and stop them with\n");
    for home in &left.homes {
        page.push_str(&format!("  mesh-cli --home {} down\n", home.display()));
    }
    page.push_str(&format!("  rm -r {}\n", left.folder.display()));
    page
}

fn indented(page: &str) -> String {
    page.lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{INDENT}{line}\n") })
        .collect()
}

#[cfg(test)]
mod tests;

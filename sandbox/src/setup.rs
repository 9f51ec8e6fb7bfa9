//! Brings a fit gVisor runtime to this machine, as a plan that can be read before it is carried out.
//!
//! [`plan`] only looks. It returns files to write and commands to run, or, on a system it does not know how to
//! change, what a person should do. [`apply`] does exactly what the plan lists and nothing else, in order, and
//! stops at the first failure. A machine that already has what is needed gets an empty plan.
//!
//! It does not start sandboxes: whether the runtime works here is found out by [`crate::Sandbox::preflight`].

pub mod apt;
mod machine;

pub use machine::Machine;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::{fs, io};

use crate::runtime::OLDEST_FIT_BUILD;

/// Where the extra package source is written.
const SOURCE_FILE: &str = "/etc/apt/sources.list.d/mesh-runsc.sources";
/// Where the pin that confines it is written.
const PREFERENCES_FILE: &str = "/etc/apt/preferences.d/mesh-runsc";

/// What has to be done, in order. Empty when nothing has to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupPlan {
    /// The steps; each says why it is there.
    pub steps: Vec<SetupStep>,
}

/// One step of a [`SetupPlan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupStep {
    /// Write a file, readable by all, replacing what was there.
    WriteFile {
        /// Absolute path.
        path: PathBuf,
        /// The whole text.
        contents: String,
        /// Why, as a sentence for a person.
        why: String,
    },
    /// Run a command and require that it succeeds.
    Run {
        /// Program and arguments.
        argv: Vec<String>,
        /// Why, as a sentence for a person.
        why: String,
    },
    /// Something only a person can do here.
    ByHand {
        /// What to do, as a sentence.
        what: String,
    },
}

impl SetupPlan {
    /// Whether the machine already has everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether a person has to act before [`apply`] can do anything.
    #[must_use]
    pub fn needs_a_person(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, SetupStep::ByHand { .. }))
    }
}

/// Why setting up failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The machine's own configuration could not be read.
    #[error("cannot read {path}")]
    Read {
        /// What could not be read.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file of the plan could not be written.
    #[error("cannot write {path}")]
    Write {
        /// What could not be written.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A command of the plan could not be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A command of the plan failed; its own output has the reason.
    #[error("{command} failed: {status}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// The plan holds steps for a person; nothing was changed.
    #[error("this machine has to be set up by hand")]
    ByHand,
}

/// Looks at this machine and says what is missing. Changes nothing.
pub fn plan() -> Result<SetupPlan, SetupError> {
    Ok(plan_for(&Machine::observe()?))
}

/// The plan for a machine described by `machine`. Pure.
#[must_use]
pub fn plan_for(machine: &Machine) -> SetupPlan {
    let mut packages: Vec<&str> = Vec::new();
    let runtime_missing = machine.runsc_build.is_none_or(|build| build < OLDEST_FIT_BUILD);
    if runtime_missing {
        packages.push("runsc");
    }
    for (program, package) in machine::COMPANIONS {
        if machine.missing.contains(program) {
            packages.push(package);
        }
    }
    if packages.is_empty() {
        return SetupPlan::default();
    }
    let mut steps = Vec::new();
    let candidate_fits = machine.apt_candidate_build.is_some_and(|build| build >= OLDEST_FIT_BUILD);
    if runtime_missing && !candidate_fits {
        match newer_suite_steps(machine) {
            Some(files) => steps.extend(files),
            None => return by_hand(machine, &packages),
        }
    }
    if !machine.is_root || !machine.has_apt {
        return by_hand(machine, &packages);
    }
    steps.push(SetupStep::Run {
        argv: words(&["apt-get", "update"]),
        why: "fetch the package lists".to_owned(),
    });
    let mut install = words(&["apt-get", "install", "-y", "--no-install-recommends"]);
    install.extend(packages.iter().map(|&package| package.to_owned()));
    steps.push(SetupStep::Run { argv: install, why: format!("install {}", packages.join(", ")) });
    SetupPlan { steps }
}

/// The source and the pin, derived from the machine's own Debian source; `None` where there is none.
fn newer_suite_steps(machine: &Machine) -> Option<[SetupStep; 2]> {
    if machine.os_id != "debian" || !machine.is_root {
        return None;
    }
    let base = apt::source_of_release(&machine.apt_sources, &machine.os_codename)?;
    Some([
        SetupStep::WriteFile {
            path: PathBuf::from(SOURCE_FILE),
            contents: apt::render_source(base),
            why: format!(
                "this release's runsc is older than {OLDEST_FIT_BUILD}; Debian {} has a fit one, on the mirror already in use",
                apt::NEWER_SUITE
            ),
        },
        SetupStep::WriteFile {
            path: PathBuf::from(PREFERENCES_FILE),
            contents: apt::render_preferences(),
            why: "take runsc, and nothing else, from there".to_owned(),
        },
    ])
}

/// What a person should do on a system this module does not change.
fn by_hand(machine: &Machine, packages: &[&str]) -> SetupPlan {
    let mut steps = Vec::new();
    let mut say = |what: String| steps.push(SetupStep::ByHand { what });
    if packages.contains(&"runsc") {
        say(match machine.os_id.as_str() {
            "debian" if !machine.is_root => "run the same command as root: it adds a package source".to_owned(),
            "macos" | "windows" => {
                "gVisor needs Linux: run the node in a Linux virtual machine, or place jobs on another node".to_owned()
            }
            _ => "install gVisor's runsc, release 2024-07 or later, from its vendor's release page, and put it on PATH"
                .to_owned(),
        });
    }
    let others: Vec<&str> = packages.iter().copied().filter(|&package| package != "runsc").collect();
    if !others.is_empty() {
        say(format!("install with this system's package manager: {}", others.join(", ")));
    }
    SetupPlan { steps }
}

/// Carries out `plan`, calling `progress` before each step. The commands' output goes to standard error.
/// Needs root, except for an empty plan.
pub fn apply(plan: &SetupPlan, progress: &mut dyn FnMut(&SetupStep)) -> Result<(), SetupError> {
    if plan.needs_a_person() {
        return Err(SetupError::ByHand);
    }
    for step in &plan.steps {
        progress(step);
        match step {
            SetupStep::WriteFile { path, contents, .. } => write_readable(path, contents)?,
            SetupStep::Run { argv, .. } => run(argv)?,
            SetupStep::ByHand { .. } => return Err(SetupError::ByHand),
        }
    }
    Ok(())
}

fn write_readable(path: &Path, contents: &str) -> Result<(), SetupError> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, contents)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o644)))
        .map_err(|source| SetupError::Write { path: path.to_owned(), source })
}

fn run(argv: &[String]) -> Result<(), SetupError> {
    let Some((program, arguments)) = argv.split_first() else { return Ok(()) };
    let status = Command::new(program)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::from(io::stderr()))
        .status()
        .map_err(|source| SetupError::Start { program: program.clone(), source })?;
    if status.success() { Ok(()) } else { Err(SetupError::Failed { command: argv.join(" "), status }) }
}

fn words(argv: &[&str]) -> Vec<String> {
    argv.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debian_without_runsc() -> Machine {
        Machine {
            os_id: "debian".to_owned(),
            os_codename: "bookworm".to_owned(),
            is_root: true,
            has_apt: true,
            runsc_build: None,
            apt_candidate_build: Some(20_221_219),
            apt_sources: apt::parse_one_line("deb http://mirror.test/debian bookworm main\n"),
            missing: vec!["nft"],
        }
    }

    #[test]
    fn a_complete_machine_gets_an_empty_plan() {
        let machine =
            Machine { runsc_build: Some(OLDEST_FIT_BUILD), missing: vec![], ..debian_without_runsc() };
        assert!(plan_for(&machine).is_empty());
    }

    #[test]
    fn an_old_debian_gets_a_source_a_pin_and_two_commands() {
        let plan = plan_for(&debian_without_runsc());
        let [
            SetupStep::WriteFile { contents, .. },
            SetupStep::WriteFile { .. },
            SetupStep::Run { .. },
            SetupStep::Run { argv, .. },
        ] = plan.steps.as_slice()
        else {
            panic!("unexpected plan: {plan:?}");
        };
        assert!(contents.contains("URIs: http://mirror.test/debian\n"));
        assert_eq!(argv[argv.len() - 2..], ["runsc", "nftables"]);
    }

    #[test]
    fn a_fit_candidate_needs_no_new_source() {
        let machine = Machine { apt_candidate_build: Some(20_240_729), ..debian_without_runsc() };
        assert!(plan_for(&machine).steps.iter().all(|step| matches!(step, SetupStep::Run { .. })));
    }

    #[test]
    fn an_old_runsc_is_replaced() {
        let machine = Machine { runsc_build: Some(20_221_219), missing: vec![], ..debian_without_runsc() };
        assert_eq!(plan_for(&machine).steps.len(), 4);
    }

    #[test]
    fn other_systems_and_other_users_are_told_what_to_do_and_nothing_is_run() {
        for machine in [
            Machine { os_id: "fedora".to_owned(), has_apt: false, ..debian_without_runsc() },
            Machine { os_id: "ubuntu".to_owned(), ..debian_without_runsc() },
            Machine { is_root: false, ..debian_without_runsc() },
            Machine { apt_sources: vec![], ..debian_without_runsc() },
        ] {
            let plan = plan_for(&machine);
            assert!(plan.needs_a_person(), "{plan:?}");
            assert!(matches!(apply(&plan, &mut |_| panic!("nothing may run")), Err(SetupError::ByHand)));
        }
    }
}

//! Finds out by doing whether jobs can be run here, and says of every part how it went.
//!
//! Nothing is concluded from configuration: a control group counts once the kernel was seen to kill in it, a
//! language once it printed its version from inside a sandbox, and gVisor once a program inside it reported
//! ready and failed at everything it must fail at.

mod cgroups;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::cancel::Cancel;
use crate::cgroup::{CgroupKind, Cgroups};
use crate::home::Home;
use crate::isolation::IsolationClass;
use crate::job::Job;
use crate::language::Language;
use crate::launch::{Kind, Launcher};
use crate::limits::{Bounds, LimitEnforcement, RequestedLimits};
use crate::platform::{Files, Platform};
use crate::pool::Pool;
use crate::report::{JobObserver, JobReport, Stream};
use crate::rootfs::Rootfs;
use crate::runtime::Runtime;
use crate::sandbox::{Sandbox, SandboxConfig, SandboxError};
use crate::shared_kernel::{self, Filters};
use crate::spawn::Spawner;

/// A preflight's findings, and the sandbox if it may be used.
#[derive(Debug)]
pub struct Preflight {
    /// One entry for each thing tried, in order.
    pub probes: Vec<Probe>,
    /// The sandbox, or the first reason why there is none.
    pub sandbox: Result<Sandbox, SandboxError>,
}

/// One thing tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Stable name.
    pub name: &'static str,
    /// Whether it went as it should.
    pub ok: bool,
    /// What was found, as a phrase.
    pub finding: String,
    /// What to do about it when it did not.
    pub hint: Option<&'static str>,
}

/// What was proven of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// The class that jobs get; observed.
    pub isolation_class: IsolationClass,
    /// Each language that works, with its version.
    pub languages: Vec<LanguageSupport>,
    /// The runtime packs that jobs may name.
    pub packs: Vec<PackSupport>,
    /// The version of gVisor, or of what stands in for it.
    pub runtime_version: String,
    /// SHA-256 of its binary, in hex.
    pub runtime_sha256: String,
    /// Digest of the root file system's tree, in hex.
    pub rootfs_sha256: String,
    /// The control groups in use.
    pub cgroups: CgroupKind,
    /// Whether sandboxes can be stopped while they wait, and so are kept ready.
    pub keeps_ready: bool,
    /// Which limits are really enforced.
    pub limit_enforcement: LimitEnforcement,
    /// The range of every limit.
    pub bounds: Bounds,
}

/// A runtime pack that works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackSupport {
    /// What jobs call it.
    pub name: String,
    /// Digest of its tree, in hex.
    pub rootfs_sha256: String,
    /// Each language that works in it.
    pub languages: Vec<LanguageSupport>,
}

/// A language that works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LanguageSupport {
    /// The language.
    pub language: Language,
    /// What its interpreter calls its version.
    pub version: String,
}

/// Checks from inside a sandbox. Each line printed is one property that holds.
const SELF_TEST: &str = r#"
stat / > /dev/null && echo files
[ ! -e /etc/shadow ] && [ ! -e /root ] && echo hidden
[ "$(id -u)" = 65534 ] && ! (echo x > /usr/x) 2> /dev/null && ! (echo x > /x) 2> /dev/null && echo read-only
grep -q '^CapEff:.*0000000000000000$' /proc/self/status && echo powerless
grep -q '^Seccomp:.*2$' /proc/self/status && echo filtered
! (exec 4<> /dev/tcp/169.254.169.254/80) 2> /dev/null && [ "$(grep -c : /proc/net/dev)" -le 1 ] && echo offline
"#;

/// The lines [`SELF_TEST`] has to print, with what each means.
const SELF_TEST_LINES: [(&str, &str); 6] = [
    ("files", "file metadata can be read"),
    ("hidden", "the host's files are not visible"),
    ("read-only", "the root file system cannot be written"),
    ("powerless", "no capability is held"),
    ("filtered", "the system call filter is in force"),
    ("offline", "there is no network"),
];

impl Preflight {
    /// Runs every probe. See [`Sandbox::preflight`].
    pub(crate) fn run(config: &SandboxConfig) -> Self {
        let mut probes = Vec::new();
        let sandbox = open(config, &mut probes);
        Self { probes, sandbox }
    }
}

/// Opens the strongest sandbox that proves itself; the error is that of the strongest.
fn open(config: &SandboxConfig, probes: &mut Vec<Probe>) -> Result<Sandbox, SandboxError> {
    let gvisor = note(probes, "runtime", Runtime::find(config.runsc.as_deref()), |found| {
        format!("{} at {}", found.version, found.path.display())
    });
    let first = gvisor.and_then(|runtime| prove_gvisor(config, runtime, probes));
    let Err(error) = first else { return first };
    if config.shared_kernel
        && let Ok(platform) = note(probes, "shared-kernel", shared_kernel(), |platform| {
            format!("{}: weaker than gVisor, and allowed here", platform.runtime().version)
        })
        && let Ok(sandbox) = prove(config, platform, probes)
    {
        return Ok(sandbox);
    }
    Err(error)
}

/// Proves gVisor reading an image; where that cannot be proven, with a gofer.
fn prove_gvisor(
    config: &SandboxConfig,
    runtime: Runtime,
    probes: &mut Vec<Probe>,
) -> Result<Sandbox, SandboxError> {
    let mut tried = Vec::new();
    let sandbox = prove(config, Platform::Gvisor(runtime.clone(), Files::Image), &mut tried);
    let Err(SandboxError::Unproven { .. }) = sandbox else {
        probes.append(&mut tried);
        return sandbox;
    };
    let failed = tried.iter().filter(|probe| !probe.ok);
    let why: Vec<String> = failed.map(|probe| format!("{}: {}", probe.name, probe.finding)).collect();
    let finding =
        format!("jobs do not run from an image, and with a gofer a start takes longer ({})", why.join("; "));
    let hint = Some("jobs run all the same; a newer runsc may start from an image");
    probes.push(Probe { name: "image", ok: false, finding, hint });
    prove(config, Platform::Gvisor(runtime, Files::Gofer), probes)
}

fn shared_kernel() -> Result<Platform, SandboxError> {
    let filters =
        Filters::compile().map_err(SandboxError::at("compile the filters for", Path::new("bwrap")))?;
    Ok(Platform::SharedKernel(shared_kernel::find()?, filters))
}

/// Makes everything a sandbox needs on this platform, and proves that it holds.
fn prove(
    config: &SandboxConfig,
    platform: Platform,
    probes: &mut Vec<Probe>,
) -> Result<Sandbox, SandboxError> {
    let name = config.cgroup_name()?;
    let rootfs = note(probes, "rootfs", Rootfs::load_or_build(&config.rootfs), |built| {
        format!("{} at {}", built.sha256, built.path.display())
    })?;
    let home = note(probes, "home", Home::open(&config.home), |home| home.jobs().display().to_string())?;
    note(probes, "sweep", home.sweep(&name), |swept| match swept.job_dirs {
        0 => "nothing was left behind".to_owned(),
        count => format!("{count} jobs of an earlier process were cleared away"),
    })?;
    let spawner = Spawner::start().map_err(SandboxError::at("start a thread for", &config.home))?;
    let cgroups = Cgroups::establish(&name);
    home.record_cgroups(&cgroups.parents())?;
    let proven = cgroups::probe(&cgroups, &spawner, probes);
    let enforcement = LimitEnforcement {
        wall_seconds: true,
        cpu_seconds: proven.cpu,
        mem_mb: proven.memory,
        max_pids: true,
        max_file_mb: true,
    };
    let capabilities = Capabilities {
        isolation_class: IsolationClass::None,
        languages: Vec::new(),
        packs: Vec::new(),
        runtime_version: platform.runtime().version.clone(),
        runtime_sha256: platform.runtime().sha256.clone(),
        rootfs_sha256: rootfs.sha256.clone(),
        cgroups: cgroups.kind(),
        keeps_ready: proven.freeze && config.pool.armed > 0,
        limit_enforcement: enforcement,
        bounds: config.bounds,
    };
    let trees = trees(config, rootfs, probes);
    let launcher = Arc::new(Launcher { home, platform, trees, cgroups, spawner, bounds: config.bounds });
    let mut sandbox = Sandbox { pool: None, launcher, unfit: BTreeSet::new(), capabilities };
    prove_isolation(&mut sandbox, probes)?;
    prove_languages(&mut sandbox, probes)?;
    if proven.freeze && config.pool.armed > 0 {
        let fit: Vec<Kind> = sandbox.launcher.kinds().filter(|kind| !sandbox.unfit.contains(kind)).collect();
        let kept = fit.into_iter().filter(|kind| config.pool.languages.contains(&kind.language));
        let pool = Pool::open(Arc::clone(&sandbox.launcher), kept, config.pool.clone());
        sandbox.pool = Some(pool.map_err(SandboxError::at("start a thread for", &config.home))?);
    }
    Ok(sandbox)
}

/// This machine's own tree and those of the packs. A pack that cannot be had is noted and left out.
fn trees(config: &SandboxConfig, own: Rootfs, probes: &mut Vec<Probe>) -> BTreeMap<Option<String>, Rootfs> {
    let mut trees = BTreeMap::from([(None, own)]);
    for pack in &config.packs {
        let loaded = note(probes, "pack", Rootfs::load_or_unpack(&config.rootfs, pack), |tree| {
            format!("{}: {} at {}", pack.name, tree.sha256, tree.path.display())
        });
        if let Ok(tree) = loaded {
            trees.insert(Some(pack.name.clone()), tree);
        }
    }
    // Now that everything needed is held, the rest may go.
    if let Err(error) = Rootfs::tidy(&config.rootfs) {
        tracing::debug!(%error, "old root file systems stay");
    }
    trees
}

/// Notes how a step went, and passes it on.
fn note<T, E: Into<SandboxError>>(
    probes: &mut Vec<Probe>,
    name: &'static str,
    result: Result<T, E>,
    describe: impl FnOnce(&T) -> String,
) -> Result<T, SandboxError> {
    let result = result.map_err(Into::into);
    probes.push(match &result {
        Ok(value) => Probe { name, ok: true, finding: describe(value), hint: None },
        Err(error) => Probe { name, ok: false, finding: in_full(error), hint: Some(error.hint()) },
    });
    result
}

/// Runs [`SELF_TEST`] in a sandbox. Without Bash there is nobody to run it, and then there is no sandbox.
fn prove_isolation(sandbox: &mut Sandbox, probes: &mut Vec<Probe>) -> Result<(), SandboxError> {
    const NAME: &str = "isolation";
    let (report, printed) =
        note(probes, NAME, try_job(sandbox, Job::new(Language::Bash, SELF_TEST)), |(report, _)| {
            format!("ready after {} ms", report.resource_usage.boot_time_ms)
        })?;
    let Some(posture) = &report.posture else {
        probes.push(Probe {
            name: NAME,
            ok: false,
            finding: report.diagnostic.unwrap_or_else(|| "the sandbox did not report ready".to_owned()),
            hint: Some("run the same command as another user, or with a newer runsc"),
        });
        return Err(SandboxError::Unproven { probe: NAME });
    };
    sandbox.capabilities.isolation_class = posture.isolation_class;
    let mut all = true;
    for (line, meaning) in SELF_TEST_LINES {
        let ok = printed.lines().any(|have| have == line);
        all &= ok;
        let finding = if ok { meaning.to_owned() } else { format!("not so: {meaning}") };
        let hint = (!ok).then_some("do not run untrusted code here; report the runsc version");
        probes.push(Probe { name: line, ok, finding, hint });
    }
    if all { Ok(()) } else { Err(SandboxError::Unproven { probe: NAME }) }
}

/// Asks every interpreter for its version, from inside. One that does not answer is left out.
fn prove_languages(sandbox: &mut Sandbox, probes: &mut Vec<Probe>) -> Result<(), SandboxError> {
    let mut kinds: Vec<Kind> = sandbox.launcher.kinds().collect();
    kinds.extend(Language::ALL.map(|language| Kind { language, pack: None }));
    kinds.sort();
    kinds.dedup();
    for kind in kinds {
        let language = kind.language;
        let result = try_job(sandbox, Job { runtime: kind.pack.clone(), ..version_job(language) });
        let version = match &result {
            Ok((report, printed)) if report.exit_code == Some(0) => Some(printed.trim().to_owned()),
            Ok(_) | Err(_) => None,
        };
        let finding = match (&version, &result) {
            (Some(version), _) => version.clone(),
            (None, Ok((report, _))) => {
                format!("{:?}: {}", report.outcome, report.diagnostic.as_deref().unwrap_or(""))
            }
            (None, Err(error)) => in_full(error),
        };
        let finding = kind.pack.iter().fold(finding, |finding, pack| format!("{finding} in the pack {pack}"));
        let hint = version.is_none().then_some("install the interpreter with the system's package manager");
        probes.push(Probe { name: language.name(), ok: version.is_some(), finding, hint });
        match version {
            Some(version) => sandbox.capabilities.add(&kind, LanguageSupport { language, version }),
            None => {
                sandbox.unfit.insert(kind);
            }
        }
    }
    for pack in &mut sandbox.capabilities.packs {
        let tree = sandbox.launcher.trees.get(&Some(pack.name.clone()));
        pack.rootfs_sha256 = tree.map(|tree| tree.sha256.clone()).unwrap_or_default();
    }
    if sandbox.capabilities.languages.is_empty() {
        return Err(SandboxError::Unproven { probe: "languages" });
    }
    Ok(())
}

fn version_job(language: Language) -> Job {
    Job::new(language, language.version_code())
}

impl Capabilities {
    fn add(&mut self, kind: &Kind, support: LanguageSupport) {
        let Some(name) = &kind.pack else { return self.languages.push(support) };
        if let Some(pack) = self.packs.iter_mut().find(|pack| pack.name == *name) {
            return pack.languages.push(support);
        }
        let (name, rootfs_sha256) = (name.clone(), String::new());
        self.packs.push(PackSupport { name, rootfs_sha256, languages: vec![support] });
    }
}

/// An error with its causes, for a finding.
fn in_full(error: &SandboxError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Runs a small job and returns what it printed.
fn try_job(sandbox: &Sandbox, job: Job) -> Result<(JobReport, String), SandboxError> {
    struct Printed(Vec<u8>);
    impl JobObserver for Printed {
        fn output(&mut self, stream: Stream, bytes: &[u8]) {
            if stream == Stream::Stdout {
                self.0.extend_from_slice(bytes);
            }
        }
    }
    let limits = RequestedLimits { wall_seconds: Some(10), ..RequestedLimits::default() };
    let cancel =
        Cancel::new().map_err(SandboxError::at("make a handle in", &sandbox.launcher.home.jobs()))?;
    let mut printed = Printed(Vec::new());
    let report = sandbox.run(&Job { limits, ..job }, &cancel, &mut printed)?;
    Ok((report, String::from_utf8_lossy(&printed.0).into_owned()))
}

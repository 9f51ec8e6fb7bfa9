//! The OCI bundle of one job: what gVisor is told about it.
//!
//! Only the part of the OCI runtime specification (v1.2) that is used is modelled, as plain structs, so that
//! equal settings always serialise to equal bytes. Code, standard input and input files are never part of it:
//! they reach the job through read-only binds and a pipe.
//!
//! Invariants: user 65534, no capability, no new privileges, root read-only, every writable place a
//! memory-backed mount with a size.

mod seccomp;

use std::path::Path;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::hex;
use crate::language::Language;
use crate::limits::{EffectiveLimits, OPEN_FILES};

/// The user and group every job runs as inside its sandbox: `nobody`.
const GUEST_ID: u32 = 65534;
const MIB: u64 = 1024 * 1024;

/// What a configuration depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    pub(crate) language: Language,
    /// Path inside the root file system.
    pub(crate) interpreter: &'a str,
    pub(crate) limits: EffectiveLimits,
}

/// Host paths a configuration names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    pub(crate) rootfs: &'a Path,
    pub(crate) code: &'a Path,
    pub(crate) input: &'a Path,
}

/// The text of `config.json`.
pub(crate) fn config(settings: &Settings<'_>, places: &Places<'_>) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Config::new(settings, places))
}

/// SHA-256 of the configuration with this job's host paths replaced by their roles: equal for all jobs that
/// run under the same settings, on any machine.
pub(crate) fn config_sha256(settings: &Settings<'_>) -> serde_json::Result<String> {
    let roles =
        Places { rootfs: Path::new("<rootfs>"), code: Path::new("<code>"), input: Path::new("<input>") };
    config(settings, &roles).map(|text| hex(&Sha256::digest(text)))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    oci_version: &'static str,
    hostname: &'static str,
    root: Root<'a>,
    process: Process,
    mounts: Vec<Mount<'a>>,
    linux: Linux,
}

#[derive(Serialize)]
struct Root<'a> {
    path: &'a Path,
    readonly: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    terminal: bool,
    user: User,
    args: Vec<String>,
    env: Vec<String>,
    cwd: &'static str,
    capabilities: Capabilities,
    rlimits: Vec<Rlimit>,
    no_new_privileges: bool,
}

#[derive(Serialize)]
struct User {
    uid: u32,
    gid: u32,
}

/// Every set stays empty.
#[derive(Default, Serialize)]
struct Capabilities {
    bounding: [&'static str; 0],
    effective: [&'static str; 0],
    inheritable: [&'static str; 0],
    permitted: [&'static str; 0],
    ambient: [&'static str; 0],
}

#[derive(Serialize)]
struct Rlimit {
    #[serde(rename = "type")]
    kind: &'static str,
    hard: u64,
    soft: u64,
}

#[derive(Serialize)]
struct Mount<'a> {
    destination: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    source: &'a Path,
    options: Vec<String>,
}

#[derive(Serialize)]
struct Linux {
    namespaces: Vec<Namespace>,
    seccomp: seccomp::Profile,
}

#[derive(Serialize)]
struct Namespace {
    #[serde(rename = "type")]
    kind: &'static str,
}

impl<'a> Config<'a> {
    fn new(settings: &Settings<'_>, places: &Places<'a>) -> Self {
        Self {
            oci_version: "1.2.0",
            hostname: "sandbox",
            root: Root { path: places.rootfs, readonly: true },
            process: Process {
                terminal: false,
                user: User { uid: GUEST_ID, gid: GUEST_ID },
                args: settings.language.command(settings.interpreter),
                env: settings.language.environment(),
                cwd: "/work",
                capabilities: Capabilities::default(),
                rlimits: rlimits(&settings.limits),
                no_new_privileges: true,
            },
            mounts: mounts(&settings.limits, places),
            linux: Linux {
                // No user namespace: gVisor makes its own, and a listed one would need newuidmap without root.
                namespaces: ["pid", "network", "ipc", "uts", "mount"].map(|kind| Namespace { kind }).into(),
                seccomp: seccomp::Profile::denied_calls(),
            },
        }
    }
}

/// Limits gVisor keeps itself. There is none for processor time: `RLIMIT_CPU` never fires there.
fn rlimits(limits: &EffectiveLimits) -> Vec<Rlimit> {
    [
        ("RLIMIT_NPROC", limits.max_pids),
        ("RLIMIT_FSIZE", limits.max_file_mb * MIB),
        ("RLIMIT_NOFILE", OPEN_FILES),
        ("RLIMIT_CORE", 0),
    ]
    .map(|(kind, value)| Rlimit { kind, hard: value, soft: value })
    .into()
}

fn mounts<'a>(limits: &EffectiveLimits, places: &Places<'a>) -> Vec<Mount<'a>> {
    let words = |options: &[&str]| options.iter().map(|&option| option.to_owned()).collect::<Vec<_>>();
    // The job's memory ceiling counts these pages too; the size makes a full disk an error the job can see
    // instead of its death.
    let scratch = |destination| {
        let size = format!("size={}", limits.mem_mb * MIB / 2);
        let mut options = words(&["nosuid", "nodev", "mode=1777"]);
        options.push(size);
        Mount { destination, kind: "tmpfs", source: Path::new("tmpfs"), options }
    };
    let bind = |destination, source| Mount {
        destination,
        kind: "bind",
        source,
        options: words(&["bind", "ro", "nosuid", "nodev"]),
    };
    vec![
        Mount { destination: "/proc", kind: "proc", source: Path::new("proc"), options: Vec::new() },
        scratch("/tmp"),
        scratch("/work"),
        bind("/work/input", places.input),
        scratch("/work/output"),
        bind("/job", places.code),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Bounds, RequestedLimits};

    fn settings(asked: RequestedLimits) -> Settings<'static> {
        Settings {
            language: Language::Python,
            interpreter: "/usr/bin/python3",
            limits: EffectiveLimits::clamp(&asked, &Bounds::default()),
        }
    }

    #[test]
    fn the_digest_ignores_host_paths_and_follows_every_limit_and_the_language() {
        let base = settings(RequestedLimits::default());
        let digest = config_sha256(&base).unwrap();
        assert_eq!(digest, config_sha256(&base).unwrap());
        let fewer = settings(RequestedLimits { max_pids: Some(17), ..RequestedLimits::default() });
        assert_ne!(digest, config_sha256(&fewer).unwrap());
        assert_ne!(digest, config_sha256(&Settings { language: Language::Node, ..base }).unwrap());
    }

    #[test]
    fn a_job_has_no_capability_no_root_and_nothing_writable_but_sized_memory() {
        let places = Places { rootfs: Path::new("/r"), code: Path::new("/c"), input: Path::new("/i") };
        let text = config(&settings(RequestedLimits::default()), &places).unwrap();
        let config: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(config["process"]["user"]["uid"], 65534);
        assert_eq!(config["process"]["noNewPrivileges"], true);
        assert_eq!(config["root"]["readonly"], true);
        for set in ["bounding", "effective", "inheritable", "permitted", "ambient"] {
            assert_eq!(config["process"]["capabilities"][set], serde_json::json!([]));
        }
        for mount in config["mounts"].as_array().unwrap() {
            let options: Vec<&str> =
                mount["options"].as_array().unwrap().iter().map(|option| option.as_str().unwrap()).collect();
            match mount["type"].as_str().unwrap() {
                "bind" => assert!(options.contains(&"ro"), "{mount}"),
                "tmpfs" => assert!(options.iter().any(|option| option.starts_with("size=")), "{mount}"),
                other => assert_eq!(other, "proc"),
            }
        }
    }
}

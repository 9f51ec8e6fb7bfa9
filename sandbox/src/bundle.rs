//! The OCI bundle of a sandbox: what gVisor is told about it, before there is a job.
//!
//! Only the part of the OCI runtime specification (v1.2) that is used is modelled, as plain structs, so that
//! equal settings always serialise to equal bytes. Nothing of a job is in it, its limits neither: the init lowers
//! them when there is a job.
//!
//! The root file system is an image that gVisor reads by itself (`rootfs/image.rs`), or a directory that its gofer serves.
//!
//! Invariants: nothing of the host is mounted but the read-only root file system, every writable place is a
//! memory-backed mount with a size; no new privileges; the init has three capabilities, and the job, another user,
//! none.

mod seccomp;

use std::path::Path;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::hex;
use crate::language::Language;
use crate::limits::{Bounds, DISK_MIB, OPEN_FILES};

/// Where the init is in every root file system.
pub(crate) const INIT: &str = "/boot/init";
/// What the init may do beside what every user may: become the job's user, and end what that user left.
pub(crate) const INIT_CAPABILITIES: &[&str] = &["CAP_KILL", "CAP_SETGID", "CAP_SETUID"];
/// The user and group that every job runs as: nobody.
pub(crate) const JOB_ID: u32 = 65_534;
/// Where the init finds its control socket.
const CONTROL: &str = "3";
const MIB: u64 = 1024 * 1024;

/// What a configuration depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    pub(crate) language: Language,
    /// Path inside the root file system.
    pub(crate) interpreter: &'a str,
    pub(crate) bounds: &'a Bounds,
}

/// The root file system on the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root<'a> {
    /// A directory, not used where there is an image.
    pub(crate) tree: &'a Path,
    pub(crate) image: Option<&'a Path>,
}

/// The text of `config.json`.
pub(crate) fn config(settings: &Settings<'_>, root: Root<'_>) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Config::new(settings, root))
}

/// SHA-256 of the configuration with host paths replaced by their roles: equal for all jobs that run under the same
/// settings, on any machine.
pub(crate) fn config_sha256(settings: &Settings<'_>, root: Root<'_>) -> serde_json::Result<String> {
    let roles = Root { tree: Path::new("<rootfs>"), image: root.image.map(|_| Path::new("<image>")) };
    config(settings, roles).map(|text| hex(&Sha256::digest(text)))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    oci_version: &'static str,
    hostname: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Annotations<'a>>,
    root: RootDir<'a>,
    process: Process,
    mounts: [Mount; 4],
    linux: Linux,
}

/// gVisor's own; `runsc/boot/mount_hints.go` there. Without an overlay, which would be writable, an image needs no gofer.
#[derive(Serialize)]
struct Annotations<'a> {
    #[serde(rename = "dev.gvisor.spec.rootfs.type")]
    kind: &'static str,
    #[serde(rename = "dev.gvisor.spec.rootfs.source")]
    source: &'a Path,
}

#[derive(Serialize)]
struct RootDir<'a> {
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

/// Nothing can be inherited: another user than the init's has none.
#[derive(Serialize)]
struct Capabilities {
    bounding: &'static [&'static str],
    effective: &'static [&'static str],
    inheritable: [&'static str; 0],
    permitted: &'static [&'static str],
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
struct Mount {
    destination: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    source: &'static str,
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
    fn new(settings: &Settings<'_>, root: Root<'a>) -> Self {
        let init = [INIT, CONTROL, settings.language.code_path()].map(str::to_owned);
        Self {
            oci_version: "1.2.0",
            hostname: "sandbox",
            annotations: root.image.map(|source| Annotations { kind: "erofs", source }),
            root: RootDir { path: root.tree, readonly: true },
            process: Process {
                terminal: false,
                user: User { uid: 0, gid: 0 },
                args: init.into_iter().chain(settings.language.command(settings.interpreter)).collect(),
                env: settings.language.environment(),
                cwd: "/",
                capabilities: Capabilities {
                    bounding: INIT_CAPABILITIES,
                    effective: INIT_CAPABILITIES,
                    inheritable: [],
                    permitted: INIT_CAPABILITIES,
                    ambient: [],
                },
                rlimits: rlimits(settings.bounds),
                no_new_privileges: true,
            },
            mounts: [
                Mount { destination: "/proc", kind: "proc", source: "proc", options: Vec::new() },
                memory("/tmp", "1777"),
                memory("/work", "1777"),
                memory("/job", "0755"),
            ],
            linux: Linux {
                // No user namespace: gVisor makes its own, and a listed one would need newuidmap without root.
                namespaces: ["pid", "network", "ipc", "uts", "mount"].map(|kind| Namespace { kind }).into(),
                seccomp: seccomp::Profile::denied_calls(),
            },
        }
    }
}

/// Limits gVisor keeps itself, before there is a job. There is none for processor time: `RLIMIT_CPU` never fires
/// there.
fn rlimits(bounds: &Bounds) -> Vec<Rlimit> {
    [
        ("RLIMIT_NPROC", bounds.max_pids.max),
        ("RLIMIT_FSIZE", bounds.max_file_mb.max * MIB),
        ("RLIMIT_NOFILE", OPEN_FILES),
        ("RLIMIT_CORE", 0),
    ]
    .map(|(kind, value)| Rlimit { kind, hard: value, soft: value })
    .into()
}

/// A mount in memory. The job's memory ceiling counts its pages; the size makes a full disk an error that most jobs
/// see before it is their death.
fn memory(destination: &'static str, mode: &str) -> Mount {
    let mut options = ["nosuid", "nodev"].map(str::to_owned).to_vec();
    options.extend([format!("mode={mode}"), format!("size={}", DISK_MIB * MIB)]);
    Mount { destination, kind: "tmpfs", source: "tmpfs", options }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Bound;

    #[test]
    fn the_digest_ignores_host_paths_and_follows_the_language_the_bounds_and_how_files_are_served() {
        let bounds = Bounds::default();
        let base = Settings { language: Language::Python, interpreter: "/usr/bin/python3", bounds: &bounds };
        let here = Root { tree: Path::new("/r/tree"), image: Some(Path::new("/r/image")) };
        let there = Root { tree: Path::new("/x"), image: Some(Path::new("/y")) };
        let digest = config_sha256(&base, here).unwrap();
        assert_eq!(digest, config_sha256(&base, there).unwrap());
        let more = Bounds { max_pids: Bound { max: 9999, ..bounds.max_pids }, ..bounds };
        assert_ne!(digest, config_sha256(&Settings { bounds: &more, ..base }, here).unwrap());
        assert_ne!(digest, config_sha256(&Settings { language: Language::Node, ..base }, here).unwrap());
        assert_ne!(digest, config_sha256(&base, Root { image: None, ..here }).unwrap());
    }

    #[test]
    fn the_init_has_three_capabilities_to_itself_and_nothing_of_the_host_is_mounted() {
        let bounds = Bounds::default();
        let settings = Settings { language: Language::Bash, interpreter: "/usr/bin/bash", bounds: &bounds };
        let root = Root { tree: Path::new("/r"), image: Some(Path::new("/i")) };
        let text = config(&settings, root).unwrap();
        let config: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(config["process"]["noNewPrivileges"], true);
        assert_eq!(config["root"]["readonly"], true);
        let annotations = serde_json::json!({
            "dev.gvisor.spec.rootfs.type": "erofs",
            "dev.gvisor.spec.rootfs.source": "/i",
        });
        assert_eq!(config["annotations"], annotations, "an overlay could be written to");
        for set in ["bounding", "effective", "permitted"] {
            assert_eq!(
                config["process"]["capabilities"][set],
                serde_json::json!(["CAP_KILL", "CAP_SETGID", "CAP_SETUID"])
            );
        }
        for set in ["inheritable", "ambient"] {
            assert_eq!(config["process"]["capabilities"][set], serde_json::json!([]));
        }
        for mount in config["mounts"].as_array().unwrap() {
            let options = mount["options"].as_array().unwrap();
            let sized = options.iter().any(|option| option.as_str().unwrap().starts_with("size="));
            assert!(mount["type"] == "proc" || (mount["type"] == "tmpfs" && sized), "{mount}");
        }
    }
}

//! What setting up needs to know about a machine, and how it is found out.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use super::SetupError;
use super::apt::{self, AptSource};
use crate::runtime::{self, Runtime};

/// Programs that jobs, the root file system or network probes use, with the Debian package of each.
pub(super) const COMPANIONS: &[(&str, &str)] =
    &[("python3", "python3"), ("node", "nodejs"), ("ip", "iproute2"), ("nft", "nftables")];

/// Where packages put programs; a language manager's shims elsewhere do not count.
const PROGRAM_DIRS: &[&str] = &["/usr/bin", "/usr/sbin", "/bin", "/sbin"];

/// The facts [`super::plan_for`] decides on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `ID` of os-release(5) in lower case; `macos` or `windows` elsewhere.
    pub os_id: String,
    /// `VERSION_CODENAME` of os-release(5), or empty.
    pub os_codename: String,
    /// Whether this process may change the system.
    pub is_root: bool,
    /// Whether `apt-get` is there.
    pub has_apt: bool,
    /// Build date (YYYYMMDD) of the `runsc` on PATH.
    pub runsc_build: Option<u32>,
    /// Build date of the `runsc` apt would install as it is configured now.
    pub apt_candidate_build: Option<u32>,
    /// Every enabled package source.
    pub apt_sources: Vec<AptSource>,
    /// Companion programs that are not installed.
    pub missing: Vec<&'static str>,
}

impl Machine {
    /// Looks at the machine this process runs on.
    pub fn observe() -> Result<Self, SetupError> {
        let os_release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let value = |key: &str| os_release_value(&os_release, key).unwrap_or_default();
        let has_apt = is_installed("apt-get");
        Ok(Self {
            os_id: if cfg!(target_os = "linux") { value("ID") } else { std::env::consts::OS.to_owned() },
            os_codename: value("VERSION_CODENAME"),
            is_root: rustix::process::geteuid().is_root(),
            has_apt,
            runsc_build: installed_build(),
            apt_candidate_build: if has_apt { candidate_build() } else { None },
            apt_sources: if has_apt { read_apt_sources()? } else { Vec::new() },
            missing: COMPANIONS
                .iter()
                .map(|&(program, _)| program)
                .filter(|program| !is_installed(program))
                .collect(),
        })
    }
}

fn is_installed(program: &str) -> bool {
    PROGRAM_DIRS.iter().any(|dir| Path::new(dir).join(program).exists())
}

/// One value of os-release(5), without its quotes.
fn os_release_value(text: &str, key: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

/// The build date of the `runsc` on PATH, if there is one that answers.
fn installed_build() -> Option<u32> {
    let path = runtime::find_on_path("runsc")?;
    Runtime::inspect(&path).ok().and_then(|runtime| runtime.build)
}

fn candidate_build() -> Option<u32> {
    let output = Command::new("apt-cache").args(["policy", "runsc"]).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    apt::candidate_version(&text).and_then(runtime::build_date)
}

fn read_apt_sources() -> Result<Vec<AptSource>, SetupError> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let parts = PathBuf::from("/etc/apt/sources.list.d");
    match fs::read_dir(&parts) {
        Ok(entries) => files.extend(entries.filter_map(Result::ok).map(|entry| entry.path())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(SetupError::Read { path: parts, source }),
    }
    files.sort();
    let mut sources = Vec::new();
    for path in files {
        let parse = match path.extension().and_then(|extension| extension.to_str()) {
            Some("list") => apt::parse_one_line,
            Some("sources") => apt::parse_deb822,
            _ => continue,
        };
        match fs::read_to_string(&path) {
            Ok(text) => sources.extend(parse(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(SetupError::Read { path, source }),
        }
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_values_lose_their_quotes_and_keys_match_whole() {
        let text = "VERSION_ID=\"12\"\nID_LIKE=x\nID=debian\nVERSION_CODENAME='bookworm'\n";
        assert_eq!(os_release_value(text, "ID").as_deref(), Some("debian"));
        assert_eq!(os_release_value(text, "VERSION_CODENAME").as_deref(), Some("bookworm"));
        assert_eq!(os_release_value(text, "NAME"), None);
    }
}

//! Finds the program before it is started, so that "not there" and "not executable" are known and not guessed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::spec::CommandSpec;
use crate::engine::FailureReason;

/// Where programs are looked for when this process has no `PATH`.
const FALLBACK_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The file to start. What is true now may be false when it starts; then starting fails.
pub(super) fn resolve(spec: &CommandSpec) -> Result<PathBuf, FailureReason> {
    if !spec.working_directory.is_dir() {
        return Err(FailureReason::NoWorkingDirectory { directory: spec.working_directory.clone() });
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| FALLBACK_PATH.into());
    find(&spec.program, &spec.working_directory, &path)
}

fn find(program: &Path, from: &Path, path: &OsStr) -> Result<PathBuf, FailureReason> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        let file = from.join(program);
        return match file.metadata() {
            Ok(_) if is_executable(&file) => Ok(file),
            Ok(_) => Err(FailureReason::NotExecutable { program: file }),
            Err(_) => Err(FailureReason::ProgramNotFound { program: program.to_owned() }),
        };
    }
    let candidates: Vec<PathBuf> = std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|dir| dir.join(program))
        .collect();
    if let Some(file) = candidates.iter().find(|file| is_executable(file)) {
        return Ok(file.clone());
    }
    // Like execvp: a file that is there and cannot be run is the better explanation.
    match candidates.into_iter().find(|file| file.is_file()) {
        Some(file) => Err(FailureReason::NotExecutable { program: file }),
        None => Err(FailureReason::ProgramNotFound { program: program.to_owned() }),
    }
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(file: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(file, "").unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_name_is_found_past_a_file_that_cannot_run() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        touch(&first.path().join("agent"), 0o644);
        let path = std::env::join_paths([first.path(), second.path()]).unwrap();
        let find = || find(Path::new("agent"), Path::new("/"), &path);

        assert!(matches!(find(), Err(FailureReason::NotExecutable { .. })));
        touch(&second.path().join("agent"), 0o755);
        assert_eq!(find().unwrap(), second.path().join("agent"));
    }

    #[test]
    fn a_relative_path_starts_at_the_working_directory_and_a_name_does_not() {
        let home = tempfile::tempdir().unwrap();
        touch(&home.path().join("agent"), 0o755);
        assert_eq!(
            find(Path::new("./agent"), home.path(), OsStr::new("")).unwrap(),
            home.path().join("./agent")
        );
        let by_name = find(Path::new("agent"), home.path(), OsStr::new(".:"));
        assert!(matches!(by_name, Err(FailureReason::ProgramNotFound { .. })));
    }

    #[test]
    fn a_directory_is_not_a_program() {
        assert!(matches!(
            find(Path::new("/"), Path::new("/"), OsStr::new("")),
            Err(FailureReason::NotExecutable { .. })
        ));
    }
}

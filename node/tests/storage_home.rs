//! A home is made closed, refused when it is open to others, used by one process, and never loses its database quietly.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mesh_node::home::{Home, HomeError};
use mesh_node::storage::DatabaseError;
use tempfile::TempDir;

const HOME: &str = "LOCK_TEST_HOME";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).map(|found| found.permissions().mode() & 0o777).unwrap_or_default()
}

#[test]
fn a_home_is_where_the_environment_says() {
    let with = |set: &[(&str, &str)]| {
        let find =
            |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        Home::locate(find)
    };
    let all = [("MESH_HOME", "/m"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
    assert_eq!(with(&all).unwrap(), Path::new("/m"));
    assert_eq!(with(&all[1..]).unwrap(), Path::new("/x/mesh"));
    assert_eq!(
        with(&[("MESH_HOME", ""), ("XDG_DATA_HOME", "x"), ("HOME", "/h")]).unwrap(),
        Path::new("/h/.local/share/mesh")
    );
    assert!(matches!(with(&[]), Err(HomeError::Nowhere)));
}

#[test]
fn a_home_and_its_parts_are_made_for_this_user_alone() {
    let directory = TempDir::new().unwrap();
    let home = Home::open(&directory.path().join("a/b")).unwrap();
    for made in [home.root().to_owned(), home.tokens(), home.run(), directory.path().join("a")] {
        assert_eq!(mode(&made), 0o700, "{}", made.display());
    }
    assert_eq!(Home::open(home.root()).unwrap(), home);
    let lock = home.lock().unwrap();
    drop(home.open_database(&lock).unwrap());
    assert_eq!(mode(&home.database_file()), 0o600);
}

#[test]
fn a_home_that_others_can_enter_is_refused_with_what_to_do() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("open");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("file"), b"").unwrap();
    for open in [0o755, 0o710, 0o702] {
        fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
        let error = Home::open(&path).unwrap_err();
        assert!(matches!(error, HomeError::OpenToOthers { mode, .. } if mode == open), "{error:?}");
        assert!(error.hint().starts_with("run `chmod 700 "));
    }
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    Home::open(&path).unwrap();
}

#[test]
fn an_empty_directory_is_closed_unless_others_can_write_to_it() {
    let directory = TempDir::new().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o722)).unwrap();
    assert!(matches!(Home::open(directory.path()), Err(HomeError::OpenToOthers { .. })));
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    Home::open(directory.path()).unwrap();
    assert_eq!(mode(directory.path()), 0o700);
}

#[test]
fn a_file_is_not_a_home() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(Home::open(file.path()).is_err());
}

#[test]
fn a_socket_can_be_bound_however_deep_the_home_is() {
    let directory = TempDir::new().unwrap();
    let runtime = directory.path().join("r");
    for depth in [1, 200] {
        let home = Home::open(&directory.path().join("d".repeat(depth))).unwrap();
        let variable = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| runtime.clone().into_os_string());
        let socket = home.socket(variable).unwrap();
        UnixListener::bind(&socket).unwrap();
        assert_eq!(mode(socket.parent().unwrap()), 0o700);
        assert_eq!(home.socket(variable).unwrap(), socket);
    }
}

#[test]
fn a_socket_directory_that_others_can_enter_is_refused() {
    let directory = TempDir::new().unwrap();
    let runtime = directory.path().join("r");
    fs::create_dir_all(runtime.join("mesh")).unwrap();
    fs::set_permissions(runtime.join("mesh"), Permissions::from_mode(0o777)).unwrap();
    let home = Home::open(&directory.path().join("d".repeat(200))).unwrap();
    let error = home.socket(|_| Some(runtime.clone().into_os_string())).unwrap_err();
    assert!(matches!(error, HomeError::OpenToOthers { .. }));
}

#[test]
fn a_home_with_an_identity_never_starts_with_an_empty_database() {
    let directory = TempDir::new().unwrap();
    let home = Home::open(directory.path()).unwrap();
    let lock = home.lock().unwrap();
    drop(home.open_database(&lock).unwrap());
    fs::write(home.key_file(), b"key").unwrap();
    drop(home.open_database(&lock).unwrap());
    fs::remove_file(home.database_file()).unwrap();
    let error = home.open_database(&lock).unwrap_err();
    assert!(matches!(&error, DatabaseError::Missing { path } if *path == home.database_file()));
    assert!(!home.database_file().exists());
}

/// Holds the lock of a home until its standard input ends.
#[test]
#[ignore = "the child of the test below; it waits for its parent"]
fn child() {
    let Some(home) = std::env::var_os(HOME).map(PathBuf::from) else { return };
    let _lock = Home::open(&home).unwrap().lock().unwrap();
    std::io::stdout().write_all(b"locked\n").unwrap();
    let _ = std::io::stdin().lines().count();
}

#[test]
fn a_second_process_is_refused_and_told_which_one_has_the_home() {
    let directory = TempDir::new().unwrap();
    let home = Home::open(directory.path()).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(HOME, home.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("locked")));
    let error = home.lock().unwrap_err();
    assert!(matches!(error, HomeError::InUse { pid, .. } if pid == Some(child.id())), "{error:?}");
    assert!(error.to_string().contains(&format!("process {}", child.id())));

    child.kill().unwrap();
    child.wait().unwrap();
    let lock = home.lock().unwrap();
    assert!(matches!(home.lock(), Err(HomeError::InUse { pid, .. }) if pid == Some(std::process::id())));
    drop(lock);
    home.lock().unwrap();
}

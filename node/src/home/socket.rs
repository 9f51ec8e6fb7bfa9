//! Where the Unix socket is.
//!
//! A socket's path has room for 107 bytes (unix(7)), less than many a home directory takes. When the one in the home
//! does not fit, the socket is in the user's runtime directory, or in a directory of the user's own under `/tmp`, under
//! a name made from the home's path.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::limits::SOCKET_PATH_BYTES_MAX;

/// Bytes of the hash in the name of a socket outside its home: enough that two homes of one user never meet.
const NAME_HASH_BYTES: usize = 8;

/// The socket's path for a home's `run` directory and the user's runtime directory.
pub(super) fn place(run: &Path, runtime: Option<PathBuf>) -> PathBuf {
    let fits = |path: &PathBuf| path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX;
    let hash = Sha256::digest(run.as_os_str().as_bytes());
    let hash = HEXLOWER.encode(hash.get(..NAME_HASH_BYTES).unwrap_or_default());
    let outside = |directory: PathBuf| directory.join(format!("{hash}.sock"));
    let runtime = runtime.filter(|path| path.is_absolute()).map(|path| outside(path.join("mesh")));
    let user = rustix::process::geteuid().as_raw();
    [Some(run.join("mesh.sock")), runtime]
        .into_iter()
        .flatten()
        .find(fits)
        .unwrap_or_else(|| outside(PathBuf::from(format!("/tmp/mesh-{user}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deep() -> PathBuf {
        PathBuf::from("/").join("d".repeat(200)).join("run")
    }

    #[test]
    fn a_short_home_has_its_socket_inside() {
        assert_eq!(place(Path::new("/h/run"), None), Path::new("/h/run/mesh.sock"));
    }

    #[test]
    fn a_deep_home_has_its_socket_in_the_runtime_directory_or_under_tmp() {
        let runtime = place(&deep(), Some("/run/user/7".into()));
        assert!(runtime.starts_with("/run/user/7/mesh"));
        for unusable in [None, Some(deep()), Some("relative".into())] {
            let tmp = place(&deep(), unusable);
            assert!(tmp.starts_with("/tmp"), "{tmp:?}");
            assert!(tmp.as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
            assert_eq!(tmp.file_name(), runtime.file_name());
        }
    }

    #[test]
    fn the_longest_path_that_fits_is_used() {
        let run = PathBuf::from(format!("/{}", "d".repeat(SOCKET_PATH_BYTES_MAX - "//mesh.sock".len())));
        assert_eq!(place(&run, None).as_os_str().len(), SOCKET_PATH_BYTES_MAX);
        assert!(place(&run, None).starts_with(&run));
    }
}

//! Reads what a job left. Nothing of the job is alive, so what a path is cannot change between two looks.
//!
//! Only a regular file with one name, reached without a symbolic link and small enough, is taken.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::control::{Answer, missing};

/// Do not follow a symbolic link; open(2). Its number differs between processors.
const O_NOFOLLOW: i32 = if cfg!(target_arch = "aarch64") { 0o100_000 } else { 0o400_000 };
/// Do not wait for the other end of a pipe.
const O_NONBLOCK: i32 = 0o4000;

/// The file at `path` below `top`, if it may be taken and has at most `most` bytes.
pub(super) fn read(top: &Path, path: &str, most: u64) -> Answer {
    take(top, path, most).map_or_else(Answer::Missing, Answer::Output)
}

fn take(top: &Path, path: &str, most: u64) -> Result<Vec<u8>, u8> {
    let full = top.join(path);
    let mut directory = top.to_owned();
    for name in Path::new(path).parent().into_iter().flatten() {
        directory.push(name);
        if !fs::symlink_metadata(&directory).map_err(|error| reason(&error))?.is_dir() {
            return Err(missing::NOT_A_FILE);
        }
    }
    let metadata = fs::symlink_metadata(&full).map_err(|error| reason(&error))?;
    if !metadata.is_file() {
        return Err(missing::NOT_A_FILE);
    }
    if metadata.nlink() != 1 {
        return Err(missing::LINKED);
    }
    if metadata.len() > most {
        return Err(missing::TOO_LARGE);
    }
    let open = File::options().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(&full);
    let mut contents = Vec::new();
    open.and_then(|file| file.take(most).read_to_end(&mut contents)).map_err(|error| reason(&error))?;
    Ok(contents)
}

fn reason(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => missing::ABSENT,
        _ => missing::UNREADABLE,
    }
}

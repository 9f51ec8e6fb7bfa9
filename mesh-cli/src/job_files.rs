//! Files of jobs on this machine: those that go in, and where those that come out are saved.
//!
//! What comes out is a job's, so its paths are looked at as hostile once more, and nothing that is there is replaced.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use mesh_protocol::api::job::OutputView;
use mesh_protocol::job::{Contents, FILE_BYTES_MAX, InputFile};

use crate::args::InputArg;
use crate::failure::Failure;
use crate::foreign;
use crate::input::{InputError, Source};
use crate::invocation::Invocation;

/// Where a job's files lie, for the job.
const OUTPUT: &str = "output/";

/// Reads the files that go in.
pub(crate) async fn read(inputs: &[InputArg]) -> Result<Vec<InputFile>, Failure> {
    let mut files = Vec::new();
    for InputArg { name, file } in inputs {
        let bytes = Source::File(file.clone()).bytes(FILE_BYTES_MAX).await?;
        files.push(InputFile { path: format!("input/{name}"), content: Contents(bytes) });
    }
    Ok(files)
}

/// A file that is asked for, as the job is told: `--output a.csv` and `--output output/a.csv` are one.
pub(crate) fn output_path(name: &str) -> String {
    if name.starts_with(OUTPUT) { name.to_owned() } else { format!("{OUTPUT}{name}") }
}

/// Where a file that was left goes; `None` when its path leads elsewhere.
pub(crate) fn place(dir: &Path, path: &str) -> Option<PathBuf> {
    let below = Path::new(path.strip_prefix(OUTPUT)?);
    let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && below.file_name().is_some()).then(|| dir.join(below))
}

/// Makes sure, before anything runs, that no file is in the way of those that are asked for.
pub(crate) fn check_free(dir: &Path, outputs: &[String]) -> Result<(), Failure> {
    let taken =
        outputs.iter().filter_map(|path| place(dir, path)).find(|path| path.symlink_metadata().is_ok());
    match taken {
        Some(path) => Err(Failure::usage(
            format!("{} is there already", path.display()),
            "move it, or save the files elsewhere with `--output-dir`",
        )),
        None => Ok(()),
    }
}

/// Saves what a job left, for its owner alone.
pub(crate) fn save(invocation: &Invocation, files: &[OutputView], dir: &Path) -> Result<(), Failure> {
    for file in files {
        let Some(path) = place(dir, &file.path) else {
            let odd = foreign::line(&file.path);
            invocation.printer.warning(&format!("`{odd}` is not saved: it is no plain path below output/"));
            continue;
        };
        let write = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut options = fs::File::options();
            // Neither replaces what is there nor follows a link.
            let mut saved = options.write(true).create_new(true).mode(0o600).open(&path)?;
            saved.write_all(&file.content_base64.0)
        };
        write().map_err(|source| InputError::Write { path: path.clone(), source })?;
        invocation.printer.note(&format!("saved {}, {} bytes", path.display(), file.size_bytes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_elsewhere_has_no_place() {
        let dir = Path::new("d");
        assert_eq!(place(dir, "output/a/b"), Some("d/a/b".into()));
        for path in ["output/", "output/../a", "output//etc/a", "/etc/a", "input/a", "output/.."] {
            assert_eq!(place(dir, path), None, "{path}");
        }
    }
}

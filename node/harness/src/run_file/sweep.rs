//! Ends what the last owner of a run directory left running.
//!
//! A group is killed only when its leader is still the recorded process: same boot, same number, same start time. The
//! number of a group whose leader has ended could in theory be another's, so such a group is reported and left alone.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::{EXTENSION, HEADING, RunFileError, leader};
use crate::engine::RunName;
use crate::limits::{RUN_FILE_BYTES, SWEEP_FILES};

/// What a sweep found.
#[derive(Debug, Default)]
pub struct SweepReport {
    /// The runs that had not ended when their owner did, by name.
    pub runs: Vec<SweptRun>,
    /// There are more files than [`SWEEP_FILES`]: sweep again.
    pub more: bool,
}

/// A run that a dead owner left.
#[derive(Debug)]
pub struct SweptRun {
    /// Its name, as the owner gave it.
    pub run: RunName,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a run whose owner died. In every case the program may have had effects.
#[derive(Debug)]
pub enum Fate {
    /// It was running, and has been killed.
    Killed,
    /// It had ended by itself, or with the machine.
    Ended,
    /// Its owner died while starting it: whether it runs is not known. The file is removed.
    NotRecorded,
    /// Its leader has ended and others of its group run on. Left alone; the file stays until they are gone.
    LeaderGone {
        /// The process group, for an operator to look at.
        group: i32,
    },
    /// The file is not a run file. It stays.
    Unreadable,
    /// It runs and could not be killed. The file stays.
    NotKilled(io::Error),
}

/// Kills the recorded groups that still run, and removes the files of what is over. Call it before the first run.
///
/// # Errors
/// [`RunFileError::Read`] when the directory cannot be read, [`RunFileError::Process`] when there is no `/proc`.
pub fn sweep(directory: &Path) -> Result<SweepReport, RunFileError> {
    let boot = leader::boot_id().map_err(RunFileError::Process)?;
    let unreadable = |source| RunFileError::Read { path: directory.to_owned(), source };

    let mut report = SweepReport::default();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let Some(run) = run_of(&path) else { continue };
        if report.runs.len() >= SWEEP_FILES {
            report.more = true;
            break;
        }
        let fate = read(&path).map_or(Fate::Unreadable, |record| end(&record, &boot));
        if matches!(fate, Fate::Killed | Fate::Ended | Fate::NotRecorded)
            && let Err(error) = std::fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove a run file");
        }
        tracing::info!(%run, ?fate, "swept a run of a dead owner");
        report.runs.push(SweptRun { run, fate });
    }
    report.runs.sort_by(|a, b| a.run.cmp(&b.run));
    Ok(report)
}

fn run_of(path: &Path) -> Option<RunName> {
    if path.extension()? != EXTENSION {
        return None;
    }
    RunName::new(path.file_stem()?.to_str()?).ok()
}

/// What a run file says.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    boot: String,
    /// The group and its leader's start time; `None` when its owner died before it knew.
    group: Option<(Pid, u64)>,
}

fn read(path: &Path) -> Option<Record> {
    let mut text = String::new();
    File::open(path).ok()?.take(RUN_FILE_BYTES).read_to_string(&mut text).ok()?;
    parse(&text)
}

/// A file that ends early is one whose owner died early.
fn parse(text: &str) -> Option<Record> {
    let mut lines = text.split_inclusive('\n').map_while(|line| line.strip_suffix('\n'));
    let early = Record { boot: String::new(), group: None };
    match lines.next() {
        None => return HEADING.starts_with(text).then_some(early),
        Some(heading) if heading != HEADING => return None,
        Some(_) => {}
    }
    let Some(boot) = lines.next() else { return Some(early) };
    let boot = boot.strip_prefix("boot ")?.to_owned();
    let group = lines.next().map(parse_group);
    // A group that is there and makes no sense is not the same as none.
    if group == Some(None) { None } else { Some(Record { boot, group: group.flatten() }) }
}

fn parse_group(line: &str) -> Option<(Pid, u64)> {
    let (group, started) = line.strip_prefix("group ")?.split_once(' ')?;
    // Signals to group 1 go to every process there is.
    let group = group.parse().ok().filter(|&group: &i32| group > 1)?;
    Some((Pid::from_raw(group)?, started.parse().ok()?))
}

fn end(record: &Record, boot: &str) -> Fate {
    let Some((group, started)) = record.group else { return Fate::NotRecorded };
    if record.boot != boot {
        return Fate::Ended;
    }
    match leader::start_time(group.as_raw_nonzero().get()) {
        Ok(Some(found)) if found == started => kill(group),
        Ok(Some(_another)) => Fate::Ended,
        Ok(None) if test_kill_process_group(group) == Err(Errno::SRCH) => Fate::Ended,
        Ok(None) => Fate::LeaderGone { group: group.as_raw_nonzero().get() },
        Err(error) => Fate::NotKilled(error),
    }
}

fn kill(group: Pid) -> Fate {
    match kill_process_group(group, Signal::KILL) {
        Ok(()) => Fate::Killed,
        Err(Errno::SRCH) => Fate::Ended,
        Err(error) => Fate::NotKilled(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cut_anywhere_is_a_start_that_was_not_finished() {
        let whole = format!("{HEADING}\nboot b\ngroup 4711 99\n");
        assert_eq!(parse(&whole).unwrap().group, Some((Pid::from_raw(4711).unwrap(), 99)));
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]).map(|record| record.group), Some(None), "cut at {cut}");
        }
    }

    #[test]
    fn a_file_that_is_not_ours_names_no_group() {
        for text in ["other\n", "mesh-run 2\nboot b\ngroup 5 5\n"] {
            assert_eq!(parse(text), None);
        }
        for group in ["1 5", "0 5", "-1 5", "-7 5", "99999999999 5", "7", "7 x", "7 5 5"] {
            assert_eq!(parse(&format!("{HEADING}\nboot b\ngroup {group}\n")), None, "{group}");
        }
    }
}

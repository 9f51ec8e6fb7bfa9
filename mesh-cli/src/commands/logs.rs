//! `logs`: the end of what the node in the background wrote.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::args::LogsArgs;
use crate::daemon;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::InputError;
use crate::invocation::Invocation;
use crate::printer::Stream;

/// Bytes from the end of the log that are looked at: a few thousand lines.
const TAIL_BYTES_MAX: u64 = 1024 * 1024;

/// Prints the last lines.
pub(crate) async fn logs(invocation: &Invocation, args: &LogsArgs) -> Result<Exit, Failure> {
    let path = daemon::log_file(&invocation.home()?);
    match tail(&path, args.lines) {
        Ok(text) => invocation.printer.foreign(Stream::Out, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            invocation.printer.note("no node has run in the background here");
        }
        Err(source) => return Err(InputError::Read { path, source }.into()),
    }
    Ok(Exit::Done)
}

/// The last lines of a file, each ended.
pub(crate) fn tail(path: &Path, lines: usize) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let skipped = text.lines().count().saturating_sub(lines);
    Ok(text.lines().skip(skipped).map(|line| format!("{line}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "one\ntwo\nthree").unwrap();
        assert_eq!(tail(&path, 2).unwrap(), "two\nthree\n");
        assert_eq!(tail(&path, 9).unwrap(), "one\ntwo\nthree\n");
    }
}

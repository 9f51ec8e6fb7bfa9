//! Lines that a command reads, each for itself: from a file, or from standard input where the command line says `-`.
//!
//! A group is what is there without waiting, so a program that writes a line now and then is not kept waiting for more.
//! Reading is bounded, and off the thread that listens for Ctrl-C.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use mesh_protocol::limits::{BODY_BYTES_MAX, SEND_BATCH_MAX};

use crate::input::{InputError, Source};

/// Bytes read ahead: a group has hardly more, or one longer line.
const READ_AHEAD_BYTES: usize = 1024 * 1024;

/// A line and its number, from 1.
pub(crate) type Numbered = (u64, String);

/// The lines of one source, in order. Those with nothing in them are passed over; they count all the same.
pub(crate) struct Lines {
    reader: BufReader<Box<dyn Read + Send>>,
    last: u64,
    source: Option<Source>,
    /// What is wrong with the line after the last.
    wrong: Option<InputError>,
}

impl Lines {
    /// The lines of a text, or of where it is.
    ///
    /// # Errors
    /// [`InputError`] when a file is not there.
    pub(crate) fn of(text: Result<String, Source>) -> Result<Self, InputError> {
        let source = text.as_ref().err().cloned();
        let reader: Box<dyn Read + Send> = match text {
            Ok(text) => Box::new(Cursor::new(text)),
            Err(Source::Stdin) => Box::new(io::stdin()),
            Err(Source::File(path)) => {
                let open = File::open(&path);
                Box::new(open.map_err(|source| InputError::Read { path, source })?)
            }
        };
        let reader = BufReader::with_capacity(READ_AHEAD_BYTES, reader);
        Ok(Self { reader, last: 0, source, wrong: None })
    }

    /// The next group, at most [`SEND_BATCH_MAX`] lines; none at the end.
    ///
    /// # Errors
    /// [`InputError`] of a line that is wrong, once all before it were given.
    pub(crate) async fn next(mut self) -> Result<(Self, Vec<Numbered>), InputError> {
        let read = tokio::task::spawn_blocking(move || {
            let group = self.read_group()?;
            Ok((self, group))
        });
        read.await.map_err(|gone| InputError::Stdin(io::Error::other(gone)))?
    }

    fn read_group(&mut self) -> Result<Vec<Numbered>, InputError> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        let mut group = Vec::new();
        while group.is_empty() || (group.len() < SEND_BATCH_MAX && self.reader.buffer().contains(&b'\n')) {
            match self.read_line() {
                Ok(None) => break,
                Ok(Some(line)) => {
                    self.last = self.last.saturating_add(1);
                    if !line.trim().is_empty() {
                        group.push((self.last, line));
                    }
                }
                Err(wrong) if group.is_empty() => return Err(wrong),
                Err(wrong) => {
                    self.wrong = Some(wrong);
                    break;
                }
            }
        }
        Ok(group)
    }

    /// The next line without its end.
    fn read_line(&mut self) -> Result<Option<String>, InputError> {
        let whole = self.source.as_ref().map_or_else(|| "the text".to_owned(), Source::name);
        let what = || format!("line {} of {whole}", self.last.saturating_add(1));
        let mut bytes = Vec::new();
        // One byte more than allowed and the line's end, so that a longer one is seen.
        let bound = u64::try_from(BODY_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(3);
        let read = self.reader.by_ref().take(bound).read_until(b'\n', &mut bytes);
        let unreadable = |source| match &self.source {
            Some(Source::File(path)) => InputError::Read { path: path.clone(), source },
            Some(Source::Stdin) | None => InputError::Stdin(source),
        };
        if read.map_err(unreadable)? == 0 {
            return Ok(None);
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        if bytes.len() > BODY_BYTES_MAX {
            return Err(InputError::TooLarge { what: what(), bytes_max: BODY_BYTES_MAX });
        }
        String::from_utf8(bytes).map(Some).map_err(|_| InputError::NotText { what: what() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn groups(text: String) -> Result<Vec<Vec<Numbered>>, InputError> {
        let (mut lines, mut groups) = (Lines::of(Ok(text))?, Vec::new());
        loop {
            let (rest, group) = lines.next().await?;
            if group.is_empty() {
                return Ok(groups);
            }
            groups.push(group);
            lines = rest;
        }
    }

    #[tokio::test]
    async fn empty_lines_are_passed_over_and_count() {
        let groups = groups("one\r\n\n  \ntwo".to_owned()).await.unwrap();
        assert_eq!(groups.concat(), [(1, "one".to_owned()), (4, "two".to_owned())]);
    }

    #[tokio::test]
    async fn a_group_has_as_many_lines_as_one_request_takes() {
        let groups = groups("x\n".repeat(SEND_BATCH_MAX * 2 + 1)).await.unwrap();
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        assert_eq!(sizes, [SEND_BATCH_MAX, SEND_BATCH_MAX, 1]);
    }

    #[tokio::test]
    async fn a_line_longer_than_a_message_is_named() {
        let whole = "x".repeat(BODY_BYTES_MAX);
        assert_eq!(groups(format!("{whole}\r\n")).await.unwrap().concat()[0].1.len(), BODY_BYTES_MAX);
        let error = groups(format!("short\n{whole}y\n")).await.unwrap_err();
        assert!(error.to_string().starts_with("line 2 of the text has more than"), "{error}");
    }

    #[tokio::test]
    async fn what_comes_before_a_line_that_is_wrong_is_given_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, b"good\n\xff\nafter\n").unwrap();
        let lines = Lines::of(Err(Source::File(path))).unwrap();
        let (lines, group) = lines.next().await.unwrap();
        assert_eq!(group, [(1, "good".to_owned())]);
        assert!(lines.next().await.is_err_and(|error| matches!(error, InputError::NotText { .. })));
    }

    #[tokio::test]
    async fn a_folder_is_no_text_and_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let lines = Lines::of(Err(Source::File(folder.path().to_owned()))).unwrap();
        assert!(lines.next().await.is_err_and(|error| matches!(error, InputError::Read { .. })));
    }
}

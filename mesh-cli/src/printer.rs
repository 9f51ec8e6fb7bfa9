//! The only place that writes to standard output and standard error.
//!
//! Standard output gets what was asked for and nothing else; receipts, progress, hints and errors go to standard
//! error. Styles are taken out where a stream shows none (`NO_COLOR`, `TERM=dumb`, a pipe, `--color never`).
//!
//! A reader that went away is not an error: the rest is not written. Any other failure to write is kept, and reported
//! when the command has ended.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use mesh_protocol::api::Document;
use mesh_protocol::api::error::ApiError;
use serde::Serialize;

use crate::foreign;
use crate::style::{self, BAD, DOUBTFUL, LITERAL};

/// How much is said beside the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// The answer and errors.
    Quiet,
    /// Receipts, notes and hints too.
    Normal,
    /// Logs too.
    Verbose,
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The program's voice.
#[derive(Debug)]
pub(crate) struct Printer {
    color: ColorChoice,
    verbosity: Verbosity,
    json: bool,
    on_second_screen: Cell<bool>,
    failed: RefCell<Option<io::Error>>,
}

impl Printer {
    /// A printer; `color` as the command line says, `json` for documents in place of text.
    #[must_use]
    pub(crate) const fn new(color: ColorChoice, verbosity: Verbosity, json: bool) -> Self {
        Self { color, verbosity, json, on_second_screen: Cell::new(false), failed: RefCell::new(None) }
    }

    /// Whether documents are wanted in place of text.
    pub(crate) const fn json(&self) -> bool {
        self.json
    }

    /// What was asked for: as a document, or as the text that `render` makes of it.
    pub(crate) fn answer<T: Serialize>(&self, answer: &T, render: impl FnOnce(&T) -> String) {
        if self.json { self.document(&Document::from(Ok(answer))) } else { self.text(&render(answer)) }
    }

    /// Text of ours for standard output.
    pub(crate) fn text(&self, text: &str) {
        self.write(Stream::Out, &ended(text));
    }

    /// Text that is not ours, unchanged into a pipe or a file, made safe on a terminal.
    pub(crate) fn foreign(&self, stream: Stream, text: &str) {
        let terminal = match stream {
            Stream::Out => io::stdout().is_terminal(),
            Stream::Err => io::stderr().is_terminal(),
        };
        if terminal {
            self.raw(stream, foreign::block(text).as_bytes())
        } else {
            self.raw(stream, text.as_bytes())
        }
    }

    /// Something worth knowing beside the answer: a receipt, what changed.
    pub(crate) fn note(&self, text: &str) {
        if self.verbosity > Verbosity::Quiet && !self.json {
            self.write(Stream::Err, &ended(text));
        }
    }

    /// Something to do next.
    pub(crate) fn hint(&self, text: &str) {
        self.note(&format!("{} {text}", style::paint(LITERAL, "hint:")));
    }

    /// Something that is probably not as it should be.
    pub(crate) fn warning(&self, text: &str) {
        self.note(&format!("{} {text}", style::paint(DOUBTFUL, "warning:")));
    }

    /// What only someone who watches wants to know.
    pub(crate) fn progress(&self, text: &str) {
        if io::stderr().is_terminal() {
            self.note(text);
        }
    }

    /// A question; the answer is typed behind it.
    pub(crate) fn question(&self, text: &str) {
        self.write(Stream::Err, text);
    }

    /// Why there is no answer: a document on standard output, or an error, its causes and its hints.
    pub(crate) fn failure(&self, error: &ApiError, causes: &[String]) {
        if self.json {
            return self.document(&Document::<()>::from(Err(error.clone())));
        }
        let mut text = format!("{} {}\n", style::paint(BAD, "error:"), foreign::line(&error.message));
        for cause in causes {
            text.push_str(&format!("caused by: {}\n", foreign::line(cause)));
        }
        let candidates = error.candidates.iter().map(|candidate| {
            let known = format!("{} ({})", candidate.full, candidate.reachability);
            format!("could be {}", foreign::line(&known))
        });
        let hints: Vec<String> =
            candidates.chain(error.hints.iter().map(|hint| foreign::line(hint))).collect();
        if self.verbosity > Verbosity::Quiet && !hints.is_empty() {
            text.push('\n');
            for hint in hints {
                text.push_str(&format!("{} {hint}\n", style::paint(LITERAL, "hint:")));
            }
        }
        self.write(Stream::Err, &text);
    }

    /// Why the answer is no, or is not whole; said even when notes are not.
    pub(crate) fn complaint(&self, text: &str) {
        if !self.json {
            self.write(Stream::Err, &ended(text));
        }
    }

    /// Help or a complaint from the argument parser.
    pub(crate) fn usage(&self, stream: Stream, text: &str) {
        self.write(stream, text);
    }

    /// A page that replaces the one before, on a terminal.
    pub(crate) fn page(&self, text: &str) {
        const HOME_AND_CLEAR: &str = "\u{1b}[H\u{1b}[2J";
        if io::stdout().is_terminal() {
            self.raw(Stream::Out, HOME_AND_CLEAR.as_bytes());
        }
        self.text(text);
    }

    /// Turns to the terminal's second screen, so that a watch leaves nothing behind.
    pub(crate) fn enter_second_screen(&self) {
        if io::stdout().is_terminal() && !self.on_second_screen.replace(true) {
            self.raw(Stream::Out, b"\x1b[?1049h");
        }
    }

    /// Turns back, when it was turned to.
    pub(crate) fn leave_second_screen(&self) {
        if self.on_second_screen.replace(false) {
            self.raw(Stream::Out, b"\x1b[?1049l");
        }
    }

    /// The first failure to write that was not a reader gone away.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        self.failed.take()
    }

    fn document<T: Serialize>(&self, document: &Document<T>) {
        match serde_json::to_string(document) {
            Ok(text) => self.raw(Stream::Out, ended(&text).as_bytes()),
            Err(error) => self.remember(error.into()),
        }
    }

    fn write(&self, stream: Stream, text: &str) {
        let written = match stream {
            Stream::Out => write_all(AutoStream::new(io::stdout(), self.color), text.as_bytes()),
            Stream::Err => write_all(AutoStream::new(io::stderr(), self.color), text.as_bytes()),
        };
        written.unwrap_or_else(|error| self.remember(error));
    }

    fn raw(&self, stream: Stream, bytes: &[u8]) {
        let written = match stream {
            Stream::Out => write_all(io::stdout(), bytes),
            Stream::Err => write_all(io::stderr(), bytes),
        };
        written.unwrap_or_else(|error| self.remember(error));
    }

    fn remember(&self, error: io::Error) {
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }
}

fn write_all(mut stream: impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

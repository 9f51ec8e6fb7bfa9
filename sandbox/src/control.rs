//! What the supervisor and the first process of a sandbox say to each other, byte by byte.
//!
//! They share one stream socket. Every message is a length and that many bytes; numbers are little-endian:
//!
//! ```text
//! frame      := length u32, body
//! text       := length u32, bytes
//! assignment := max_pids u64, file_bytes u64, output_bytes u64, code text,
//!               count u32, { path text, contents text }, count u32, { path text }
//! answer     := 1 ready | 2 refused | 3 exited, code u8 | 4 output, contents | 5 missing, reason u8 | 6 done
//! ```
//!
//! ```text
//! init        ready ─────────────────────> exited ──> (output | missing) for each asked for ──> done
//! supervisor         ──> assignment ──>        └── or `refused` instead of ready or exited, and nothing more
//! ```
//!
//! A job that took over its init could say anything. So answers are bounded before they are kept, an answer out of
//! turn or of a wrong shape ends the talk for good, and nothing else in them is believed than what a job may say about
//! itself anyway.
//!
//! Pure, and of the standard library alone: the init is compiled from this file too. Public for the fuzzer.

/// Longest answer, in bytes: one output file of the greatest size, and its tag.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024 + 1;
/// Longest assignment, in bytes: code, inputs, and the paths of both lists.
pub const ASSIGNMENT_BYTES_MAX: usize = 18 * 1024 * 1024;
/// Bytes of a length.
const LENGTH_BYTES: usize = 4;

/// The job, as the init needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment<'a> {
    /// Processes and threads it may have.
    pub max_pids: u64,
    /// Longest file it may write, in bytes.
    pub file_bytes: u64,
    /// All its outputs together, in bytes.
    pub output_bytes: u64,
    /// Its source.
    pub code: &'a [u8],
    /// Paths below `input/` and contents.
    pub inputs: Vec<(&'a str, &'a [u8])>,
    /// Paths below `output/`.
    pub outputs: Vec<&'a str>,
}

/// One message of the init.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The interpreter is started and waits.
    Ready,
    /// The job could not be put in place.
    Refused,
    /// The job's first process ended with this code, 128 + n after signal n, and nothing of the job runs any more.
    Exited(u8),
    /// The next file asked for.
    Output(Vec<u8>),
    /// The next file asked for is not there; the number is one of [`missing`].
    Missing(u8),
    /// There is no more to say.
    Done,
}

/// Why an output is not there, as a number.
pub mod missing {
    /// Nothing has that name.
    pub const ABSENT: u8 = 1;
    /// It is no regular file, or is reached through a symbolic link.
    pub const NOT_A_FILE: u8 = 2;
    /// It has a second name.
    pub const LINKED: u8 = 3;
    /// It is longer than what is left.
    pub const TOO_LARGE: u8 = 4;
    /// It cannot be read.
    pub const UNREADABLE: u8 = 5;
}

/// What an init says that is not the language above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl<'a> Assignment<'a> {
    /// The frame that says it.
    #[must_use]
    pub fn to_frame(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for number in [self.max_pids, self.file_bytes, self.output_bytes] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        put_text(&mut body, self.code);
        put_length(&mut body, self.inputs.len());
        for (path, contents) in &self.inputs {
            put_text(&mut body, path.as_bytes());
            put_text(&mut body, contents);
        }
        put_length(&mut body, self.outputs.len());
        self.outputs.iter().for_each(|path| put_text(&mut body, path.as_bytes()));
        frame(&body)
    }

    /// What the body of a frame says.
    #[must_use]
    pub fn from_body(body: &'a [u8]) -> Option<Self> {
        let mut rest = body;
        let mut assignment = Self {
            max_pids: take_number(&mut rest)?,
            file_bytes: take_number(&mut rest)?,
            output_bytes: take_number(&mut rest)?,
            code: take_text(&mut rest)?,
            ..Self::default()
        };
        for _ in 0..take_length(&mut rest)? {
            let path = std::str::from_utf8(take_text(&mut rest)?).ok()?;
            assignment.inputs.push((path, take_text(&mut rest)?));
        }
        for _ in 0..take_length(&mut rest)? {
            assignment.outputs.push(std::str::from_utf8(take_text(&mut rest)?).ok()?);
        }
        rest.is_empty().then_some(assignment)
    }
}

impl Answer {
    /// The frame that says it.
    #[must_use]
    pub fn to_frame(&self) -> Vec<u8> {
        match self {
            Self::Ready => frame(&[1]),
            Self::Refused => frame(&[2]),
            Self::Exited(code) => frame(&[3, *code]),
            Self::Output(contents) => frame(&[&[4], contents.as_slice()].concat()),
            Self::Missing(reason) => frame(&[5, *reason]),
            Self::Done => frame(&[6]),
        }
    }

    /// What the body of a frame says.
    pub fn from_body(body: &[u8]) -> Result<Self, Broken> {
        match body {
            [1] => Ok(Self::Ready),
            [2] => Ok(Self::Refused),
            [3, code] => Ok(Self::Exited(*code)),
            [4, contents @ ..] => Ok(Self::Output(contents.to_vec())),
            [5, reason @ missing::ABSENT..=missing::UNREADABLE] => Ok(Self::Missing(*reason)),
            [6] => Ok(Self::Done),
            _ => Err(Broken),
        }
    }
}

/// The length at the start of a frame.
#[must_use]
pub fn body_length(header: [u8; LENGTH_BYTES]) -> usize {
    usize::try_from(u32::from_le_bytes(header)).unwrap_or(usize::MAX)
}

fn frame(body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(LENGTH_BYTES + body.len());
    put_text(&mut frame, body);
    frame
}

fn put_length(to: &mut Vec<u8>, length: usize) {
    // Everything said is bounded far below; a longer text would be refused by its reader.
    to.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_text(to: &mut Vec<u8>, text: &[u8]) {
    put_length(to, text.len());
    to.extend_from_slice(text);
}

fn take<'a>(from: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(count)?;
    *from = rest;
    Some(taken)
}

fn take_number(from: &mut &[u8]) -> Option<u64> {
    take(from, 8)?.try_into().ok().map(u64::from_le_bytes)
}

fn take_length(from: &mut &[u8]) -> Option<usize> {
    take(from, LENGTH_BYTES)?.try_into().ok().map(body_length)
}

fn take_text<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_length(from)?;
    take(from, length)
}

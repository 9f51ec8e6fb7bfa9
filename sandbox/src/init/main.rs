//! The first process of every sandbox: starts the interpreter as the job's user, hands it one job, and says what
//! became of it.
//!
//! It is a program of its own, compiled by this crate's build script into one static file without dependencies and put
//! into every root file system. It runs as user 0 of the guest with the three capabilities it needs (to become another
//! user and to end what that user left), which keeps the job, another user, from ending or tracing it. Where it is no
//! user 0 it is the job's user, and relies on being the first process, which nobody inside can end, and on not being
//! dumpable, which keeps others of its user out of its memory and descriptors.
//!
//! ```text
//! /boot/init CONTROL CODE PROGRAM ARGUMENT…
//!
//! start PROGRAM, which says on 7 that it is up and waits on 4 ──> ready
//! assignment ──> write CODE and inputs, lower the limits of PROGRAM, let it go on
//! PROGRAM ends ──> end all others, become the job's user, read the outputs ──> exited, outputs, done
//! ```
//!
//! Invariants: only this process holds the control socket; it acts with privilege only while no code of the job has
//! run, and then only to kill; when it reads what the job left, nothing of the job is alive and it may read no more
//! than the job could.

#[path = "../control.rs"]
mod control;
mod outputs;
mod system;

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use control::{ASSIGNMENT_BYTES_MAX, Answer, Assignment};

/// The job's working directory, a memory-backed mount that everyone may write to.
const WORK: &str = "/work";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let number = arguments.next().and_then(|number| number.parse().ok());
    let Some(mut control) = number.and_then(system::control_socket) else { return ExitCode::FAILURE };
    let result = serve(&mut control, arguments);
    if let Err(error) = &result {
        // Standard error is the job's; before it runs, what is said there is the platform's.
        eprintln!("init: {error}");
        let _ = control.write_all(&Answer::Refused.to_frame());
    }
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve(control: &mut File, mut arguments: impl Iterator<Item = String>) -> io::Result<()> {
    let (Some(code), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let (input, output) = (Path::new(WORK).join("input"), Path::new(WORK).join("output"));
    make_dir(&input, 0o755)?;
    make_dir(&output, 0o777)?;
    std::env::set_current_dir(WORK)?;
    let mut interpreter = system::start(&program, arguments)?;
    interpreter.wait_until_up()?;
    control.write_all(&Answer::Ready.to_frame())?;

    let body = read_body(control)?;
    let Some(assignment) = Assignment::from_body(&body) else { return Err(io::ErrorKind::InvalidData.into()) };
    write_readable(Path::new(&code), assignment.code)?;
    for (path, contents) in &assignment.inputs {
        let path = input.join(path);
        make_parents(&path, &input)?;
        write_readable(&path, contents)?;
    }
    interpreter.limit(assignment.max_pids, assignment.file_bytes)?;
    let status = interpreter.run_to_its_end()?;
    system::end_everything_else();
    system::become_the_jobs_user()?;
    control.write_all(&Answer::Exited(status).to_frame())?;
    let mut left = assignment.output_bytes;
    for path in &assignment.outputs {
        let answer = outputs::read(&output, path, left);
        if let Answer::Output(contents) = &answer {
            left -= contents.len() as u64;
        }
        control.write_all(&answer.to_frame())?;
    }
    control.write_all(&Answer::Done.to_frame())
}

fn read_body(control: &mut File) -> io::Result<Vec<u8>> {
    let mut header = [0; 4];
    control.read_exact(&mut header)?;
    let length = control::body_length(header);
    if length > ASSIGNMENT_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    control.read_exact(&mut body)?;
    Ok(body)
}

/// Makes a directory with exactly this mode, whatever the mask.
fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Makes the directories between `top` and `path`.
fn make_parents(path: &Path, top: &Path) -> io::Result<()> {
    let missing: Vec<PathBuf> = path
        .ancestors()
        .skip(1)
        .take_while(|parent| *parent != top && !parent.exists())
        .map(Path::to_owned)
        .collect();
    missing.iter().rev().try_for_each(|parent| make_dir(parent, 0o755))
}

/// Writes a file that everyone may read and nobody may change.
fn write_readable(path: &Path, contents: &[u8]) -> io::Result<()> {
    fs::write(path, contents)?;
    fs::set_permissions(path, Permissions::from_mode(0o444))
}

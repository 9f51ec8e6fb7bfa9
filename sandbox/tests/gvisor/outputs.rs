//! Files that jobs leave: what is taken, what is not, and that nothing else comes with it.

use std::path::PathBuf;

use mesh_sandbox::limits::OUTPUT_FILES_BYTES_MAX;
use mesh_sandbox::{Cancel, Job, JobObserver, JobReport, KilledBy, Language, MissingReason, Outcome, Stream};

use crate::fixture::{Fixture, all_die, hold_processes_naming, input, open};

fn run(fixture: &Fixture, language: Language, code: &str, outputs: &[&str]) -> JobReport {
    let outputs = outputs.iter().map(|&path| path.to_owned()).collect();
    fixture.run_job(&Job { outputs, ..Job::new(language, code) }).0
}

fn contents<'a>(report: &'a JobReport, path: &str) -> &'a [u8] {
    &report.artifacts.iter().find(|file| file.path == path).unwrap().contents
}

fn missing(report: &JobReport) -> Vec<(&str, MissingReason)> {
    report.missing_outputs.iter().map(|one| (one.path.as_str(), one.reason)).collect()
}

#[test]
fn declared_outputs_come_back_byte_for_byte_and_undeclared_ones_do_not() {
    let Some(fixture) = open() else { return };
    for (language, code) in [
        (
            Language::Python,
            "import os\nos.makedirs('output/a/b')\nopen('output/a/b/c', 'wb').write(bytes(range(256)) * 4096)\n\
             open('output/empty', 'w')\nopen('output/other', 'w').write('x')",
        ),
        (
            Language::Node,
            "const fs = require('fs'); fs.mkdirSync('output/a/b', { recursive: true });\
             fs.writeFileSync('output/a/b/c', Buffer.from(Array.from({ length: 1 << 20 }, (_, i) => i % 256)));\
             fs.writeFileSync('output/empty', ''); fs.writeFileSync('output/other', 'x')",
        ),
        (
            Language::Bash,
            "umask 077; mkdir -p output/a/b; : > output/empty; echo x > output/other
             for i in {0..255}; do printf -v hex %x $i; printf \"\\\\x$hex\"; done > output/a/b/c
             for i in {1..12}; do cat output/a/b/c output/a/b/c > /tmp/twice; mv /tmp/twice output/a/b/c; done",
        ),
    ] {
        let report = run(&fixture, language, code, &["a/b/c", "empty"]);
        assert_eq!((report.outcome, report.killed_by), (Outcome::Succeeded, None), "{report:?}");
        let expected: Vec<u8> = (0..1 << 20).map(|index| u8::try_from(index % 256).unwrap()).collect();
        assert!(contents(&report, "a/b/c") == expected, "{language}");
        assert!(contents(&report, "empty").is_empty());
        assert_eq!((report.artifacts.len(), missing(&report)), (2, vec![]));
    }
}

#[test]
fn a_success_without_its_output_is_an_error_and_a_failure_stays_one() {
    let Some(fixture) = open() else { return };
    let report = run(&fixture, Language::Bash, "echo x > output/there", &["there", "gone"]);
    assert_eq!(
        (report.outcome, report.killed_by, report.exit_code),
        (Outcome::Error, Some(KilledBy::RequestedOutputUnavailable), Some(0))
    );
    assert_eq!(contents(&report, "there"), b"x\n");
    assert_eq!(missing(&report), [("gone", MissingReason::Absent)]);

    let report = run(&fixture, Language::Bash, "echo x > output/there; exit 4", &["there", "gone"]);
    assert_eq!((report.outcome, report.killed_by, report.exit_code), (Outcome::Failed, None, Some(4)));
    assert_eq!(contents(&report, "there"), b"x\n");
    assert_eq!(missing(&report), [("gone", MissingReason::Absent)]);
}

#[test]
fn a_job_that_was_ended_hands_nothing_over() {
    let Some(fixture) = open() else { return };
    let limits = mesh_sandbox::RequestedLimits { wall_seconds: Some(1), ..Default::default() };
    let code = "echo x > output/there; sleep 30";
    let job = Job { limits, outputs: vec!["there".to_owned()], ..Job::new(Language::Bash, code) };
    let (report, _) = fixture.run_job(&job);
    assert_eq!((report.outcome, report.killed_by), (Outcome::TimedOut, Some(KilledBy::Wall)));
    assert_eq!(missing(&report), [("there", MissingReason::NotCollected)]);
    assert!(report.artifacts.is_empty());
}

#[test]
fn what_a_sandbox_said_before_it_was_gone_is_heard_to_its_end() {
    /// Holds up whoever serves the job until nothing of it is alive.
    struct Slow {
        jobs: PathBuf,
        outlived: bool,
    }
    impl JobObserver for Slow {
        fn output(&mut self, _: Stream, _: &[u8]) {
            let processes = hold_processes_naming(&self.jobs);
            self.outlived = !processes.is_empty() && all_die(&processes);
        }
    }
    let Some(fixture) = open() else { return };
    // More than two reads of the socket, and less than it holds.
    let code = "head -c 150000 /dev/zero > output/x; echo";
    let job = Job { outputs: vec!["x".to_owned()], ..Job::new(Language::Bash, code) };
    let mut slow = Slow { jobs: fixture.config.home.join("jobs"), outlived: false };
    let report = fixture.sandbox.run(&job, &Cancel::new().unwrap(), &mut slow).unwrap();
    assert!(slow.outlived, "the sandbox did not end while it was not listened to");
    assert_eq!((report.outcome, report.exit_code), (Outcome::Succeeded, Some(0)), "{report:?}");
    assert_eq!(contents(&report, "x").len(), 150_000);
}

#[test]
fn links_pipes_directories_and_what_is_too_large_are_not_taken() {
    let Some(fixture) = open() else { return };
    let report = run(
        &fixture,
        Language::Python,
        "import os, socket
os.chdir('output')
os.symlink('/etc/passwd', 'absolute'); os.symlink('../input/given', 'relative')
os.symlink('/proc/self/root', 'way'); os.mkdir('real'); os.symlink('real', 'alias')
open('real/file', 'w').write('x')
open('one', 'w').write('x'); os.link('one', 'two')
os.mkdir('dir')
try: os.mkfifo('pipe')
except PermissionError: pass
socket.socket(socket.AF_UNIX).bind('socket')
os.truncate(os.open('sparse', os.O_CREAT | os.O_WRONLY), 15 << 20)
os.truncate(os.open('large', os.O_CREAT | os.O_WRONLY), 2 << 20)
open('set-user-id', 'w').write('s'); os.chmod('set-user-id', 0o6755)
open('closed', 'w').write('c'); os.chmod('closed', 0)",
        &[
            "absolute",
            "relative",
            "way/etc/passwd",
            "alias/file",
            "one",
            "pipe",
            "dir",
            "socket",
            "sparse",
            "large",
            "set-user-id",
            "closed",
            "real/file",
            "real/file/below",
        ][..13],
    );
    use MissingReason::{Absent, Linked, NotAFile, TooLarge, Unreadable};
    assert_eq!(
        missing(&report),
        [
            ("absolute", NotAFile),
            ("relative", NotAFile),
            ("way/etc/passwd", NotAFile),
            ("alias/file", NotAFile),
            ("one", Linked),
            ("pipe", Absent),
            ("dir", NotAFile),
            ("socket", NotAFile),
            ("large", TooLarge),
            ("closed", Unreadable),
        ],
    );
    assert_eq!(report.outcome, Outcome::Error);
    // What is sparse is as long as it says, and within what may be taken.
    assert_eq!(contents(&report, "sparse").len(), 15 << 20);
    assert_eq!(contents(&report, "set-user-id"), b"s");
    assert_eq!(contents(&report, "real/file"), b"x");
}

#[test]
fn outputs_of_exactly_the_greatest_size_are_taken_and_a_byte_more_is_not() {
    let Some(fixture) = open() else { return };
    let most = OUTPUT_FILES_BYTES_MAX;
    let code = format!("open('output/x', 'wb').write(bytes({most}))");
    let report = run(&fixture, Language::Python, &code, &["x"]);
    assert_eq!((report.outcome, contents(&report, "x").len()), (Outcome::Succeeded, most), "{report:?}");
    let code = format!("{code}\nopen('output/y', 'wb').write(b'y')");
    let report = run(&fixture, Language::Python, &code, &["x", "y"]);
    assert_eq!(missing(&report), [("y", MissingReason::TooLarge)]);
}

#[test]
fn what_is_left_running_cannot_change_an_output_any_more() {
    let Some(fixture) = open() else { return };
    let report = run(
        &fixture,
        Language::Python,
        "import os
open('output/x', 'w').write('mine')
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            try: os.rename('output/x', 'output/y'); os.symlink('/etc/passwd', 'output/x'); os.remove('output/x'); os.rename('output/y', 'output/x')
            except OSError: pass
    os._exit(0)",
        &["x"],
    );
    match missing(&report)[..] {
        [] => assert_eq!(contents(&report, "x"), b"mine"),
        // It had just been moved away.
        [("x", reason)] => assert!(matches!(reason, MissingReason::Absent | MissingReason::NotAFile)),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn input_is_found_by_its_relative_path_and_cannot_be_changed() {
    let Some(fixture) = open() else { return };
    let code = "cat input/a/b.txt input/c
        (echo x > input/c) 2> /dev/null || (rm -f input/c) 2> /dev/null || (touch input/new) 2> /dev/null ||
        (mv input input2) 2> /dev/null || (chmod 777 input) 2> /dev/null || cp input/c output/copy
        stat -c '%a %u' input input/a input/c output";
    let job = Job {
        inputs: vec![input("a/b.txt", b"one\n"), input("c", b"two\n")],
        outputs: vec!["copy".to_owned()],
        ..Job::new(Language::Bash, code)
    };
    let (report, log) = fixture.run_job(&job);
    assert_eq!(log.out(), "one\ntwo\n755 0\n755 0\n444 0\n777 0\n", "{}", log.err());
    assert_eq!(contents(&report, "copy"), b"two\n");
}

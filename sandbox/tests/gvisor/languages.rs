//! What a job's author sees: output, exit code, input, files.

use mesh_sandbox::limits::TEXT_BYTES_MAX;
use mesh_sandbox::{Job, Language, Outcome};

use crate::fixture::{input, open};

const HELLO: [(Language, &str); 3] = [
    (Language::Python, "print('hello')"),
    (Language::Node, "console.log('hello')"),
    (Language::Bash, "echo hello"),
];

#[test]
fn hello_prints_exactly_hello_in_every_language() {
    let Some(fixture) = open() else { return };
    for (language, code) in HELLO {
        let (report, log) = fixture.run(language, code);
        assert_eq!((report.outcome, report.exit_code, report.killed_by), (Outcome::Succeeded, Some(0), None));
        assert_eq!((log.out(), log.err(), log.ready), ("hello\n", "", 1), "{language}");
        assert_eq!(report.stdout.bytes_seen, 6);
        assert_eq!(
            report.stdout.raw_sha256,
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
        );
    }
}

#[test]
fn an_exit_code_comes_back_as_it_was_in_every_language() {
    let Some(fixture) = open() else { return };
    for (language, code) in [
        (Language::Python, "import sys; sys.exit(3)"),
        (Language::Node, "process.exit(3)"),
        (Language::Bash, "exit 3"),
    ] {
        let (report, _) = fixture.run(language, code);
        assert_eq!((report.outcome, report.exit_code, report.killed_by), (Outcome::Failed, Some(3), None));
    }
}

#[test]
fn an_exit_with_128_after_ready_is_the_jobs_own() {
    let Some(fixture) = open() else { return };
    let (report, _) = fixture.bash("exit 128");
    assert_eq!((report.outcome, report.exit_code), (Outcome::Failed, Some(128)));
    assert!(report.posture.is_some() && report.diagnostic.is_none());
}

#[test]
fn standard_error_is_kept_apart() {
    let Some(fixture) = open() else { return };
    let (_, log) = fixture.bash("echo out; echo err >&2");
    assert_eq!((log.out(), log.err()), ("out\n", "err\n"));
}

#[test]
fn a_traceback_begins_at_the_jobs_own_code() {
    let Some(fixture) = open() else { return };
    let (report, log) = fixture.python("def f():\n    raise ValueError('mine')\nf()\n");
    assert_eq!(report.exit_code, Some(1));
    assert!(log.err().contains("File \"/job/main.py\", line 3, in <module>"), "{}", log.err());
    assert!(log.err().ends_with("ValueError: mine\n") && !log.err().contains("boot"), "{}", log.err());
    let (_, log) = fixture.python("x = = 1");
    assert!(log.err().contains("SyntaxError") && !log.err().contains("boot"), "{}", log.err());
}

#[test]
fn python_code_is_the_main_module_and_sees_nothing_of_the_boot_file() {
    let Some(fixture) = open() else { return };
    let (_, log) = fixture.python(
        "import sys\nprint(__name__, __file__, sys.argv)\n\
         print(sorted(name for name in globals() if not name.startswith('__')))",
    );
    assert_eq!(log.out(), "__main__ /job/main.py ['/job/main.py']\n['sys']\n");
}

#[test]
fn a_mebibyte_of_input_arrives_unchanged() {
    let Some(fixture) = open() else { return };
    let stdin: Vec<u8> = (0..TEXT_BYTES_MAX).map(|index| u8::try_from(index % 251).unwrap()).collect();
    for (language, code) in [
        (Language::Python, "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"),
        (Language::Node, "process.stdin.pipe(process.stdout)"),
        (Language::Bash, "cat"),
    ] {
        let (report, log) = fixture.run_job(&Job { stdin: stdin.clone(), ..Job::new(language, code) });
        assert_eq!(report.outcome, Outcome::Succeeded);
        assert!(log.stdout == stdin, "{language} changed its input");
        assert!(!report.stdout.truncated);
    }
}

#[test]
fn input_that_is_not_read_delays_nothing() {
    let Some(fixture) = open() else { return };
    let (report, log) =
        fixture.run_job(&Job { stdin: vec![b'x'; TEXT_BYTES_MAX], ..Job::new(Language::Bash, "echo done") });
    assert_eq!((report.outcome, log.out()), (Outcome::Succeeded, "done\n"));
}

#[test]
fn bytes_that_are_no_text_survive() {
    let Some(fixture) = open() else { return };
    let (_, log) = fixture.bash(r"printf '\377\000\376\n'");
    assert_eq!(log.stdout, [0xff, 0, 0xfe, b'\n']);
}

#[test]
fn input_files_are_where_they_should_be_and_cannot_be_changed() {
    let Some(fixture) = open() else { return };
    let job = Job {
        inputs: vec![input("a.txt", b"one"), input("deep/er/b.bin", &[0, 255])],
        ..Job::new(
            Language::Bash,
            "cat input/a.txt; od -An -tx1 input/deep/er/b.bin; pwd
             (echo x > input/a.txt) 2> /dev/null || (echo x > input/new) 2> /dev/null || echo read-only
             echo kept > output/file && cat output/file",
        )
    };
    let (_, log) = fixture.run_job(&job);
    assert_eq!(log.out(), "one 00 ff\n/work\nread-only\nkept\n");
}

#[test]
fn closed_output_and_a_child_left_behind_do_not_delay_the_end() {
    let Some(fixture) = open() else { return };
    for code in ["exec >&- 2>&-; sleep 0.1", "setsid sleep 60 & echo started", "true"] {
        let (report, _) = fixture.bash(code);
        assert_eq!(report.outcome, Outcome::Succeeded, "{code}");
        assert!(report.resource_usage.wall_time_ms < 10_000, "{code}: {:?}", report.resource_usage);
    }
}

#[test]
fn every_language_of_the_capabilities_has_the_version_its_interpreter_printed() {
    let Some(fixture) = open() else { return };
    for support in &fixture.sandbox.capabilities().languages {
        assert!(support.version.starts_with(|first: char| first.is_ascii_digit()), "{support:?}");
    }
    assert!(!fixture.sandbox.capabilities().languages.is_empty());
}

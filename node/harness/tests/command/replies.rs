//! What programs answer, and what is made of it.

use std::time::Duration;

use mesh_harness::limits::{REPLY_BYTES, STDERR_TAIL_BYTES, TASK_BYTES};
use mesh_harness::{Availability, CommandEngine, CommandSpec, Engine, FailureReason, Layer, Secret};

use super::shell::{failure, reply, run, run_script, script, task};

#[tokio::test]
async fn a_program_reads_its_task_and_answers() {
    let text = "Grüße\n\nzwei Zeilen\n";
    assert_eq!(reply(run(CommandSpec::new("cat", "/"), task(text)).await), "Grüße\n\nzwei Zeilen");
}

#[tokio::test]
async fn the_longest_task_passes_while_the_program_talks_on_both_outputs() {
    let count = "head -c 300000 /dev/zero | tr '\\0' e >&2; cat | wc -c";
    let counted = reply(run_script(count, task(&"x".repeat(TASK_BYTES))).await);
    assert_eq!(counted.trim(), TASK_BYTES.to_string());
}

#[tokio::test]
async fn arguments_reach_the_program_without_a_shell() {
    let spec = CommandSpec::new("/bin/echo", "/").with_arguments(["$HOME", "a  b", "; exit 1"]);
    assert_eq!(reply(run(spec, task("")).await), "$HOME a  b ; exit 1");
}

#[tokio::test]
async fn a_program_runs_in_its_working_directory() {
    let home = tempfile::tempdir().unwrap();
    let at = reply(run(script(home.path(), "pwd -P"), task("")).await);
    assert_eq!(std::path::Path::new(&at), home.path().canonicalize().unwrap());
}

#[tokio::test]
async fn an_exit_code_is_a_failure_that_shows_stderr() {
    let failure = failure(run_script("echo half an answer; echo no such file >&2; exit 3", task("")).await);
    assert!(matches!(failure.reason, FailureReason::ExitCode(3)), "{failure:?}");
    assert_eq!((failure.layer(), failure.detail.as_str()), (Layer::Agent, "no such file"));
}

#[tokio::test]
async fn a_signal_is_a_failure() {
    let failure = failure(run_script("kill -SEGV $$", task("")).await);
    assert!(matches!(failure.reason, FailureReason::Signal(11)), "{failure:?}");
}

#[tokio::test]
async fn of_a_long_stderr_the_end_is_shown() {
    let failure = failure(run_script("seq 1 20000 >&2; echo the end >&2; exit 1", task("")).await);
    assert!(failure.detail.ends_with("19999\n20000\nthe end"), "{}", failure.detail);
    assert!((STDERR_TAIL_BYTES - 100..=STDERR_TAIL_BYTES).contains(&failure.detail.len()));
}

#[tokio::test]
async fn a_failure_does_not_repeat_the_runs_secrets() {
    let task = task("").with_variable("TOKEN", Secret::new("tok-12345")).unwrap();
    let failure = failure(run_script("echo \"using $TOKEN\" >&2; exit 1", task).await);
    assert_eq!(failure.detail, "using [redacted]");
    assert!(!format!("{failure:?}").contains("tok-12345"));
}

#[tokio::test]
async fn success_without_a_word_is_a_failure() {
    let failure = failure(run_script("echo; echo; echo thinking >&2", task("")).await);
    assert!(matches!(failure.reason, FailureReason::EmptyReply), "{failure:?}");
    assert_eq!(failure.detail, "thinking");
}

#[tokio::test]
async fn a_reply_that_is_not_text_is_a_failure() {
    let failure = failure(run_script("printf 'a\\377b'", task("")).await);
    assert!(matches!(failure.reason, FailureReason::ReplyNotUtf8), "{failure:?}");
}

#[tokio::test]
async fn a_reply_may_reach_its_limit_and_not_pass_it() {
    let bytes = |count: usize| format!("head -c {count} /dev/zero | tr '\\0' r");
    assert_eq!(reply(run_script(&bytes(REPLY_BYTES), task("")).await).len(), REPLY_BYTES);

    let failure = failure(run_script(&bytes(REPLY_BYTES + 1), task("")).await);
    assert!(matches!(failure.reason, FailureReason::ReplyTooLong), "{failure:?}");
}

#[tokio::test]
async fn endless_output_ends_the_run() {
    let spec = CommandSpec::new("yes", "/").with_time_limit(Duration::from_secs(600));
    let failure = failure(run(spec, task("")).await);
    assert!(matches!(failure.reason, FailureReason::ReplyTooLong), "{failure:?}");
}

#[tokio::test]
async fn a_program_need_not_read_its_task() {
    let long = "x".repeat(1024 * 1024);
    assert_eq!(reply(run_script("echo done", task(&long)).await), "done");
    assert_eq!(reply(run_script("exec 0<&-; echo closed", task(&long)).await), "closed");
}

#[tokio::test]
async fn what_cannot_start_says_why_and_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let plain = home.path().join("plain");
    std::fs::write(&plain, "text").unwrap();

    type Expected = fn(&FailureReason) -> bool;
    let cases: [(CommandSpec, Expected); 4] = [
        (CommandSpec::new("/no/such/agent", "/"), |r| matches!(r, FailureReason::ProgramNotFound { .. })),
        (CommandSpec::new("no-such-agent-anywhere", "/"), |r| {
            matches!(r, FailureReason::ProgramNotFound { .. })
        }),
        (CommandSpec::new(&plain, "/"), |r| matches!(r, FailureReason::NotExecutable { .. })),
        (CommandSpec::new("cat", home.path().join("gone")), |r| {
            matches!(r, FailureReason::NoWorkingDirectory { .. })
        }),
    ];
    for (spec, expected) in cases {
        let engine = CommandEngine::new(spec.clone()).unwrap();
        let Availability::Offline(offline) = engine.probe() else { panic!("online: {spec:?}") };
        let failed = failure(run(spec, task("")).await);
        for failure in [offline, failed] {
            assert!(expected(&failure.reason), "{failure:?}");
            assert_eq!(failure.layer(), Layer::Engine);
            assert!(!failure.remediation().is_empty());
        }
    }
}

#[tokio::test]
async fn a_program_that_is_there_is_online_and_one_the_system_refuses_fails_to_start() {
    let engine = CommandEngine::new(CommandSpec::new("cat", "/")).unwrap();
    assert!(matches!(engine.probe(), Availability::Online));

    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("agent");
    std::fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let failure = failure(run(CommandSpec::new(file, "/"), task("")).await);
    assert!(matches!(failure.reason, FailureReason::Spawn(_)), "{failure:?}");
}

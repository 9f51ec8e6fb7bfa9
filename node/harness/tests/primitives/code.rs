//! `run_code` runs real commands, and leaves none behind.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use mesh_harness::Secret;
use mesh_harness::host::HostEnv;
use mesh_harness::limits::CODE_OUTPUT_BYTES;
use mesh_harness::primitive::{CodeError, CodeRequest, CodeResult, CodeRunner, LocalCode, PrimitiveOptions};
use mesh_harness::stop::Stop;
use mesh_harness::tool::{ToolContext, ToolError};
use serde_json::json;

use crate::{call, call_in, tool, whole};

/// Longer than anything here takes on a busy machine, and shorter than what the commands would.
const PATIENCE: Duration = Duration::from_secs(30);

fn local(workdir: &Path) -> LocalCode {
    LocalCode::new(workdir, [("SECRET".to_owned(), Secret::from("s3cret"))].into(), HostEnv::process())
}

fn shell(line: &str) -> CodeRequest {
    CodeRequest { command: line.into(), ..CodeRequest::default() }
}

async fn run(request: CodeRequest) -> CodeResult {
    let workdir = tempfile::tempdir().unwrap();
    local(workdir.path()).run(request, &Stop::new()).await.unwrap()
}

/// Whether a process of this number is there and has not ended.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or_default().starts_with('Z'))
}

/// Waits until a file of the directory has something in it.
async fn content(file: &Path) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
        assert!(Instant::now() < deadline, "{} stays empty", file.display());
    }
}

async fn gone(pid: &str) {
    let deadline = Instant::now() + PATIENCE;
    while is_alive(pid) {
        assert!(Instant::now() < deadline, "{pid} lives on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_line_goes_to_a_shell_and_arguments_do_not() {
    let result = run(shell("printf '%s' \"a  b\" | tr a c; printf err >&2; exit 3")).await;
    assert_eq!((result.stdout.as_str(), result.stderr.as_str(), result.exit_code), ("c  b", "err", Some(3)));

    let args = vec!["%s".to_owned(), "$HOME; rm *".to_owned()];
    let result = run(CodeRequest { command: "printf".into(), args, stdin: None }).await;
    assert_eq!(result.stdout, "$HOME; rm *");
}

#[tokio::test]
async fn it_runs_in_the_directory_and_reads_what_it_is_given() {
    let workdir = tempfile::tempdir().unwrap();
    let request = CodeRequest { stdin: Some("in\n".into()), ..shell("pwd; cat; echo x > made") };
    let result = local(workdir.path()).run(request, &Stop::new()).await.unwrap();
    let place = workdir.path().canonicalize().unwrap();
    assert_eq!(result.stdout, format!("{}\nin\n", place.display()));
    assert!(workdir.path().join("made").exists());
    assert_eq!(run(shell("cat")).await.stdout, "", "without input there is an end at once");
}

#[tokio::test]
async fn its_environment_is_two_variables_of_the_host_and_the_secrets() {
    let workdir = tempfile::tempdir().unwrap();
    let host = HostEnv::fixed([
        ("PATH", std::env::var("PATH").unwrap()),
        ("HOME", "/nowhere".into()),
        ("FOO_TOKEN", "canary".into()),
        ("ANTHROPIC_API_KEY", "canary".into()),
    ]);
    let runner = LocalCode { host, ..local(workdir.path()) };
    let request = CodeRequest { command: "env".into(), args: vec!["-0".into()], stdin: None };
    let result = runner.run(request, &Stop::new()).await.unwrap();
    let mut names: Vec<&str> =
        result.stdout.split_terminator('\0').map(|line| line.split('=').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "PATH", "SECRET"]);
    assert!(result.stdout.contains("SECRET=s3cret") && !result.stdout.contains("canary"));
    assert!(!format!("{runner:?}").contains("s3cret"));
}

#[tokio::test]
async fn output_is_cut_and_the_command_still_comes_to_its_end() {
    let result = run(shell("yes | head -c 20000000; yes e | head -c 9000000 >&2; exit 7")).await;
    assert_eq!((result.stdout.len(), result.stderr.len()), (CODE_OUTPUT_BYTES, CODE_OUTPUT_BYTES));
    assert_eq!((result.exit_code, result.timed_out), (Some(7), false));
}

#[tokio::test]
async fn input_that_nobody_reads_holds_nothing_up() {
    let request = CodeRequest { stdin: Some("x".repeat(4 * 1024 * 1024)), ..shell("exit 5") };
    let started = Instant::now();
    assert_eq!(run(request).await.exit_code, Some(5));
    assert!(started.elapsed() < PATIENCE);
}

#[tokio::test]
async fn its_time_ends_the_whole_group_and_is_a_result() {
    let workdir = tempfile::tempdir().unwrap();
    // Enough for a shell to begin, on a machine that does much else.
    let runner = LocalCode { time_limit: Duration::from_secs(4), ..local(workdir.path()) };
    let started = Instant::now();
    let result =
        runner.run(shell("sleep 60 & echo $! > child; echo begun; wait"), &Stop::new()).await.unwrap();
    assert_eq!((result.stdout.as_str(), result.exit_code, result.timed_out), ("begun\n", None, true));
    assert!(started.elapsed() < PATIENCE);
    gone(&content(&workdir.path().join("child")).await).await;
}

#[tokio::test]
async fn what_it_leaves_in_the_background_is_ended_with_it() {
    let workdir = tempfile::tempdir().unwrap();
    let result = local(workdir.path()).run(shell("sleep 60 & echo $! > child"), &Stop::new()).await.unwrap();
    assert_eq!(result.exit_code, Some(0));
    gone(&content(&workdir.path().join("child")).await).await;
}

#[tokio::test]
async fn somebody_who_left_the_group_cannot_hold_up_the_result() {
    let workdir = tempfile::tempdir().unwrap();
    let line = "setsid sh -c 'echo $$ > child; exec sleep 60' & while [ ! -s child ]; do :; done; echo done";
    let started = Instant::now();
    let result = local(workdir.path()).run(shell(line), &Stop::new()).await.unwrap();
    assert_eq!((result.stdout.as_str(), result.exit_code), ("done\n", Some(0)));
    assert!(started.elapsed() < PATIENCE);
    let child = content(&workdir.path().join("child")).await;
    std::process::Command::new("kill").arg(child.trim()).status().unwrap();
}

#[tokio::test]
async fn a_stop_ends_the_whole_group_and_names_its_reason() {
    let workdir = tempfile::tempdir().unwrap();
    let mut options = PrimitiveOptions::new(workdir.path());
    options.host = HostEnv::process();
    let run_code = tool(&options, "run_code");
    let context = ToolContext::default();
    let child = workdir.path().join("child");
    let work =
        call_in(&run_code, json!({"command": "sleep 60 & echo $! > child; trap '' TERM; wait"}), &context);
    let stopping = async {
        let pid = content(&child).await;
        context.stop.cancel("enough");
        pid
    };
    let (ended, pid) = tokio::join!(work, stopping);
    let error = ended.unwrap_err();
    assert!(error.is_stop() && whole(&error).contains("enough"), "{error:?}");
    gone(&pid).await;
}

#[tokio::test]
async fn after_a_stop_nothing_is_started() {
    let workdir = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    stop.cancel("before");
    let ended = local(workdir.path()).run(shell("echo > made"), &stop).await;
    assert!(matches!(ended, Err(CodeError::Stopped(_))));
    assert!(!workdir.path().join("made").exists());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_that_names_it() {
    let workdir = tempfile::tempdir().unwrap();
    let run_code = tool(&PrimitiveOptions::new(workdir.path()), "run_code");
    let error = call(&run_code, json!({"command": "no-such-program", "args": ["x"]})).await.unwrap_err();
    assert!(whole(&error).contains("no-such-program"), "{error:?}");
    let error = call(&run_code, json!({"args": []})).await.unwrap_err();
    assert!(whole(&error).contains("command"), "{error:?}");
}

#[tokio::test]
async fn the_model_sees_json() {
    let workdir = tempfile::tempdir().unwrap();
    let run_code = tool(&PrimitiveOptions::new(workdir.path()), "run_code");
    let output = call(&run_code, json!({"command": "printf é; exit 1"})).await.unwrap();
    let seen: serde_json::Value = serde_json::from_str(&output.content).unwrap();
    assert_eq!(seen, json!({"stdout": "é", "stderr": "", "exitCode": 1, "timedOut": false}));
    assert!(!output.is_error, "a command that fails is a result");
}

/// Executes nothing, and remembers what it was asked for.
#[derive(Default)]
struct Elsewhere(Mutex<Vec<CodeRequest>>);

impl CodeRunner for Elsewhere {
    fn run<'a>(&'a self, request: CodeRequest, _: &'a Stop) -> BoxFuture<'a, Result<CodeResult, CodeError>> {
        self.0.lock().unwrap().push(request);
        Box::pin(async { Err(CodeError::Elsewhere("the sandbox is full".into())) })
    }
}

#[tokio::test]
async fn code_can_be_executed_elsewhere() {
    let elsewhere = Arc::new(Elsewhere::default());
    let mut options = PrimitiveOptions::new("/nonexistent");
    options.code = Some(elsewhere.clone());
    let error = call(&tool(&options, "run_code"), json!({"command": "ls"})).await.unwrap_err();
    assert!(matches!(&error, ToolError::Failed(_)) && whole(&error).contains("the sandbox is full"));
    assert_eq!(*elsewhere.0.lock().unwrap(), [shell("ls")]);
}

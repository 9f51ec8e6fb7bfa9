//! Asking again, giving up, and what an error tells.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mesh_harness::host::HostEnv;
use mesh_harness::provider::{
    ConverseOptions, ProviderError, ProviderOptions, ProviderSelection, select_provider,
};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use super::{KEY, NAMES, answering, ask, minimal, provider, provider_with, requests, saying, with_options};
use crate::stand_ins::all_words;

/// An answer that asks to be repeated at once.
fn failing(status: u16) -> ResponseTemplate {
    ResponseTemplate::new(status).insert_header("retry-after-ms", "1")
}

/// A server that fails so often before it answers.
async fn failing_first(name: &str, times: u64, failure: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    let mock = Mock::given(matchers::any()).respond_with(failure);
    mock.up_to_n_times(times).with_priority(1).mount(&server).await;
    let answer = ResponseTemplate::new(200).set_body_json(minimal(name));
    Mock::given(matchers::any()).respond_with(answer).with_priority(2).mount(&server).await;
    server
}

#[tokio::test]
async fn what_fails_for_a_passing_reason_is_asked_again() -> anyhow::Result<()> {
    for name in NAMES {
        let server = failing_first(name, 2, failing(500)).await;
        assert_eq!(ask(&*provider(name, &server), &saying("hello")).await?.text, "hi");
        assert_eq!(requests(&server).await.len(), 3, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_call_may_say_how_often_to_ask_and_the_host_too() {
    for name in NAMES {
        let server = failing_first(name, 9, failing(500)).await;
        let once = ProviderOptions { max_retries: Some(0), ..ProviderOptions::default() };
        assert!(ask(&*provider(name, &server), &with_options(once)).await.is_err());
        assert_eq!(requests(&server).await.len(), 1, "{name}");

        let server = failing_first(name, 9, failing(500)).await;
        let provider = provider_with(name, &server, &[("RUNNER_PROVIDER_MAX_RETRIES", "1")]);
        assert!(ask(&*provider, &saying("hello")).await.is_err());
        assert_eq!(requests(&server).await.len(), 2, "{name}");
    }
}

#[tokio::test]
async fn a_host_may_forbid_repeats() {
    let server = failing_first("openai", 9, failing(500)).await;
    let provider = provider_with("openai", &server, &[("RUNNER_PROVIDER_MAX_RETRIES", "0")]);
    assert!(ask(&*provider, &saying("hello")).await.is_err());
    assert_eq!(requests(&server).await.len(), 1, "0 is a number of repeats");
}

/// A server of which each connection does the next of these; it says how each ended.
async fn connections<F: Future<Output = ()> + Send + 'static>(
    each: impl Fn(usize, TcpStream) -> F + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        for number in 0.. {
            let Ok((socket, _)) = listener.accept().await else { break };
            tokio::spawn(each(number, socket));
        }
    });
    format!("http://{address}")
}

/// A local provider at this address.
fn local(base: &str) -> Arc<dyn mesh_harness::provider::Provider> {
    let host = HostEnv::fixed([("LOCAL_MODEL_BASE_URL", base)]);
    select_provider(&ProviderSelection::of("local"), &host).expect("it is whole")
}

#[tokio::test]
async fn a_connection_that_breaks_is_made_again() -> anyhow::Result<()> {
    let base = connections(|number, mut socket| async move {
        if number == 0 {
            return;
        }
        let body = minimal("local").to_string();
        let mut request = [0; 4096];
        let _read = socket.read(&mut request).await;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let _gone = socket.write_all(answer.as_bytes()).await;
    })
    .await;
    assert_eq!(ask(&*local(&base), &saying("hello")).await?.text, "hi");
    Ok(())
}

#[tokio::test]
async fn a_stop_hangs_up_on_a_server_that_does_not_answer() {
    let (asked, hung_up) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, ended) = (asked.clone(), hung_up.clone());
    let base = connections(move |_, mut socket| {
        let (told, ended) = (told.clone(), ended.clone());
        async move {
            let mut request = [0; 4096];
            while let Ok(1..) = socket.read(&mut request).await {
                told.notify_one();
            }
            ended.notify_one();
        }
    })
    .await;
    let (provider, options, request) = (local(&base), ConverseOptions::default(), saying("hello"));
    let stopping = async {
        asked.notified().await;
        options.stop.cancel("enough");
        Instant::now()
    };
    let (answer, stopped) = tokio::join!(provider.converse(&request, &options), stopping);
    assert!(matches!(answer, Err(ProviderError::Stopped { .. })), "{answer:?}");
    assert!(stopped.elapsed() < Duration::from_secs(5));
    let gone = tokio::time::timeout(Duration::from_secs(10), hung_up.notified()).await;
    assert!(gone.is_ok(), "the connection is still open");
}

#[tokio::test]
async fn what_will_not_pass_is_asked_once() {
    let stays = [failing(400), failing(500).insert_header("x-should-retry", "false")];
    for failure in stays {
        let server = failing_first("openai", 9, failure).await;
        assert!(ask(&*provider("openai", &server), &saying("hello")).await.is_err());
        assert_eq!(requests(&server).await.len(), 1);
    }
    let server = failing_first("openai", 1, failing(400).insert_header("x-should-retry", "true")).await;
    assert!(ask(&*provider("openai", &server), &saying("hello")).await.is_ok());
}

#[tokio::test]
async fn the_servers_wait_is_kept() -> anyhow::Result<()> {
    let slow = ResponseTemplate::new(429).insert_header("retry-after-ms", "50");
    let server = failing_first("anthropic", 1, slow).await;
    let started = Instant::now();
    ask(&*provider("anthropic", &server), &saying("hello")).await?;
    assert!(started.elapsed() >= Duration::from_millis(50));
    Ok(())
}

#[tokio::test]
async fn a_stop_while_waiting_to_ask_again_ends_at_once_and_sends_nothing_more() {
    let slow = ResponseTemplate::new(503).insert_header("retry-after", "300");
    let server = failing_first("openai", 9, slow).await;
    let provider = provider("openai", &server);
    let options = ConverseOptions::default();
    let request = saying("hello");
    let asking = provider.converse(&request, &options);
    let stopping = async {
        while requests(&server).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        options.stop.cancel("enough");
    };
    let started = Instant::now();
    let (answer, ()) = tokio::join!(asking, stopping);
    assert!(matches!(answer, Err(ProviderError::Stopped { .. })), "{answer:?}");
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!(requests(&server).await.len(), 1);
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_is_an_error() {
    for name in NAMES {
        let server = answering(ResponseTemplate::new(200).set_delay(Duration::from_secs(60))).await;
        let host = [("RUNNER_PROVIDER_TIMEOUT_MS", "50"), ("RUNNER_PROVIDER_MAX_RETRIES", "0")];
        let answer = ask(&*provider_with(name, &server, &host), &saying("hello")).await;
        assert!(
            matches!(&answer, Err(ProviderError::Timeout { limit, .. }) if limit.as_millis() == 50),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn no_error_shows_a_key_even_if_the_server_repeats_it() {
    for name in NAMES {
        let words = format!("the key {KEY} is wrong {}", "x".repeat(10_000));
        for body in [json!({"error": {"message": words}}), json!({"error": words}), json!(words)] {
            let server = answering(ResponseTemplate::new(401).set_body_json(body)).await;
            let error = ask(&*provider(name, &server), &saying("hello")).await.expect_err("refused");
            let ProviderError::Status { status: 401, message, .. } = &error else { panic!("{error}") };
            assert!(message.contains("the key ") && message.len() <= 2048, "{}", message.len());
            if name != "local" {
                assert!(!all_words(&error).contains(KEY), "{name}");
            }
        }
        let server = MockServer::start().await;
        let provider = provider_with(name, &server, &[("RUNNER_PROVIDER_MAX_RETRIES", "0")]);
        drop(server);
        let error = ask(&*provider, &saying("hello")).await.expect_err("nobody is there");
        assert!(!all_words(&error).contains(KEY) && !all_words(&error).contains("/base"), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error_and_so_is_one_that_tells_of_an_error() {
    for name in NAMES {
        for (body, is_status) in [("not JSON", false), (r#"{"error": {"message": "no credit"}}"#, true)] {
            let server = answering(ResponseTemplate::new(200).set_body_string(body)).await;
            let error = ask(&*provider(name, &server), &saying("hello")).await.expect_err("no answer");
            assert_eq!(matches!(error, ProviderError::Status { status: 200, .. }), is_status, "{error:?}");
            assert_eq!(matches!(error, ProviderError::Unreadable { .. }), !is_status, "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_a_key() {
    let elsewhere = MockServer::start().await;
    let moved = ResponseTemplate::new(307).insert_header("location", elsewhere.uri());
    let server = answering(moved).await;
    let error = ask(&*provider("openai", &server), &saying("hello")).await.expect_err("moved");
    assert!(matches!(error, ProviderError::Status { status: 307, .. }));
    assert_eq!(requests(&elsewhere).await.len(), 0);
}

#[tokio::test]
async fn a_key_that_cannot_be_sent_is_refused_without_being_shown() {
    let mut selection = ProviderSelection::of("openai");
    selection.credentials.openai = Some("sk-canary\n".into());
    let host = crate::stand_ins::no_host();
    let error = select_provider(&selection, &host).err().expect("not a header");
    assert!(!all_words(&error).contains("canary"), "{error:?}");
}

/// Set in the process that the test below starts.
const INSIDE: &str = "HARNESS_TEST_BEHIND_A_PROXY";

#[tokio::test]
async fn a_proxy_of_the_host_reads_no_plain_prompt() -> anyhow::Result<()> {
    if std::env::var_os(INSIDE).is_some() {
        let server = answering(ResponseTemplate::new(200).set_body_json(minimal("local"))).await;
        ask(&*provider("local", &server), &saying("hello")).await?;
        assert_eq!(requests(&server).await.len(), 1);
        return Ok(());
    }
    let proxy = answering(ResponseTemplate::new(502)).await;
    let mut itself = tokio::process::Command::new(std::env::current_exe()?);
    itself.args(["--exact", "providers::retries::a_proxy_of_the_host_reads_no_plain_prompt", "--nocapture"]);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        itself.env(name, proxy.uri());
    }
    let output = itself.env(INSIDE, "1").env_remove("NO_PROXY").env_remove("no_proxy").output().await?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert_eq!(requests(&proxy).await.len(), 0, "the proxy saw it");
    Ok(())
}

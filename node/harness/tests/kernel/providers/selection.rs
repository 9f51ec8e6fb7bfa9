//! Which provider a run gets, and that it gets no other.

use mesh_harness::host::HostEnv;
use mesh_harness::model::chat_model;
use mesh_harness::provider::{
    Credentials, ProviderError, ProviderSelection, provider_availability, select_provider,
};
use proptest::prelude::*;

use super::{KEY, NAMES, answering_json, ask, minimal, requests, saying};
use crate::stand_ins::no_host;

fn name_of(selection: &ProviderSelection, host: &HostEnv) -> Result<String, ProviderError> {
    select_provider(selection, host).map(|provider| provider.name().to_owned())
}

fn any() -> ProviderSelection {
    ProviderSelection::default()
}

#[test]
fn a_provider_without_its_key_is_an_error_that_names_what_is_missing() {
    let host = HostEnv::fixed([("OPENAI_API_KEY", KEY)]);
    let error = name_of(&ProviderSelection::of("anthropic"), &host).expect_err("no key for it");
    assert!(error.to_string().contains("ANTHROPIC_API_KEY"), "{error}");
    assert!(error.to_string().contains("credentials.anthropic"), "{error}");
    let ProviderError::Credentials(error) = error else { panic!("another error") };
    assert_eq!(error.provider.as_deref(), Some("anthropic"));
    assert_eq!((error.env_var, error.slot), (Some("ANTHROPIC_API_KEY"), Some("credentials.anthropic")));
}

#[test]
fn without_any_key_there_is_no_provider_unless_the_mock_is_allowed() {
    assert!(matches!(name_of(&any(), &no_host()), Err(ProviderError::Credentials(_))));
    let lenient = ProviderSelection { allow_mock_fallback: true, ..any() };
    assert_eq!(name_of(&lenient, &no_host()).ok().as_deref(), Some("mock"));
    let named = ProviderSelection { allow_mock_fallback: true, ..ProviderSelection::of("openai") };
    assert_eq!(name_of(&named, &no_host()).ok().as_deref(), Some("mock"));
}

#[test]
fn the_first_provider_with_a_key_is_taken_and_never_local() {
    let host = |names: &[&str]| HostEnv::fixed(names.iter().map(|&name| (name, "http://127.0.0.1")));
    let first = |names: &[&str]| name_of(&any(), &host(names)).ok();
    assert_eq!(first(&["OPENROUTER_API_KEY", "OPENAI_API_KEY"]).as_deref(), Some("openai"));
    assert_eq!(first(&["OPENROUTER_API_KEY", "ANTHROPIC_API_KEY"]).as_deref(), Some("anthropic"));
    assert_eq!(first(&["OPENROUTER_API_KEY", "LOCAL_MODEL_BASE_URL"]).as_deref(), Some("openrouter"));
    assert_eq!(first(&["LOCAL_MODEL_BASE_URL"]), None);
}

#[test]
fn a_name_nobody_has_is_refused_also_an_empty_one_and_where_the_mock_is_allowed() {
    let host = HostEnv::fixed([("ANTHROPIC_API_KEY", KEY)]);
    for name in ["antropic", "", "gemini", "Anthropic", " local"] {
        let selection = ProviderSelection { allow_mock_fallback: true, ..ProviderSelection::of(name) };
        let error = name_of(&selection, &host).expect_err("there is no such provider");
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
}

#[test]
fn local_needs_an_address_whatever_else_is_allowed() {
    for allow_mock_fallback in [false, true] {
        let selection = ProviderSelection { allow_mock_fallback, ..ProviderSelection::of("local") };
        let error = name_of(&selection, &no_host()).expect_err("no address");
        assert!(error.to_string().contains("LOCAL_MODEL_BASE_URL"), "{error}");
    }
    let host = HostEnv::fixed([("LOCAL_MODEL_BASE_URL", "http://127.0.0.1:1/v1")]);
    let own_keys_only = ProviderSelection { env_fallback: false, ..ProviderSelection::of("local") };
    assert_eq!(name_of(&own_keys_only, &host).ok().as_deref(), Some("local"));
}

#[test]
fn an_address_that_is_none_is_refused() {
    for base in ["", "not an address", "ftp://127.0.0.1", "file:///etc/passwd", "mailto:a@b"] {
        let mut selection = ProviderSelection::of("openai");
        selection.credentials.openai = Some(KEY.into());
        selection.base_urls.insert("openai".into(), base.into());
        assert!(matches!(name_of(&selection, &no_host()), Err(ProviderError::BaseUrl { .. })), "{base}");
        assert!(provider_availability(&selection, &no_host()).is_err());
    }
}

#[test]
fn the_mock_is_reached_by_request_although_there_are_keys() {
    let host = HostEnv::fixed([("ANTHROPIC_API_KEY", KEY)]);
    assert_eq!(name_of(&ProviderSelection::of("mock"), &host).ok().as_deref(), Some("mock"));
}

#[tokio::test]
async fn the_mock_shows_what_it_was_selected_with_and_only_the_end_of_a_key() -> anyhow::Result<()> {
    let mut selection = ProviderSelection::of("mock");
    selection.model = Some("model-9".into());
    selection.credentials.openai = Some("sk-abcdefgh1234".into());
    let mock = select_provider(&selection, &no_host())?;
    let answer = ask(&*mock, &saying("hello")).await?;
    assert!(answer.text.contains("1234") && !answer.text.contains("abcdefgh"), "{}", answer.text);
    assert!(answer.text.contains("model-9 (from the selection)"), "{}", answer.text);
    assert!(answer.usage.is_none() && answer.tool_calls.is_empty());
    assert!(!chat_model(mock.clone()).caps().usage);

    let options = mesh_harness::provider::ConverseOptions::default();
    options.stop.cancel("enough");
    let stopped = mock.converse(&saying("hello"), &options).await;
    assert!(matches!(stopped, Err(ProviderError::Stopped { .. })));
    Ok(())
}

#[tokio::test]
async fn a_provider_that_reports_usage_makes_a_model_that_declares_it() {
    for name in NAMES {
        let server = answering_json(minimal(name)).await;
        assert!(chat_model(super::provider(name, &server)).caps().usage, "{name}");
    }
}

#[tokio::test]
async fn the_callers_key_goes_before_the_hosts_and_may_be_the_only_one() -> anyhow::Result<()> {
    let header = |name: &str| if name == "anthropic" { "x-api-key" } else { "authorization" };
    for (name, variable) in [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
    ] {
        let host = HostEnv::fixed([(variable, "sk-of-the-host")]);
        let own_only = ProviderSelection { env_fallback: false, ..ProviderSelection::of(name) };
        assert!(select_provider(&own_only, &host).is_err(), "the host's key is not for this run");

        for (own, expected) in [(Some(KEY), KEY), (Some(""), "sk-of-the-host"), (None, "sk-of-the-host")] {
            let server = answering_json(minimal(name)).await;
            let key = own.map(Into::into);
            let selection = ProviderSelection {
                credentials: Credentials { anthropic: key.clone(), openai: key.clone(), openrouter: key },
                base_urls: [(name.to_owned(), server.uri())].into(),
                ..ProviderSelection::of(name)
            };
            ask(&*select_provider(&selection, &host)?, &saying("hello")).await?;
            let sent = requests(&server).await;
            let value = sent[0].headers.get(header(name)).expect("a key").to_str()?;
            assert_eq!(value.trim_start_matches("Bearer "), expected);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_local_server_is_shown_a_key_only_if_there_is_one() -> anyhow::Result<()> {
    let server = answering_json(minimal("local")).await;
    let base = server.uri();
    for (settings, expected) in [
        (vec![("LOCAL_MODEL_BASE_URL", base.as_str())], None),
        (vec![("LOCAL_MODEL_BASE_URL", &base), ("LOCAL_MODEL_API_KEY", "k")], Some("Bearer k")),
    ] {
        let host = HostEnv::fixed(settings);
        ask(&*select_provider(&ProviderSelection::of("local"), &host)?, &saying("hello")).await?;
        let sent = requests(&server).await;
        let shown = sent.last().and_then(|request| request.headers.get("authorization"));
        assert_eq!(shown.map(|value| value.to_str()).transpose()?, expected);
    }
    Ok(())
}

#[tokio::test]
async fn the_model_is_the_callers_then_the_hosts_then_the_default() -> anyhow::Result<()> {
    for (own, host, expected) in
        [(Some("mine"), Some("theirs"), "mine"), (None, Some("theirs"), "theirs"), (None, None, "gpt-4.1")]
    {
        let server = answering_json(minimal("openai")).await;
        let mut selection = ProviderSelection::of("openai");
        selection.credentials.openai = Some(KEY.into());
        selection.base_urls.insert("openai".into(), server.uri());
        selection.model = own.map(str::to_owned);
        let host = HostEnv::fixed(host.map(|model| ("OPENAI_MODEL", model)));
        ask(&*select_provider(&selection, &host)?, &saying("hello")).await?;
        assert_eq!(super::body(&server).await["model"], expected);
    }
    Ok(())
}

#[tokio::test]
async fn every_provider_has_a_variable_and_a_default_for_its_model() -> anyhow::Result<()> {
    for (name, variable, default) in [
        ("anthropic", "ANTHROPIC_MODEL", "claude-sonnet-4-6"),
        ("openai", "OPENAI_MODEL", "gpt-4.1"),
        ("openrouter", "OPENROUTER_MODEL", "anthropic/claude-sonnet-4.5"),
        ("local", "LOCAL_MODEL", "local"),
    ] {
        for (set, expected) in [(None, default), (Some((variable, "theirs")), "theirs")] {
            let server = answering_json(minimal(name)).await;
            let key = Some(KEY.into());
            let base = server.uri();
            let selection = ProviderSelection {
                credentials: Credentials { anthropic: key.clone(), openai: key.clone(), openrouter: key },
                base_urls: [(name.to_owned(), base.clone())].into(),
                ..ProviderSelection::of(name)
            };
            let host = HostEnv::fixed(set.into_iter().chain([("LOCAL_MODEL_BASE_URL", base.as_str())]));
            ask(&*select_provider(&selection, &host)?, &saying("hello")).await?;
            assert_eq!(super::body(&server).await["model"], expected, "{name}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_said_to_be_available_is_what_can_be_selected(
        preferred in prop::option::of(prop::sample::select(vec!["anthropic", "openai", "openrouter", "local", "mock", "", "x"])),
        own in prop::array::uniform3(prop::option::of(prop::sample::select(vec!["", "key"]))),
        hosts in prop::sample::subsequence(
            vec!["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "LOCAL_MODEL_BASE_URL"], 0..=4),
        env_fallback: bool,
        allow_mock_fallback: bool,
    ) {
        let [anthropic, openai, openrouter] = own.map(|key| key.map(Into::into));
        let selection = ProviderSelection {
            preferred: preferred.map(str::to_owned),
            credentials: Credentials { anthropic, openai, openrouter },
            env_fallback,
            allow_mock_fallback,
            ..ProviderSelection::default()
        };
        let host = HostEnv::fixed(hosts.iter().map(|&name| (name, "http://127.0.0.1:1")));
        let selected = name_of(&selection, &host);
        prop_assert_eq!(selected.is_ok(), provider_availability(&selection, &host).is_ok());
        if let (Ok(got), Some(asked)) = (&selected, preferred) {
            prop_assert!(got == asked || (got == "mock" && allow_mock_fallback && NAMES.contains(&asked)));
        }
    }
}

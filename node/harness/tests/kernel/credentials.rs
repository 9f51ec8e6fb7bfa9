//! The credential gateway, and what a run in a virtual machine may not hold.

use mesh_harness::agent::{
    AgentEngine as _, EngineContext, EngineSelection, ExposedCredentials, Gateway, Isolation, NativeEngine,
    OpenTools, RunSpec, ToolSource,
};
use mesh_harness::connector::{ConnectorAuth, ConnectorConfig};
use mesh_harness::host::HostEnv;
use mesh_harness::model::BoxError;
use mesh_harness::provider::ProviderSelection;
use mesh_harness::stop::Stop;
use serde_json::json;
use std::sync::Arc;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

const TOKEN: &str = "run-token-1";
const OWN: &str = "sk-canary-own";
const HOST: &str = "sk-canary-host";

/// Connects to nothing.
struct NoServers;

impl ToolSource for NoServers {
    fn name(&self) -> &'static str {
        "connectors"
    }

    fn open<'a>(
        &'a self,
        _: &'a RunSpec,
        _: &'a Stop,
    ) -> futures_util::future::BoxFuture<'a, Result<OpenTools, BoxError>> {
        Box::pin(async { Ok(OpenTools::default()) })
    }
}

fn engine(host: HostEnv) -> NativeEngine {
    NativeEngine::new(EngineSelection {
        host,
        connectors: Some(Arc::new(NoServers)),
        ..EngineSelection::default()
    })
}

fn rich_host() -> HostEnv {
    HostEnv::fixed(["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"].map(|name| (name, HOST)))
}

fn gateway(base_url: &str) -> Gateway {
    Gateway { base_url: base_url.into(), run_token: TOKEN.into(), routes: Default::default() }
}

fn with_own_keys(mut selection: ProviderSelection) -> ProviderSelection {
    selection.credentials.anthropic = Some(OWN.into());
    selection.credentials.openai = Some(OWN.into());
    selection.credentials.openrouter = Some(OWN.into());
    selection
}

#[tokio::test]
async fn through_a_gateway_every_call_shows_the_runs_token_and_no_other_key() -> anyhow::Result<()> {
    for (provider, path) in [
        ("anthropic", "/gw/p/anthropic/v1/messages"),
        ("openai", "/gw/p/openai/chat/completions"),
        ("openrouter", "/elsewhere/chat/completions"),
    ] {
        let server = MockServer::start().await;
        let answer = json!({"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn",
                            "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]});
        Mock::given(matchers::any())
            .respond_with(ResponseTemplate::new(200).set_body_json(answer))
            .mount(&server)
            .await;
        let mut gateway = gateway(&format!("{}/gw/", server.uri()));
        gateway.routes.insert("openrouter".into(), format!("{}/elsewhere", server.uri()));
        let spec = RunSpec {
            provider: with_own_keys(ProviderSelection::of(provider)),
            gateway: Some(gateway),
            ..RunSpec::default()
        };
        let result = engine(rich_host()).run(&spec, EngineContext::default()).await?;
        assert_eq!(result.text, "hi");

        let requests = server.received_requests().await.unwrap_or_default();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].url.path(), path);
        let all = format!("{:?} {}", requests[0].headers, String::from_utf8_lossy(&requests[0].body));
        assert!(!all.contains("canary"), "{all}");
        let header = if provider == "anthropic" { "x-api-key" } else { "authorization" };
        let shown = requests[0].headers.get(header).expect("a key").to_str()?;
        assert_eq!(shown.trim_start_matches("Bearer "), TOKEN);
    }
    Ok(())
}

#[test]
fn a_gateway_that_is_not_whole_is_refused_and_never_ignored() {
    let whole = gateway("http://127.0.0.1:1");
    let mut broken = Vec::new();
    for base_url in ["", "127.0.0.1", "ftp://127.0.0.1", "file:///x"] {
        broken.push(Gateway { base_url: base_url.into(), ..whole.clone() });
    }
    for token in ["", " ", "canary b", "canary\nb", "canary\u{7}"] {
        broken.push(Gateway { run_token: token.into(), ..whole.clone() });
    }
    for (provider, route) in [("gemini", "http://127.0.0.1"), ("openai", "nowhere"), ("", "http://127.0.0.1")]
    {
        let routes = [(provider.to_owned(), route.to_owned())].into();
        broken.push(Gateway { routes, ..whole.clone() });
    }
    let engine = engine(rich_host());
    let supports = |gateway| {
        let spec = RunSpec { provider: ProviderSelection::of("openai"), gateway, ..RunSpec::default() };
        engine.supports(&spec)
    };
    assert!(supports(Some(whole)).is_ok());
    for gateway in broken {
        let refusal = supports(Some(gateway.clone())).expect_err("it is broken").to_string();
        assert!(refusal.contains("gateway"), "{refusal}");
        assert!(!refusal.contains("canary"), "{refusal}");
    }
}

#[test]
fn without_keys_a_gateway_is_enough_and_without_a_gateway_it_is_not() {
    let engine = engine(HostEnv::fixed::<String, String>([]));
    let spec = |gateway| RunSpec { gateway, ..RunSpec::default() };
    assert!(engine.supports(&spec(None)).is_err());
    assert!(engine.supports(&spec(Some(gateway("http://127.0.0.1:1")))).is_ok());
}

fn in_vm(provider: ProviderSelection, gateway: Option<Gateway>) -> RunSpec {
    RunSpec { provider, gateway, isolation: Some(Isolation::Vm), ..RunSpec::default() }
}

#[test]
fn a_virtual_machine_holds_no_raw_key_of_the_caller_or_the_host() {
    let poor = HostEnv::fixed::<String, String>([]);
    let through = || Some(gateway("http://127.0.0.1:1"));
    let openai = || ProviderSelection::of("openai");
    let own_only = |selection| ProviderSelection { env_fallback: false, ..selection };
    let refused = |host: &HostEnv, spec: &RunSpec| engine(host.clone()).supports(spec).is_err();

    assert!(refused(&poor, &in_vm(with_own_keys(openai()), None)), "the caller's key");
    assert!(refused(&rich_host(), &in_vm(openai(), None)), "the host's key");
    assert!(refused(&rich_host(), &in_vm(ProviderSelection::default(), None)));
    assert!(!refused(&rich_host(), &in_vm(with_own_keys(openai()), through())), "a gateway drops them");
    assert!(!refused(&rich_host(), &in_vm(own_only(openai()), through())));
    assert!(!refused(&rich_host(), &in_vm(ProviderSelection::of("mock"), None)), "it would use none");

    let below = RunSpec { isolation: Some(Isolation::Container), ..in_vm(with_own_keys(openai()), None) };
    assert!(!refused(&poor, &below), "below a virtual machine nothing changes");
}

#[test]
fn a_private_run_in_a_virtual_machine_is_held_to_the_same() {
    let host = |key: Option<&'static str>| {
        HostEnv::fixed(
            [("LOCAL_MODEL_BASE_URL", "http://127.0.0.1:1")]
                .into_iter()
                .chain(key.map(|key| ("LOCAL_MODEL_API_KEY", key))),
        )
    };
    for gateway in [None, Some(gateway("http://127.0.0.1:1"))] {
        let spec = RunSpec { private: true, ..in_vm(ProviderSelection::of("local"), gateway) };
        assert!(engine(host(None)).supports(&spec).is_ok());
        assert!(engine(host(Some("k"))).supports(&spec).is_err());
    }
}

#[test]
fn a_virtual_machine_holds_no_credential_in_the_clear_unless_that_is_allowed() {
    let connector = |auth: ConnectorAuth, header: Option<&str>, variable: Option<&str>| ConnectorConfig {
        name: "docs".into(),
        auth,
        headers: header.map(|value| ("x-key".to_owned(), value.into())).into_iter().collect(),
        env: variable.map(|value| ("KEY".to_owned(), value.into())).into_iter().collect(),
        ..ConnectorConfig::default()
    };
    let spec = |change: &dyn Fn(&mut RunSpec)| {
        let mut spec = in_vm(ProviderSelection::of("openai"), Some(gateway("http://127.0.0.1:1")));
        change(&mut spec);
        spec
    };
    let bearer = |token: &str| ConnectorAuth::Bearer(token.into());
    let exposed = [
        spec(&|spec| drop(spec.secrets.insert("TOKEN".into(), "x".into()))),
        spec(&|spec| spec.connectors.push(connector(bearer("x"), None, None))),
        spec(&|spec| spec.connectors.push(connector(ConnectorAuth::None, Some("x"), None))),
        spec(&|spec| spec.connectors.push(connector(ConnectorAuth::None, None, Some("x")))),
    ];
    let routed = [
        spec(&|_| {}),
        spec(&|spec| spec.connectors.push(connector(bearer(TOKEN), None, None))),
        spec(&|spec| spec.connectors.push(connector(bearer(""), Some(""), Some("")))),
    ];
    let engine = engine(rich_host());
    for spec in routed {
        assert!(engine.supports(&spec).is_ok(), "{spec:?}");
    }
    for spec in exposed {
        let refusal = engine.supports(&spec).expect_err("it is in the clear").to_string();
        assert!(refusal.contains("exposed_credentials"), "{refusal}");
        let allowed = RunSpec { exposed_credentials: ExposedCredentials::Allowed, ..spec.clone() };
        assert!(engine.supports(&allowed).is_ok());
        let below = RunSpec { isolation: Some(Isolation::Container), ..spec };
        assert!(engine.supports(&below).is_ok());
    }
}

#[tokio::test]
async fn what_is_refused_is_refused_when_it_is_run_too() {
    let spec = in_vm(with_own_keys(ProviderSelection::of("openai")), None);
    let error = engine(rich_host()).run(&spec, EngineContext::default()).await.expect_err("refused");
    assert!(matches!(error, mesh_harness::agent::EngineError::Refused { .. }));
}

//! `http_fetch` refuses what is inside before it connects. What it does with the public internet is in `network.rs`.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use mesh_harness::host::HostEnv;
use mesh_harness::primitive::{FetchError, FetchRequest, Fetched, Fetcher, Resolve};
use mesh_harness::stop::Stop;

/// Answers with each list of addresses in turn, and with the last one for ever.
pub(crate) struct Scripted {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    pub(crate) asked: AtomicUsize,
}

impl Scripted {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Self> {
        let answers = answers.iter().map(|some| some.iter().map(|text| text.parse().unwrap()).collect());
        Arc::new(Self { answers: Mutex::new(answers.collect()), asked: AtomicUsize::new(0) })
    }
}

impl Resolve for Scripted {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let answer =
            if answers.len() > 1 { answers.remove(0) } else { answers.first().cloned().unwrap_or_default() };
        Box::pin(async move { Ok(answer) })
    }
}

pub(crate) fn fetcher(resolver: Arc<dyn Resolve>) -> Fetcher {
    Fetcher { allow_hosts: None, host: HostEnv::fixed::<String, String>([]), resolver }
}

pub(crate) async fn fetch(fetcher: &Fetcher, url: &str) -> Result<Fetched, FetchError> {
    fetcher.fetch(FetchRequest { url: url.into(), ..FetchRequest::default() }, &Stop::new()).await
}

#[tokio::test]
async fn what_is_inside_is_refused_however_it_is_spelled() {
    let resolver = Scripted::new(&[&["1.1.1.1"]]);
    let fetcher = fetcher(resolver.clone());
    for url in [
        "https://169.254.169.254/latest/meta-data",
        "https://127.0.0.1:8080/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://localhost/",
        "https://LOCALHOST./",
        "https://a.localhost/",
        "https://user:password@10.0.0.1/",
        "https://\u{ff11}\u{ff12}\u{ff17}.0.0.1/",
    ] {
        let error = fetch(&fetcher, url).await.unwrap_err();
        assert!(matches!(error, FetchError::Internal { .. }), "{url}: {error:?}");
    }
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_name_with_one_address_inside_is_refused() {
    let cases: [&[&str]; 4] =
        [&["10.0.0.1"], &["1.1.1.1", "10.0.0.1"], &["::1"], &["1.1.1.1", "::ffff:10.0.0.1"]];
    for addresses in cases {
        let error = fetch(&fetcher(Scripted::new(&[addresses])), "https://example.com/").await.unwrap_err();
        assert!(matches!(error, FetchError::Internal { .. }), "{addresses:?}: {error:?}");
    }
    let error = fetch(&fetcher(Scripted::new(&[&[]])), "https://example.com/").await.unwrap_err();
    assert!(matches!(error, FetchError::Unresolved { .. }), "{error:?}");
}

#[tokio::test]
async fn rules_come_in_their_order() {
    let inner = || Scripted::new(&[&["10.0.0.1"]]);
    let refused = async |fetcher: &Fetcher, url| fetch(fetcher, url).await.unwrap_err();
    let plain = fetcher(inner());
    assert!(matches!(refused(&plain, "not an address").await, FetchError::Address(_)));
    assert!(matches!(refused(&plain, "http://127.0.0.1/").await, FetchError::Internal { .. }));
    assert!(matches!(refused(&plain, "http://example.com/").await, FetchError::Scheme { .. }));
    let insecure = HostEnv::fixed([("RUNNER_ALLOW_INSECURE_URLS", "1")]);
    let insecure =
        Fetcher { host: insecure, allow_hosts: Some(vec!["other.example:81".into()]), ..fetcher(inner()) };
    for url in ["ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "data:text/plain,x"] {
        assert!(matches!(refused(&insecure, url).await, FetchError::Scheme { .. }), "{url}");
    }
    for url in [
        "http://example.com/",
        "https://other.example/",
        "https://other.example:82/",
        "https://x.other.example:81/",
    ] {
        assert!(matches!(refused(&insecure, url).await, FetchError::NotAllowed { .. }), "{url}");
    }
    assert!(matches!(refused(&insecure, "https://OTHER.example:81/").await, FetchError::Internal { .. }));
    let by_name = Fetcher { allow_hosts: Some(vec!["other.example".into()]), ..fetcher(inner()) };
    for url in ["https://other.example/", "https://other.example:443/"] {
        assert!(matches!(refused(&by_name, url).await, FetchError::Internal { .. }), "{url}");
    }
    let elsewhere = refused(&by_name, "https://other.example:8443/").await;
    assert!(matches!(elsewhere, FetchError::NotAllowed { .. }), "a name alone is its scheme's port");
}

#[tokio::test]
async fn a_request_is_checked_before_it_goes_anywhere() {
    let resolver = Scripted::new(&[&["10.0.0.1"]]);
    let fetcher = fetcher(resolver.clone());
    let send = async |method: Option<&str>, headers: &[(&str, &str)]| {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let request = FetchRequest {
            url: "https://example.com".into(),
            method: method.map(Into::into),
            headers,
            body: None,
        };
        fetcher.fetch(request, &Stop::new()).await.unwrap_err()
    };
    assert!(matches!(send(Some("CONNECT"), &[]).await, FetchError::Method { .. }));
    assert!(matches!(send(Some("GET / HTTP/1.1\r\nx: "), &[]).await, FetchError::Method { .. }));
    for name in ["Host", "host", "Transfer-Encoding", "content-length", "a b", ""] {
        assert!(matches!(send(None, &[(name, "x")]).await, FetchError::Header { .. }), "{name}");
    }
    assert!(matches!(send(None, &[("x-a", "a\r\nhost: b")]).await, FetchError::Header { .. }));
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 0);
    assert!(matches!(send(Some("post"), &[("x-a", "b")]).await, FetchError::Internal { .. }));

    let stop = Stop::new();
    stop.cancel("before");
    let request = FetchRequest { url: "https://example.com".into(), ..FetchRequest::default() };
    assert!(matches!(fetcher.fetch(request, &stop).await, Err(FetchError::Stopped(_))));
}

//! `http_fetch` against servers with public addresses, in a network of this test's own.
//!
//! Every address of this machine is inside, and so refused. A network namespace is not this machine's network: there a
//! public address can be given to the loopback interface, and nothing that is sent to it leaves.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use mesh_harness::host::HostEnv;
use mesh_harness::limits::{FETCH_BODY_BYTES, FETCH_REDIRECTS};
use mesh_harness::primitive::{FetchError, FetchRequest, Fetcher};
use mesh_harness::stop::Stop;

use crate::fetching::{Scripted, fetch, fetcher};
use crate::whole;

/// The address that the namespace gives to its loopback interface.
const PUBLIC: &str = "93.184.216.34";

/// Set where the other half of a test runs.
const NAMESPACE: &str = "MESH_TEST_NAMESPACE";

/// Runs the ignored test `name` of this file in a network namespace with [`PUBLIC`].
fn in_a_namespace(name: &str, variables: &[(&str, &str)]) {
    let prepare = format!("ip link set lo up && ip addr add {PUBLIC}/32 dev lo");
    let works = Command::new("unshare").args(["-rn", "sh", "-c", &prepare]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no network namespace can be made here (unshare -rn, ip)");
        return;
    }
    let script = format!("{prepare} && exec \"$0\" --exact network::{name} --ignored --nocapture");
    let mut inside = Command::new("unshare");
    inside.args(["-rn", "sh", "-c", &script]).arg(std::env::current_exe().unwrap()).env(NAMESPACE, "1");
    let output = inside.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// What a server saw of a request.
#[derive(Debug, Clone)]
struct Seen {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// A server on [`PUBLIC`] that does what the path says.
#[derive(Clone, Default)]
struct Server {
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    async fn start() -> (Self, SocketAddr) {
        let server = Self::default();
        let listener = tokio::net::TcpListener::bind((PUBLIC, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (server, address)
    }

    fn last(&self) -> Seen {
        self.seen.lock().unwrap().last().cloned().unwrap()
    }
}

async fn answer(
    State(server): State<Server>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let path = uri.path().to_owned();
    server.seen.lock().unwrap().push(Seen { method, path: path.clone(), headers, body });
    let target = uri.query().unwrap_or_default().to_owned();
    match path.as_str() {
        "/large" => vec![b'x'; 9 * 1024 * 1024].into_response(),
        "/stall" => Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>())
            .into_response(),
        "/loop" => (StatusCode::FOUND, [("location", "/loop")]).into_response(),
        path if path.starts_with("/to/") => {
            let status: u16 = path["/to/".len()..].parse().unwrap();
            (StatusCode::from_u16(status).unwrap(), [("location", target)]).into_response()
        }
        _ => (StatusCode::IM_A_TEAPOT, "héllo").into_response(),
    }
}

fn insecure(resolver: Arc<Scripted>, more: &[(&str, &str)]) -> Fetcher {
    let settings = [("RUNNER_ALLOW_INSECURE_URLS", "1")].into_iter().chain(more.iter().copied());
    Fetcher { host: HostEnv::fixed(settings), ..fetcher(resolver) }
}

fn with_headers(url: String, method: &str) -> FetchRequest {
    let headers = [
        ("Authorization", "Bearer canary"),
        ("Cookie", "c=canary"),
        ("Proxy-Authorization", "canary"),
        ("X-Own", "kept"),
        ("Content-Type", "text/plain"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    FetchRequest { url, method: Some(method.into()), headers, body: Some("body".into()) }
}

#[test]
fn a_public_server_is_fetched_from_and_no_redirect_leads_inside() {
    in_a_namespace(
        "public_servers",
        &[("HTTP_PROXY", "http://127.0.0.1:1"), ("http_proxy", "http://127.0.0.1:1")],
    );
}

#[tokio::test]
#[ignore = "the other half of a test, in a network of its own"]
async fn public_servers() {
    if std::env::var_os(NAMESPACE).is_none() {
        return;
    }
    let (server, address) = Server::start().await;
    let (other, other_address) = Server::start().await;
    let port = address.port();
    // Asked for a second time for one hop, the name would lead inside.
    let resolver = Scripted::new(&[&[PUBLIC], &["127.0.0.1"]]);
    let fetched =
        fetch(&insecure(resolver.clone(), &[]), &format!("http://example.com:{port}/a?b")).await.unwrap();
    assert_eq!((fetched.status, fetched.body.as_str(), fetched.truncated), (418, "héllo", false));
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 1);
    assert_eq!(server.last().headers["host"], format!("example.com:{port}"));

    let public = || insecure(Scripted::new(&[&[PUBLIC]]), &[]);
    let send = async |request| public().fetch(request, &Stop::new()).await;
    send(with_headers(format!("http://example.com:{port}/plain"), "put")).await.unwrap();
    let seen = server.last();
    assert_eq!((seen.method, &seen.body[..], &seen.path[..]), (Method::PUT, &b"body"[..], "/plain"));
    assert_eq!(seen.headers["authorization"], "Bearer canary");

    for (status, method, arrives) in [
        (301, "POST", Method::GET),
        (302, "POST", Method::GET),
        (303, "PUT", Method::GET),
        (302, "PUT", Method::PUT),
        (307, "POST", Method::POST),
        (308, "PUT", Method::PUT),
    ] {
        let same = format!("http://example.com:{port}/to/{status}?/end");
        assert_eq!(send(with_headers(same, method)).await.unwrap().status, 418);
        let seen = server.last();
        assert_eq!((&seen.method, seen.path.as_str()), (&arrives, "/end"), "{status} {method}");
        assert!(seen.headers.get("cookie").is_some(), "the same origin is shown the same");
        assert_eq!(seen.body.is_empty(), arrives == Method::GET);
        assert_eq!(seen.headers.get("content-type").is_none(), arrives == Method::GET);
    }
    let across = format!("http://example.com:{port}/to/307?http://example.com:{}/end", other_address.port());
    send(with_headers(across, "POST")).await.unwrap();
    let seen = other.last();
    assert!(!format!("{:?}", seen.headers).contains("canary"), "{seen:?}");
    assert_eq!((seen.method, seen.headers["x-own"].to_str().unwrap()), (Method::POST, "kept"));

    for inside in ["http://127.0.0.1/", "https://[::1]/", "//localhost/", "http://169.254.169.254/"] {
        let error =
            fetch(&public(), &format!("http://example.com:{port}/to/302?{inside}")).await.unwrap_err();
        assert!(matches!(error, FetchError::Internal { .. }), "{inside}: {error:?}");
    }
    // The second hop resolves again, and is checked again.
    let turning = insecure(Scripted::new(&[&[PUBLIC], &["10.0.0.1"]]), &[]);
    let error = fetch(&turning, &format!("http://example.com:{port}/to/302?/end")).await.unwrap_err();
    assert!(matches!(error, FetchError::Internal { .. }), "{error:?}");
    let secure = fetcher(Scripted::new(&[&[PUBLIC]]));
    assert!(matches!(fetch(&secure, &format!("http://{address}/")).await, Err(FetchError::Scheme { .. })));

    let before = server.seen.lock().unwrap().len();
    let error = fetch(&public(), &format!("http://{address}/loop")).await.unwrap_err();
    assert!(matches!(error, FetchError::Redirects), "{error:?}");
    assert_eq!(server.seen.lock().unwrap().len() - before, FETCH_REDIRECTS + 1);

    let large = fetch(&public(), &format!("http://{address}/large")).await.unwrap();
    assert_eq!((large.body.len(), large.truncated), (FETCH_BODY_BYTES, true));

    let hasty = insecure(Scripted::new(&[&[PUBLIC]]), &[("RUNNER_HTTP_TIMEOUT_MS", "200")]);
    let error = fetch(&hasty, &format!("http://{address}/stall")).await.unwrap_err();
    assert!(matches!(error, FetchError::TimedOut { .. }), "{error:?}");

    let stop = Stop::new();
    let request = FetchRequest { url: format!("http://{address}/stall"), ..FetchRequest::default() };
    let before = server.seen.lock().unwrap().len();
    let arrives = async {
        while server.seen.lock().unwrap().len() == before {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        stop.cancel("enough");
    };
    let patient = public();
    let (ended, ()) = tokio::join!(patient.fetch(request, &stop), arrives);
    assert!(matches!(ended, Err(FetchError::Stopped(_))), "{ended:?}");
}

#[test]
fn the_certificate_has_to_be_for_the_name() {
    let authority = rcgen::generate_simple_self_signed(["right.example".to_owned()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("certificate.pem");
    std::fs::write(&file, authority.cert.pem()).unwrap();
    std::fs::write(directory.path().join("key.pem"), authority.signing_key.serialize_pem()).unwrap();
    in_a_namespace("certificates", &[("SSL_CERT_FILE", file.to_str().unwrap())]);
}

#[tokio::test]
#[ignore = "the other half of a test, in a network of its own"]
async fn certificates() {
    if std::env::var_os(NAMESPACE).is_none() {
        return;
    }
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
    let file = std::path::PathBuf::from(std::env::var_os("SSL_CERT_FILE").unwrap());
    let certificate = CertificateDer::from_pem_file(&file).unwrap();
    let key = PrivateKeyDer::from_pem_file(file.with_file_name("key.pem")).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = std::net::TcpListener::bind((PUBLIC, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut tls = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::Stream::new(&mut tls, &mut socket);
            let mut chunk = [0; 4096];
            if stream.read(&mut chunk).is_ok() {
                let _gone =
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
                stream.conn.send_close_notify();
                let _gone = stream.flush();
            }
        }
    });
    let public = fetcher(Scripted::new(&[&[PUBLIC]]));
    let fetched = fetch(&public, &format!("https://right.example:{port}/")).await;
    assert_eq!(fetched.map_err(|error| whole(&error)).unwrap().body, "ok");
    let error = fetch(&public, &format!("https://wrong.example:{port}/")).await.unwrap_err();
    assert!(whole(&error).to_lowercase().contains("certificate"), "{}", whole(&error));
}

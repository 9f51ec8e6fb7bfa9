//! The job API of a whole node: tenants over TCP, jobs in gVisor.
//!
//! Where gVisor is not installed the ones that run something are skipped, and say so.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::trust::TrustSet;
use mesh_protocol::evidence::verify::{Expected, verify};
use mesh_protocol::policy::Trust;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UnixStream};

use crate::mesh::Node;

const PEPPER: [u8; 32] = [3; 32];
const TENANTS: [&str; 2] = ["acme", "umbrella"];

fn key(tenant: &str) -> String {
    format!("mesh_{tenant}-1_{}", "k".repeat(40))
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A node with two tenants, and where its job API is.
pub(crate) struct Server {
    pub(crate) node: Node,
    address: SocketAddr,
    /// Bound and never listening: nobody else is given its port, and the node may take it (`SO_REUSEADDR`, socket(7)).
    _port: TcpSocket,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn code(&self) -> (u16, Value) {
        (self.status, self.json()["error"]["code"].clone())
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: bytes[end + 4..].to_vec() }
}

impl Server {
    async fn start(root: &Path, executor: &str) -> Self {
        let digest = |tenant: &str| {
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&PEPPER).unwrap();
            mac.update(key(tenant).as_bytes());
            data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes())
        };
        let scopes = ["jobs:submit", "jobs:read", "jobs:cancel", "service:read", "metrics:read"];
        let credentials = TENANTS.map(|tenant| {
            json!({"key_id": format!("{tenant}-1"), "tenant_id": tenant, "principal_id": "ci", "scopes": scopes,
                   "digest_hmac_sha256": digest(tenant), "created_at_ms": 1})
        });
        let (keys, pepper) = (root.join("keys.json"), root.join("pepper"));
        private(&keys, &json!({"version": 1, "credentials": credentials}).to_string());
        private(&pepper, &data_encoding::HEXLOWER.encode(&PEPPER));
        // The node says where it listens only in what it was told.
        let port = TcpSocket::new_v4().unwrap();
        port.set_reuseaddr(true).unwrap();
        port.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = port.local_addr().unwrap();
        let extra = format!(
            "{executor}\n[http]\nlisten = \"{address}\"\nrequests_per_minute = 100000\ncredentials = \"{}\"\npepper = \
             \"{}\"\n",
            keys.display(),
            pepper.display()
        );
        let node = Node::found(root, "atlas", &extra, Trust::Mine).await;
        Self { node, address, _port: port }
    }

    /// One that runs jobs, or nothing where nothing can run.
    async fn running(root: &Path) -> Option<Self> {
        Self::running_with(root, "[executor]\nslots = 2\n").await
    }

    pub(crate) async fn running_with(root: &Path, executor: &str) -> Option<Self> {
        let server = Self::start(root, executor).await;
        server.node.runs_jobs().await.then_some(server)
    }

    pub(crate) async fn send(&self, tenant: &str, line: &str, headers: &str, body: &str) -> Answer {
        let (host, key, length) = (self.address, key(tenant), body.len());
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        exchange(TcpStream::connect(self.address).await.unwrap(), &request).await
    }

    pub(crate) async fn get(&self, tenant: &str, path: &str) -> Answer {
        self.send(tenant, &format!("GET {path}"), "", "").await
    }

    pub(crate) async fn submit(&self, tenant: &str, idempotency: &str, job: &Value) -> Answer {
        let header = match idempotency {
            "" => String::new(),
            key => format!("Idempotency-Key: {key}\r\n"),
        };
        self.send(tenant, "POST /v1/jobs", &header, &job.to_string()).await
    }

    /// The place of a job that was accepted.
    pub(crate) async fn accepted(&self, tenant: &str, job: &Value) -> String {
        let answer = self.submit(tenant, "", job).await;
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        answer.header("location").unwrap().to_owned()
    }

    /// A job that has ended and is attested.
    pub(crate) async fn attested(&self, tenant: &str, place: &str) -> Value {
        loop {
            assert!(self.get(tenant, &format!("{place}/result?wait_seconds=60")).await.status < 300);
            let detail = self.get(tenant, place).await.json();
            if detail["attestation"]["state"] != "pending" {
                return detail;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_over_http_takes_files_leaves_files_and_is_proven() {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = Server::running(root.path()).await else { return };
    let job = json!({
        "language": "python",
        "code": "import sys\nopen('output/x','wb').write(open('input/x','rb').read()[::-1])\nprint('one\\ntwo')\n\
                 print('three', file=sys.stderr)",
        "files": [{"path": "input/x", "content_base64": "AAEC"}],
        "outputs": ["output/x"],
        "limits": {"wall_seconds": 4_000_000},
    });
    let place = server.accepted("acme", &job).await;
    let detail = server.attested("acme", &place).await;
    let result = server.get("acme", &format!("{place}/result")).await;
    assert_eq!(result.status, 200);
    let result = result.json();
    assert_eq!((&result["status"], &result["exit_code"]), (&json!("succeeded"), &json!(0)), "{result}");
    assert_eq!((&result["stdout"], &result["stderr"]), (&json!("one\ntwo"), &json!("three")));
    let artifact = &result["artifacts"][0];
    assert_eq!((&artifact["path"], &artifact["content_base64"]), (&json!("output/x"), &json!("AgEA")));
    assert_eq!(artifact["sha256"], json!(Digest::of(&[2, 1, 0]).to_string()));

    // What was asked for is kept as it was, and what came of it beside it.
    assert_eq!(detail["requested_spec"]["limits"]["wall_seconds"], json!(4_000_000));
    assert!(detail["effective_spec"]["limits"]["wall_seconds"].as_u64().unwrap() < 4_000_000);
    assert_eq!(detail["execution_policy"]["isolation_class"], json!("gvisor-application-kernel"));
    assert_eq!(detail["receipt"]["artifacts"][0]["sha256"], artifact["sha256"]);
    assert_eq!(detail["receipt"]["receipt_sha256"], detail["receipt_sha256"]);

    let envelope = server.get("acme", &format!("{place}/attestation")).await;
    let stored = server.get("acme", &format!("{place}/result-artifact")).await;
    for bytes in [&envelope, &stored] {
        assert_eq!(bytes.header("x-content-sha256"), Some(Digest::of(&bytes.body).to_string().as_str()));
    }
    assert_eq!(stored.json()["stdout"], "one\ntwo\n", "what is signed are the bytes, not the lines");
    let published = server.get("acme", "/v1/attestation/public-key").await.json();
    let signer = server.node.client.status().await.unwrap().node;
    let expected = Expected {
        artifact: Some(&stored.body),
        events: None,
        job_id: place.rsplit('/').next(),
        tenant: None,
    };
    let verified = verify(&envelope.body, &TrustSet::node(&signer).unwrap(), &expected).unwrap();
    assert_eq!(verified.receipt().execution.requester, "acme");
    assert!(published["public_key_pem"].as_str().unwrap().starts_with("-----BEGIN PUBLIC KEY-----"));
    assert_eq!(published["algorithm"], "Ed25519");

    let replay = server.get("acme", &format!("{place}/replay?limit=2")).await.json();
    assert_eq!((replay["events"].as_array().unwrap().len(), &replay["next_cursor"]), (2, &json!(2)));
    assert_eq!(replay["events"][0]["kind"], "accepted");
    let rest = server.get("acme", &format!("{place}/replay?after=2")).await.json();
    assert_eq!(rest["events"].as_array().unwrap().last().unwrap()["kind"], "finished");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_job_is_answered_as_one_that_does_not_exist_on_every_route() {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = Server::running(root.path()).await else { return };
    let job = json!({"language": "bash", "code": "sleep 100", "limits": {"wall_seconds": 100}});
    let place = server.accepted("acme", &job).await;
    let mut other = place.clone();
    let last = if other.pop() == Some('0') { '1' } else { '0' };
    other.push(last);
    for (verb, rest) in [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/result?wait_seconds=5"),
        ("GET", "/replay"),
        ("GET", "/attestation"),
        ("GET", "/result-artifact"),
        ("GET", "/stream"),
        ("POST", "/stream-ticket"),
    ] {
        let mut bodies = Vec::new();
        for place in [&place, &other, &"/v1/jobs/nonsense".to_owned()] {
            let answer = server.send("umbrella", &format!("{verb} {place}{rest}"), "", "").await;
            assert_eq!(answer.code(), (404, json!("job_not_found")), "{verb} {place}{rest}");
            let mut body = answer.json();
            body["error"]["request_id"] = Value::Null;
            bodies.push(body);
        }
        bodies.dedup();
        assert_eq!(bodies.len(), 1, "{verb} {rest}");
    }
    assert!(server.get("umbrella", "/v1/jobs").await.json()["jobs"].as_array().unwrap().is_empty());
    let stopped = server.send("acme", &format!("DELETE {place}"), "", "").await;
    assert_eq!((stopped.status, &stopped.json()["cancellation_requested"]), (200, &json!(true)));
    let detail = server.attested("acme", &place).await;
    assert_eq!(detail["status"], "cancelled", "nobody else's DELETE did that before: {detail}");
    let again = server.send("acme", &format!("DELETE {place}"), "", "").await;
    assert_eq!((again.status, &again.json()["already_terminal"]), (200, &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_means_one_job_of_its_tenant_however_often_and_however_it_is_written() {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = Server::running(root.path()).await else { return };
    let server = std::sync::Arc::new(server);
    let job = json!({"language": "bash", "code": "echo 1", "stdin": ""});
    let posts: Vec<_> = (0..50)
        .map(|_| {
            let (server, job) = (std::sync::Arc::clone(&server), job.clone());
            tokio::spawn(async move {
                // No more bodies are read at once than a tenant has room for.
                loop {
                    let answer = server.submit("acme", "k", &job).await;
                    if answer.status == 201 {
                        let replayed = answer.header("idempotency-replayed").unwrap() == "true";
                        return (answer.header("location").unwrap().to_owned(), replayed);
                    }
                    assert!(matches!(answer.status, 429 | 503), "{}", answer.status);
                }
            })
        })
        .collect();
    let mut answers = Vec::new();
    for post in posts {
        answers.push(post.await.unwrap());
    }
    let place = answers[0].0.clone();
    assert!(answers.iter().all(|(other, _)| *other == place));
    assert_eq!(answers.iter().filter(|(_, replayed)| !replayed).count(), 1, "one was created");
    let raw = r#"{"code":"echo 1","limits":{},"language":"bash"}"#;
    let reordered = server.send("acme", "POST /v1/jobs", "Idempotency-Key: k\r\n", raw).await;
    assert_eq!((reordered.status, reordered.header("location")), (201, Some(place.as_str())));
    let other = server.submit("acme", "k", &json!({"language": "bash", "code": "echo 2"})).await;
    assert_eq!(other.code(), (422, json!("idempotency_key_reused")));
    let theirs = server.submit("umbrella", "k", &job).await;
    assert_eq!((theirs.status, theirs.header("idempotency-replayed")), (201, Some("false")));
    assert_ne!(theirs.header("location"), Some(place.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_run_here_is_refused_and_nothing_is_stored() {
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(root.path(), "").await;
    let job = json!({"language": "python", "code": "1"});
    let refused = server.submit("acme", "k", &job).await;
    assert_eq!(refused.code(), (422, json!("minimum_isolation_unsatisfied")));
    assert!(server.get("acme", "/v1/jobs").await.json()["jobs"].as_array().unwrap().is_empty());
    let capabilities = server.get("acme", "/v1/capabilities").await.json();
    assert_eq!(capabilities["execution"]["isolation_class"], Value::Null);
    assert_eq!(server.get("acme", "/v1/status").await.json()["storage_ready"], json!(true));
    assert_eq!(server.get("acme", "/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_unix_socket_has_both_apis_by_host_and_takes_the_operators_token_for_both() {
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(root.path(), "").await;
    let home = root.path().join("atlas");
    let socket = mesh_node::home::Home::open(&home).unwrap().socket(|_| None).unwrap();
    let operator = std::fs::read_to_string(home.join("tokens/operator")).unwrap();
    let ask = async |host: &str, token: &str| {
        let token = token.trim();
        let request = format!(
            "GET /v1/whoami HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        exchange(UnixStream::connect(&socket).await.unwrap(), &request).await
    };
    assert_eq!(ask("mesh.local", &operator).await.json()["principal"], "operator");
    assert_eq!(ask("jobs.mesh.local", &operator).await.json()["auth_method"], "operator_token");
    assert_eq!(ask("jobs.mesh.local", &key("acme")).await.json()["tenant"], "acme");
    assert_eq!(ask("mesh.local", &key("acme")).await.status, 401, "a tenant's key opens nothing else");
    let request = format!(
        "GET /v1/whoami HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\r\n",
        server.address,
        operator.trim()
    );
    let there = exchange(TcpStream::connect(server.address).await.unwrap(), &request).await;
    assert_eq!(
        there.code(),
        (401, json!("invalid_api_key")),
        "the operator's token is good on the socket only"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_whose_queue_is_full_is_told_so_and_others_and_repetitions_are_not() {
    let root = tempfile::tempdir().unwrap();
    let executor = "[executor]\nslots = 1\ntenant_queue = 2\n";
    let Some(server) = Server::running_with(root.path(), executor).await else { return };
    let sleeping = json!({"language": "bash", "code": "sleep 300", "limits": {"wall_seconds": 300}});
    let first = server.submit("acme", "first", &sleeping).await;
    assert_eq!(first.status, 201);
    let mut last = String::new();
    while server.get("acme", "/v1/status").await.json()["scheduler"]["running"] != json!(1) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // One runs, and two may wait.
    let mut refused = None;
    for _ in 0..4 {
        let answer = server.submit("acme", "", &sleeping).await;
        match answer.status {
            201 => last = answer.header("location").unwrap().to_owned(),
            _ => refused = Some(answer),
        }
    }
    let refused = refused.expect("no more than two wait");
    assert_eq!(refused.code(), (429, json!("tenant_queue_saturated")));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let again = server.submit("acme", "first", &sleeping).await;
    assert_eq!(
        (again.status, again.header("location")),
        (201, first.header("location")),
        "it was taken in before"
    );
    let scheduler = server.get("acme", "/v1/status").await.json()["scheduler"].clone();
    assert_eq!(
        (&scheduler["queue_capacity"], &scheduler["queue_depth"]),
        (&json!(2), &json!(2)),
        "{scheduler}"
    );
    let others = server.get("umbrella", "/v1/status").await.json()["scheduler"].clone();
    assert_eq!((&others["queue_depth"], &others["running"]), (&json!(0), &json!(0)), "a tenant sees its own");
    // What would have to wait for the others' jobs would wait for minutes, and so would this test.
    let theirs = server.accepted("umbrella", &json!({"language": "bash", "code": "echo 1"})).await;

    // What waits ends at once when it is cancelled, never ran, and is proven.
    let cancelled = server.send("acme", &format!("DELETE {last}"), "", "").await.json();
    assert_eq!(cancelled["job"]["status"], "cancelled", "{cancelled}");
    let detail = server.attested("acme", &last).await;
    assert_eq!(
        (&detail["receipt"]["outcome"], &detail["receipt"]["started_at_ms"]),
        (&json!("cancelled"), &Value::Null)
    );
    assert_eq!(detail["execution_policy"]["isolation_class"], Value::Null, "nothing was observed");
    let page = server.get("acme", "/v1/jobs?status=cancelled&limit=1").await.json();
    assert_eq!(page["jobs"][0]["job_id"], detail["job_id"]);
    let running = server.get("umbrella", &format!("{theirs}/result?wait_seconds=0")).await;
    assert_eq!(running.status, 202);
}

/// The text of the next message of a stream; `None` once it is closed.
async fn message(stream: &mut TcpStream) -> Option<String> {
    let opcode = stream.read_u8().await.unwrap() & 0x0f;
    let length = match stream.read_u8().await.unwrap() {
        126 => usize::from(stream.read_u16().await.unwrap()),
        127 => usize::try_from(stream.read_u64().await.unwrap()).unwrap(),
        short => short.into(),
    };
    let mut content = vec![0; length];
    stream.read_exact(&mut content).await.unwrap();
    (opcode == 1).then(|| String::from_utf8(content).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_what_happened_then_what_happens_and_closes_after_the_end() {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = Server::running(root.path()).await else { return };
    // It lasts until the stream has begun, on a machine that does much else.
    let job = json!({"language": "bash", "code": "echo first; sleep 5; echo second"});
    let place = server.accepted("acme", &job).await;
    let ticket = server.send("acme", &format!("POST {place}/stream-ticket"), "", "").await.json();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!(
        "GET {place}/stream?ticket={} HTTP/1.1\r\nHost: {}\r\nConnection: upgrade\r\nUpgrade: \
         websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        ticket["ticket"].as_str().unwrap(),
        server.address
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "));
    let mut events: Vec<Value> = Vec::new();
    while let Some(text) = message(&mut stream).await {
        events.push(serde_json::from_str(&text).unwrap());
        if events.len() == 1 {
            let status = server.get("acme", &place).await.json()["terminal"].clone();
            assert_eq!(status, json!(false), "the first event came while the job was there");
        }
    }
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["accepted", "started", "stdout", "stdout", "finished"]);
    server.attested("acme", &place).await;
    let stored = server.get("acme", &format!("{place}/replay")).await.json();
    assert_eq!(stored["events"], Value::Array(events), "the stream said what is stored");
}

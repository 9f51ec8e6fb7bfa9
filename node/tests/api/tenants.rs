//! Tenants with keys in a file, and the job API on a TCP port in front of a service that says what it is told to.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use mesh_node::api::v1::keys::Authority;
use mesh_node::api::v1::keys::file::KeyFile;
use mesh_node::api::v1::limits::Limits;
use mesh_node::api::v1::metrics::MetricsToken;
use mesh_node::api::v1::scope::Scope;
use mesh_node::api::v1::{Surface, router};
use mesh_node::api::{Hosts, listener};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::scripted::Scripted;
use crate::world::Answer;

/// What the metrics are seen with.
pub(crate) const METRICS_TOKEN: &str = "figures-for-monitoring";

pub(crate) const PEPPER: [u8; 32] = [9; 32];

/// The key of a key id: what its holder has.
pub(crate) fn key(id: &str) -> String {
    format!("mesh_{id}_{}", "s".repeat(32))
}

pub(crate) fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A row of the file for it.
pub(crate) fn credential(id: &str, tenant: &str, scopes: &[Scope]) -> Value {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&PEPPER).unwrap();
    mac.update(key(id).as_bytes());
    let digest = data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes());
    json!({
        "key_id": id, "tenant_id": tenant, "principal_id": format!("{tenant}-{id}"), "scopes": scopes,
        "digest_hmac_sha256": digest, "created_at_ms": 1, "expires_at_ms": null, "revoked_at_ms": null,
    })
}

pub(crate) fn with(mut credential: Value, member: &str, value: impl Into<Value>) -> Value {
    credential[member] = value.into();
    credential
}

/// Writes a file that only this user can read.
pub(crate) fn private(path: &Path, text: &str) -> PathBuf {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_owned()
}

/// Writes both files.
pub(crate) fn files(dir: &Path, credentials: &[Value]) -> (PathBuf, PathBuf) {
    let document = json!({ "version": 1, "credentials": credentials }).to_string();
    let pepper = data_encoding::HEXLOWER.encode(&PEPPER);
    (private(&dir.join("keys.json"), &document), private(&dir.join("pepper"), &format!("{pepper}\n")))
}

/// The API on a TCP port. Tenant `acme` has the keys `all` and `read`, tenant `umbrella` has `other`; `over` and `gone`
/// are no longer good.
pub(crate) struct Tenants {
    pub(crate) service: Arc<Scripted>,
    pub(crate) stopping: CancellationToken,
    pub(crate) address: SocketAddr,
    pub(crate) dir: TempDir,
}

impl Tenants {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (credentials, pepper) = files(
            dir.path(),
            &[
                credential("all", "acme", &Scope::ALL),
                credential("read", "acme", &[Scope::Read]),
                credential("other", "umbrella", &Scope::ALL),
                with(credential("over", "acme", &Scope::ALL), "expires_at_ms", now_ms() - 1),
                with(credential("gone", "acme", &Scope::ALL), "revoked_at_ms", 5),
            ],
        );
        let keys = Arc::new(KeyFile::read(&credentials, &pepper).unwrap());
        Self::known_by(dir, keys, limits)
    }

    /// The same, where somebody else knows the keys.
    pub(crate) fn known_by(dir: TempDir, keys: Arc<dyn Authority>, limits: Limits) -> Self {
        let port = listener::bind_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = port.local_addr().unwrap();
        let (service, stopping) = (Arc::new(Scripted::new()), CancellationToken::new());
        let hosts = Hosts::loopback(address.port());
        let token = private(&dir.path().join("metrics"), METRICS_TOKEN);
        let surface = Surface {
            authorities: vec![keys],
            metrics_token: Some(MetricsToken::read(&token).unwrap()),
            hosts,
            limits,
            stopping: stopping.clone(),
        };
        let router = router(Arc::clone(&service), surface);
        tokio::spawn(listener::serve_tcp(port, router, stopping.clone()));
        Self { service, stopping, address, dir }
    }

    /// An open connection.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes as they are and gives the one answer.
    pub(crate) async fn raw(&self, request: &str) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        tokio::time::timeout(Duration::from_secs(20), Answer::read(&mut stream)).await.unwrap()
    }

    /// What begins every request of a key.
    pub(crate) fn head(&self, id: &str, line: &str) -> String {
        let (host, key) = (self.address, key(id));
        format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n")
    }

    /// A request without a body.
    pub(crate) async fn get(&self, id: &str, path: &str) -> Answer {
        self.raw(&format!("{}\r\n", self.head(id, &format!("GET {path}")))).await
    }

    /// A job, with more headers: whole lines, each with its line end.
    pub(crate) async fn submit(&self, id: &str, headers: &str, body: &str) -> Answer {
        let head = self.head(id, "POST /v1/jobs");
        let length = body.len();
        let typed = "Content-Type: application/json\r\n";
        self.raw(&format!("{head}{typed}{headers}Content-Length: {length}\r\n\r\n{body}")).await
    }
}

/// The code of a refusal, in the one shape that refusals have.
pub(crate) fn refused(answer: &Answer) -> (u16, String) {
    let body = answer.json();
    let error = body["error"].as_object().unwrap();
    let members: Vec<&str> = error.keys().map(String::as_str).collect();
    assert_eq!(members, ["code", "message", "request_id", "retryable"], "{body}");
    assert_eq!(error["request_id"].as_str(), answer.header("x-request-id"));
    let retryable = error["retryable"].as_bool().unwrap();
    assert_eq!(answer.header("retry-after").is_some(), retryable, "{body}");
    (answer.status, error["code"].as_str().unwrap().to_owned())
}

//! Who the job API lets in, and how it says no.

use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use mesh_node::api::v1::keys::file::KeyFile;
use mesh_node::api::v1::keys::{Authority, KeysError, Known};
use mesh_node::api::v1::limits::Limits;
use mesh_node::api::v1::route::{Access, Route};
use mesh_node::api::v1::scope::Scope;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::answers::JOB;
use crate::tenants::{self, METRICS_TOKEN, Tenants, credential, key, private, refused, with};
use crate::world::Answer;

const JOB_BODY: &str = r#"{"language":"python","code":"print(1)"}"#;

fn code(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn every_route_that_needs_a_key_says_so_before_anything_else() {
    let tenants = Tenants::new();
    for route in Route::ALL {
        let (method, path) = (route.verb().method(), route.path().replace("{id}", "anything"));
        let host = tenants.address;
        let request = format!("{method} {path}?junk=1 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = tenants.raw(&request).await;
        match route.access() {
            Access::Key(_) | Access::KeyOrTicket(_) => {
                assert_eq!(refused(&answer), code(401, "missing_api_key"), "{path}");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            }
            Access::Anyone | Access::MetricsToken => {
                assert_eq!(refused(&answer), code(400, "unknown_query_parameter"), "{path}");
            }
        }
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("pragma"), Some("no-cache"));
    }
    assert!(tenants.service.calls().is_empty(), "nobody was asked: {:?}", tenants.service.calls());
}

#[tokio::test]
async fn an_unknown_a_revoked_and_an_expired_key_are_refused_alike() {
    let tenants = Tenants::new();
    let mut bodies = Vec::new();
    for id in ["nobody", "gone", "over"] {
        let answer = tenants.get(id, "/v1/whoami").await;
        assert_eq!(refused(&answer), code(401, "invalid_api_key"), "{id}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
        bodies.push(answer.json()["error"]["message"].clone());
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
    let good = tenants.get("all", "/v1/whoami").await;
    assert_eq!((good.status, &good.json()["tenant"]), (200, &"acme".into()));
    assert_eq!(good.json()["auth_method"], "api_key");
    assert_eq!(good.json()["principal_id"], "acme-all");
    assert_eq!(tenants.get("all", "/whoami").await.body, good.body);
    let wrong_secret = format!("{}x", key("all"));
    let host = tenants.address;
    for (authorization, expected) in [
        (format!("Bearer {wrong_secret}"), "invalid_api_key"),
        (format!("Bearer {}", key("all").to_uppercase()), "invalid_api_key"),
        ("Bearer short".to_owned(), "invalid_api_key"),
        ("Basic YTpi".to_owned(), "invalid_authorization"),
        ("Bearer".to_owned(), "invalid_authorization"),
        (format!("Bearer {}", "x".repeat(17 * 1024)), "invalid_authorization"),
        (format!("Bearer {0}\r\nAuthorization: Bearer {0}", key("all")), "invalid_authorization"),
    ] {
        let request = format!(
            "GET /v1/whoami HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: {authorization}\r\n\r\n"
        );
        assert_eq!(refused(&tenants.raw(&request).await), code(401, expected), "{authorization:.60}");
    }
}

#[tokio::test]
async fn a_key_without_the_scope_is_told_which_it_lacks_and_nothing_happens() {
    let tenants = Tenants::new();
    assert_eq!(tenants.get("read", "/v1/jobs").await.status, 200);
    let asked = tenants.service.calls().len();
    let submitted = tenants.submit("read", "", JOB_BODY).await;
    assert_eq!(refused(&submitted), code(403, "insufficient_scope"));
    assert_eq!(
        submitted.header("www-authenticate"),
        Some("Bearer error=\"insufficient_scope\", scope=\"jobs:submit\"")
    );
    assert_eq!(submitted.header("connection"), Some("close"), "its body was not read");
    let cancelled =
        tenants.raw(&format!("{}\r\n", tenants.head("read", &format!("DELETE /v1/jobs/{JOB}")))).await;
    assert_eq!(refused(&cancelled), code(403, "insufficient_scope"));
    assert_eq!(refused(&tenants.get("read", "/v1/status").await), code(403, "insufficient_scope"));
    assert_eq!(tenants.service.calls().len(), asked);
}

#[tokio::test]
async fn other_hosts_and_pages_of_other_origins_are_refused_on_every_route() {
    let tenants = Tenants::new();
    let port = tenants.address.port();
    let paths: Vec<String> =
        Route::ALL.iter().map(|route| format!("{} {}", route.verb().method(), route.path())).collect();
    for line in &paths {
        for headers in [
            "Host: evil.example\r\n".to_owned(),
            format!("Host: 127.0.0.1:{}\r\n", port ^ 1),
            format!("Host: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n"),
            format!("Host: 127.0.0.1:{port}\r\nOrigin: null\r\n"),
        ] {
            let request = format!(
                "{line} HTTP/1.1\r\n{headers}Connection: close\r\nAuthorization: Bearer {}\r\n\r\n",
                key("all")
            );
            assert_eq!(
                refused(&tenants.raw(&request).await),
                code(403, "foreign_origin"),
                "{line} {headers}"
            );
        }
    }
    let same = format!(
        "GET /healthz HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://localhost:{port}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(tenants.raw(&same).await.status, 200);
}

#[tokio::test]
async fn an_unknown_route_and_a_wrong_method_have_the_one_error_shape_and_an_id_of_ours() {
    let tenants = Tenants::new();
    let mine = "x-request-id: forged\r\n";
    let unknown = tenants.raw(&format!("{}{mine}\r\n", tenants.head("all", "GET /v2/jobs"))).await;
    assert_eq!(refused(&unknown), code(404, "not_found"));
    let tokens = tenants.get("all", "/.well-known/oauth-protected-resource").await;
    assert_eq!(refused(&tokens), code(404, "oauth_not_configured"));
    let wrong = tenants.raw(&format!("{}{mine}\r\n", tenants.head("all", "PUT /v1/jobs"))).await;
    assert_eq!(refused(&wrong), code(405, "method_not_allowed"));
    let id = wrong.header("x-request-id").unwrap();
    assert_eq!((id.len(), &id[14..15]), (36, "7"), "a UUID of version 7: {id}");
}

#[test]
fn files_that_others_can_read_or_that_are_not_understood_are_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let good = credential("all", "acme", &Scope::ALL);
    let (credentials, pepper) = tenants::files(dir.path(), std::slice::from_ref(&good));
    assert!(KeyFile::read(&credentials, &pepper).is_ok());
    for path in [&credentials, &pepper] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = KeyFile::read(&credentials, &pepper).unwrap_err();
        assert!(
            matches!(&error, KeysError::Exposed { path: named, mode: 0o640 } if named == path),
            "{error}"
        );
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&credentials, &link).unwrap();
    assert!(
        matches!(KeyFile::read(&link, &pepper), Err(KeysError::Read { .. })),
        "no symbolic link is followed"
    );
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o770)).unwrap();
    assert!(matches!(KeyFile::read(&credentials, &pepper), Err(KeysError::Exposed { .. })));
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    for bad in [
        with(good.clone(), "surprise", 1),
        with(good.clone(), "key_id", "under_score"),
        with(good.clone(), "tenant_id", "operator"),
        with(good.clone(), "tenant_id", "@agent"),
        with(good.clone(), "digest_hmac_sha256", "abcd"),
        with(good.clone(), "scopes", vec!["jobs:everything"]),
    ] {
        let (credentials, _) = tenants::files(dir.path(), std::slice::from_ref(&bad));
        let read = KeyFile::read(&credentials, &pepper);
        assert!(matches!(read, Err(KeysError::Malformed { .. })), "{bad}");
    }
    let (credentials, _) = tenants::files(dir.path(), &[good.clone(), good]);
    assert!(KeyFile::read(&credentials, &pepper).unwrap_err().to_string().contains("twice"));
    let short = private(&dir.path().join("short"), "00ff");
    assert!(matches!(KeyFile::read(&credentials, &short), Err(KeysError::Malformed { .. })));
}

#[tokio::test]
async fn the_figures_of_all_need_their_own_token_and_name_nobody() {
    let tenants = Tenants::new();
    let host = tenants.address;
    let ask = |token: &str, accept: &str| {
        format!(
            "GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nAccept: \
             {accept}\r\n\r\n"
        )
    };
    assert_eq!(tenants.submit("all", "", JOB_BODY).await.status, 201);
    for token in [&key("all"), "wrong"] {
        assert_eq!(refused(&tenants.raw(&ask(token, "*/*")).await), code(401, "invalid_metrics_token"));
    }
    let plain = tenants.raw(&ask(METRICS_TOKEN, "*/*")).await;
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let line = "mesh_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"201\"} 1\n";
    assert!(
        plain.body.contains(line) && plain.body.contains("# TYPE mesh_http_requests_total counter\n"),
        "{}",
        plain.body
    );
    let open = tenants.raw(&ask(METRICS_TOKEN, "application/openmetrics-text; version=1.0.0")).await;
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(
        open.body.contains(line) && open.body.contains("# TYPE mesh_http_requests counter\n"),
        "{}",
        open.body
    );
    assert!(open.body.ends_with("# EOF\n"));
    for answer in [&plain, &open] {
        assert!(!answer.body.contains("acme") && !answer.body.contains(&JOB.to_string()));
    }
    let own = tenants.get("all", "/v1/metrics").await;
    assert!(own.body.contains(line) && !own.body.contains("acme"), "{}", own.body);
    let other = tenants.get("other", "/v1/metrics").await;
    assert!(!other.body.contains("POST"), "others' requests are not in it: {}", other.body);
}

#[tokio::test]
async fn the_description_has_every_route_and_every_member_of_real_answers() {
    let tenants = Tenants::new();
    let document = tenants.get("all", "/openapi.json").await.json();
    for route in Route::ALL {
        let verb = route.verb().method().as_str().to_ascii_lowercase();
        assert!(document["paths"][route.path()][&verb].is_object(), "{route:?}");
    }
    let schema = |path: &str, status: &str| {
        let answer =
            &document["paths"][path]["get"]["responses"][status]["content"]["application/json"]["schema"];
        let pointer = answer["$ref"].as_str().unwrap().trim_start_matches('#').to_owned();
        document.pointer(&pointer).unwrap()["properties"].clone()
    };
    for (path, target, status) in [
        ("/v1/jobs", "/v1/jobs".to_owned(), "200"),
        ("/v1/jobs/{id}", format!("/v1/jobs/{JOB}"), "200"),
        ("/v1/jobs/{id}/result", format!("/v1/jobs/{JOB}/result?wait_seconds=0"), "202"),
        ("/v1/jobs/{id}/replay", format!("/v1/jobs/{JOB}/replay"), "200"),
        ("/v1/capabilities", "/v1/capabilities".to_owned(), "200"),
        ("/v1/status", "/v1/status".to_owned(), "200"),
        ("/v1/whoami", "/v1/whoami".to_owned(), "200"),
        ("/readyz", "/readyz".to_owned(), "200"),
    ] {
        let answer = tenants.get("all", &target).await;
        assert_eq!(answer.status.to_string(), status, "{target}");
        let known = schema(path, status);
        for member in answer.json().as_object().unwrap().keys() {
            assert!(known.get(member).is_some(), "{path}: {member}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_revoked_is_refused_from_the_next_request_on_and_half_a_file_changes_nothing() {
    let tenants = Tenants::new();
    assert_eq!(tenants.get("all", "/v1/whoami").await.status, 200);
    private(&tenants.dir.path().join("keys.json"), "{\"version\": 1, \"cred");
    assert_eq!(tenants.get("all", "/v1/whoami").await.status, 200);
    let revoked = with(credential("all", "acme", &Scope::ALL), "revoked_at_ms", tenants::now_ms());
    tenants::files(tenants.dir.path(), &[revoked, credential("new", "acme", &Scope::ALL)]);
    assert_eq!(refused(&tenants.get("all", "/v1/whoami").await), code(401, "invalid_api_key"));
    assert_eq!(
        refused(&tenants.get("other", "/v1/whoami").await),
        code(401, "invalid_api_key"),
        "it is not there"
    );
    assert_eq!(tenants.get("new", "/v1/whoami").await.status, 200);
}

/// Knows no key, and that only after it was let go on, as a file on a disk that does not answer.
#[derive(Debug)]
struct Slow {
    asked: UnboundedSender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl Authority for Slow {
    fn look_up(&self, _: &str, _: u64) -> Known {
        self.asked.send(()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap();
        Known::Refused
    }
}

#[tokio::test]
async fn keys_that_take_long_to_look_up_hold_up_nobody_else() {
    let ((go_on, wait), (asked, mut was_asked)) = (std::sync::mpsc::channel(), unbounded_channel());
    let slow = Arc::new(Slow { asked, go_on: Mutex::new(wait) });
    let tenants = Tenants::known_by(tempfile::tempdir().unwrap(), slow, Limits::default());
    let mut waiting = tenants.connect().await;
    let request = format!("{}\r\n", tenants.head("all", "GET /v1/whoami"));
    waiting.write_all(request.as_bytes()).await.unwrap();
    was_asked.recv().await.unwrap();
    // This test has one thread for everything that does not wait.
    assert_eq!(tenants.get("all", "/healthz").await.status, 200);
    go_on.send(()).unwrap();
    assert_eq!(refused(&Answer::read(&mut waiting).await).1, "invalid_api_key");
}

//! What the job API says to bodies, parameters and too much at once.

use std::time::Duration;

use mesh_node::api::v1::limits::{Limits, Share};
use tokio::io::AsyncWriteExt;

use crate::answers::JOB;
use crate::scripted::USED_KEY;
use crate::tenants::{Tenants, refused};
use crate::world::Answer;

const JOB_BODY: &str = r#"{"language":"python","code":"print(1)"}"#;

fn code(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn an_accepted_job_has_its_place_and_says_whether_it_was_there_before() {
    let tenants = Tenants::new();
    let answer = tenants.submit("all", "Idempotency-Key: k1\r\n", JOB_BODY).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("location"), Some(format!("/v1/jobs/{JOB}").as_str()));
    assert_eq!(answer.header("idempotency-replayed"), Some("false"));
    assert_eq!(
        (&answer.json()["job_id"], &answer.json()["status"]),
        (&JOB.to_string().into(), &"queued".into())
    );
    assert_eq!(tenants.service.calls(), ["run acme python 8 bytes"]);
}

#[tokio::test]
async fn each_thing_wrong_with_a_body_has_its_code_and_nothing_is_run() {
    let tenants = Tenants::new();
    let json = |members: &str| format!(r#"{{"language":"python","code":"1"{members}}}"#);
    let file = |path: &str, content: &str| {
        json(&format!(r#","files":[{{"path":"{path}","content_base64":"{content}"}}]"#))
    };
    let twice = r#","files":[{"path":"input/a","content_base64":""},{"path":"input/a","content_base64":""}]"#;
    let long = |name: &str| {
        let text = "x".repeat(1024 * 1024 + 1);
        match name {
            "code" => format!(r#"{{"language":"python","code":"{text}"}}"#),
            _ => json(&format!(r#","stdin":"{text}""#)),
        }
    };
    let many: Vec<String> = (0..200).map(|at| format!(r#""output/{at}""#)).collect();
    for (body, expected) in [
        ("{".to_owned(), code(400, "invalid_json")),
        (format!("{JOB_BODY} x"), code(400, "invalid_json")),
        (r#"{"language":"python","code":5}"#.to_owned(), code(400, "invalid_json")),
        (json(r#","surprise":1"#), code(400, "invalid_json")),
        (r#"{"language":"cobol","code":"1"}"#.to_owned(), code(400, "unsupported_language")),
        (r#"{"language":"python","code":" \n"}"#.to_owned(), code(400, "empty_code")),
        (long("code"), code(413, "code_too_large")),
        (long("stdin"), code(413, "stdin_too_large")),
        (file("input/../x", ""), code(400, "invalid_input_path")),
        (file("/etc/passwd", ""), code(400, "invalid_input_path")),
        (file("input/x", "!"), code(400, "invalid_input_base64")),
        (json(twice), code(400, "duplicate_input_path")),
        (json(r#","outputs":["output/../x"]"#), code(400, "invalid_output_path")),
        (json(r#","outputs":["output/a","output/a"]"#), code(400, "duplicate_output_path")),
        (json(&format!(r#","outputs":[{}]"#, many.join(","))), code(413, "too_many_output_files")),
        (json(r#","limits":{"allow_network":true}"#), code(400, "network_opt_in_unsupported")),
        (
            json(r#","requirements":{"minimum_isolation":"hardware-vm"}"#),
            code(422, "minimum_isolation_unsatisfied"),
        ),
    ] {
        assert_eq!(refused(&tenants.submit("all", "", &body).await), expected, "{body:.90}");
    }
    assert!(tenants.service.calls().is_empty());
    let clamped = json(r#","limits":{"wall_seconds":4000000000}"#);
    assert_eq!(tenants.submit("all", "", &clamped).await.status, 201);
}

#[tokio::test]
async fn a_body_of_another_type_too_large_or_too_slow_has_its_status() {
    let limits = Limits { body_within: Duration::from_millis(200), ..Limits::default() };
    let tenants = Tenants::with(limits);
    let head = tenants.head("all", "POST /v1/jobs");
    let length = format!("Content-Length: {}\r\n\r\n", JOB_BODY.len());
    let text = tenants.raw(&format!("{head}Content-Type: text/plain\r\n{length}{JOB_BODY}")).await;
    assert_eq!(refused(&text), code(415, "unsupported_media_type"));
    let json = "Content-Type: application/json\r\n";
    let large = tenants.raw(&format!("{head}{json}Content-Length: 99000000\r\n\r\n")).await;
    assert_eq!(refused(&large), code(413, "request_body_too_large"));
    assert_eq!(large.header("connection"), Some("close"));
    let slow = tenants.raw(&format!("{head}{json}Content-Length: 10\r\n\r\n{{")).await;
    assert_eq!(refused(&slow), code(408, "request_body_timeout"));
}

#[tokio::test]
async fn the_worst_job_there_may_be_is_taken_in_and_a_broken_one_leaves_the_connection_open() {
    let tenants = Tenants::new();
    let worst = "\\u0001".repeat(1024 * 1024);
    let body = format!(r#"{{"language":"python","code":"x{}","stdin":"{worst}"}}"#, &worst[6..]);
    assert_eq!(tenants.submit("all", "", &body).await.status, 201);
    let head = tenants.head("all", "POST /v1/jobs").replace("Connection: close\r\n", "");
    let broken = format!("{head}Content-Type: application/json\r\nContent-Length: 1\r\n\r\n{{");
    let next = format!("{}\r\n", tenants.head("all", "GET /v1/whoami"));
    let both = tenants.raw(&format!("{broken}{next}")).await;
    assert_eq!(both.status, 400);
    assert_eq!(both.header("connection"), None);
    assert!(both.body.contains("invalid_json") && both.body.contains("HTTP/1.1 200 OK"), "{}", both.body);
}

#[tokio::test]
async fn an_idempotency_key_that_is_none_is_refused() {
    let tenants = Tenants::new();
    let long = "k".repeat(129);
    for headers in
        ["Idempotency-Key:\r\n", "Idempotency-Key: a b\r\n", "Idempotency-Key: a\r\nIdempotency-Key: a\r\n"]
    {
        let answer = tenants.submit("all", headers, JOB_BODY).await;
        assert_eq!(refused(&answer), code(400, "invalid_idempotency_key"), "{headers}");
    }
    let answer = tenants.submit("all", &format!("Idempotency-Key: {long}\r\n"), JOB_BODY).await;
    assert_eq!(refused(&answer), code(400, "invalid_idempotency_key"));
    assert!(tenants.service.calls().is_empty());
    let most = tenants.submit("all", &format!("Idempotency-Key: {}\r\n", &long[1..]), JOB_BODY).await;
    assert_eq!(most.status, 201);
}

#[tokio::test]
async fn parameters_out_of_bounds_have_their_codes() {
    let tenants = Tenants::new();
    let job = format!("/v1/jobs/{JOB}");
    for (path, expected) in [
        ("/v1/jobs?limit=0".to_owned(), "invalid_limit"),
        ("/v1/jobs?limit=501".to_owned(), "invalid_limit"),
        ("/v1/jobs?status=done".to_owned(), "invalid_status"),
        ("/v1/jobs?language=cobol".to_owned(), "unsupported_language"),
        ("/v1/jobs?colour=red".to_owned(), "unknown_query_parameter"),
        ("/v1/jobs?limit=1&limit=2".to_owned(), "invalid_query"),
        (format!("{job}/result?wait_seconds=301"), "invalid_wait_seconds"),
        (format!("{job}/result?wait_seconds=-1"), "invalid_wait_seconds"),
        (format!("{job}/replay?after=x"), "invalid_cursor"),
        (format!("{job}/replay?limit=5001"), "invalid_limit"),
    ] {
        assert_eq!(refused(&tenants.get("all", &path).await), code(400, expected), "{path}");
    }
    assert!(tenants.service.calls().is_empty());
    assert_eq!(tenants.get("all", "/v1/jobs?limit=500&status=timed_out&language=node").await.status, 200);
}

#[tokio::test]
async fn a_tenant_that_asks_too_often_waits_and_others_do_not() {
    let tenants = Tenants::with(Limits { requests_per_minute: 3, ..Limits::default() });
    for _ in 0..3 {
        assert_eq!(tenants.get("all", "/v1/whoami").await.status, 200);
    }
    let limited = tenants.submit("read", "", JOB_BODY).await;
    assert_eq!(
        refused(&limited),
        code(429, "rate_limit_exceeded"),
        "before the scope, for all keys of the tenant"
    );
    assert_eq!(limited.header("retry-after"), Some("1"));
    assert_eq!(tenants.get("other", "/v1/whoami").await.status, 200);
}

#[tokio::test]
async fn waits_take_room_that_others_keep_and_that_comes_back_when_a_client_hangs_up() {
    let share = Share { all: 2, each: 1 };
    let tenants = Tenants::with(Limits { waits: share, ..Limits::default() });
    let wait = format!("/v1/jobs/{JOB}/result?wait_seconds=300");
    let mut waiting = tenants.connect().await;
    waiting
        .write_all(format!("{}\r\n", tenants.head("all", &format!("GET {wait}"))).as_bytes())
        .await
        .unwrap();
    tenants.service.asked(2).await;
    assert_eq!(refused(&tenants.get("read", &wait).await), code(429, "tenant_result_wait_capacity"));
    let now = tenants.get("read", &format!("/v1/jobs/{JOB}/result?wait_seconds=0")).await;
    assert_eq!(
        (now.status, &now.json()["status"]),
        (202, &"running".into()),
        "who does not wait needs no room"
    );
    drop(waiting);
    // The place is free once the server has noticed; until then it is refused, and never anything else.
    let waits = async |more_than: usize| {
        let waiting = || tenants.service.calls().iter().filter(|call| call.starts_with("job_result")).count();
        while waiting() <= more_than {
            tenants.service.asked(tenants.service.calls().len() + 1).await;
        }
    };
    let mut again;
    loop {
        again = tenants.connect().await;
        again
            .write_all(format!("{}\r\n", tenants.head("all", &format!("GET {wait}"))).as_bytes())
            .await
            .unwrap();
        tokio::select! {
            answer = Answer::read(&mut again) => {
                assert_eq!(refused(&answer), code(429, "tenant_result_wait_capacity"));
            }
            () = waits(1) => break,
        }
    }
    tenants.stopping.cancel();
    assert_eq!(
        refused(&Answer::read(&mut again).await),
        code(503, "shutting_down"),
        "waits end when the node stops"
    );
}

#[tokio::test]
async fn a_wait_ends_with_the_job() {
    let tenants = Tenants::new();
    let path = format!("/v1/jobs/{JOB}/result?wait_seconds=300");
    let (answer, ()) = tokio::join!(tenants.get("all", &path), async {
        tenants.service.asked(2).await;
        tenants.service.end();
    });
    assert_eq!((answer.status, &answer.json()["status"]), (200, &"succeeded".into()));
}

#[tokio::test]
async fn bodies_being_read_take_room_of_their_tenant() {
    let share = Share { all: 2, each: 1 };
    let tenants = Tenants::with(Limits { bodies: share, ..Limits::default() });
    let json = "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 39\r\n\r\n";
    let mut slow = tenants.connect().await;
    slow.write_all(format!("{}{json}", tenants.head("all", "POST /v1/jobs")).as_bytes()).await.unwrap();
    // The server asks for the body only when it reads it, and by then the place is taken.
    let mut go = [0; 25];
    tokio::io::AsyncReadExt::read_exact(&mut slow, &mut go).await.unwrap();
    assert_eq!(&go, b"HTTP/1.1 100 Continue\r\n\r\n");
    let second = tenants.submit("all", "", JOB_BODY).await;
    assert_eq!(refused(&second), code(429, "tenant_submit_body_capacity"));
    assert_eq!(tenants.submit("other", "", JOB_BODY).await.status, 201);
    slow.write_all(JOB_BODY.as_bytes()).await.unwrap();
    assert_eq!(Answer::read(&mut slow).await.status, 201);
}

#[tokio::test]
async fn a_used_key_is_said_before_what_is_wrong_with_the_job_and_so_is_that_the_node_stops() {
    let tenants = Tenants::new();
    let broken = r#"{"language":"cobol","code":"1"}"#;
    let used = format!("Idempotency-Key: {USED_KEY}\r\n");
    assert_eq!(refused(&tenants.submit("all", &used, broken).await), code(422, "idempotency_key_reused"));
    for headers in ["", "Idempotency-Key: new\r\n"] {
        assert_eq!(refused(&tenants.submit("all", headers, broken).await), code(400, "unsupported_language"));
    }
    assert_eq!(
        refused(&tenants.submit("all", &used, "{").await),
        code(400, "invalid_json"),
        "that is no job"
    );
    let mut open = tenants.connect().await;
    let head = tenants.head("all", "POST /v1/jobs");
    let length = broken.len();
    let typed = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    open.write_all(format!("{head}Expect: 100-continue\r\n{typed}").as_bytes()).await.unwrap();
    let mut go = [0; 25];
    tokio::io::AsyncReadExt::read_exact(&mut open, &mut go).await.unwrap();
    tenants.stopping.cancel();
    open.write_all(broken.as_bytes()).await.unwrap();
    assert_eq!(refused(&Answer::read(&mut open).await), code(503, "shutting_down"));
    assert!(tenants.service.calls().is_empty());
}

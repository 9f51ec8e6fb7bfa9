//! HTTP as every client sees it: headers, hosts, errors.

use mesh_protocol::api::error::{ApiError, ErrorKind};

use crate::answers::JOB;
use crate::scripted::MISSING;
use crate::world::World;

const JSON: &str = "Content-Type: application/json\r\n";

#[tokio::test]
async fn every_answer_has_an_id_of_ours_and_is_not_cached() {
    let world = World::new();
    let mine = "x-request-id: mine\r\n";
    for line in ["GET /v1/status", "GET /nowhere", "PATCH /v1/status", "GET /v1/jobs/nonsense"] {
        let answer = world.request(line, mine, "").await;
        let id: uuid::Uuid = answer.header("x-request-id").unwrap().parse().unwrap();
        assert_eq!(id.get_version_num(), 7, "{line}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{line}");
        assert_eq!(answer.header("mesh-schema"), Some("1"), "{line}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{line}");
    }
}

#[tokio::test]
async fn only_our_own_host_and_origin_are_served_on_any_route() {
    let world = World::new();
    let cases = [
        ("Host: mesh.local\r\n", 200),
        ("Host: MESH.local\r\n", 200),
        ("Host: mesh.local\r\nOrigin: http://mesh.local\r\n", 200),
        ("", 403),
        ("Host: localhost\r\n", 403),
        ("Host: mesh.local.example.org\r\n", 403),
        ("Host: mesh.local\r\nHost: mesh.local\r\n", 403),
        ("Host: mesh.local\r\nOrigin: http://example.org\r\n", 403),
        ("Host: mesh.local\r\nOrigin: https://mesh.local\r\n", 403),
        ("Host: mesh.local\r\nOrigin: null\r\n", 403),
    ];
    for (headers, status) in cases {
        let head = |path| format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        assert_eq!(world.raw(&head("/v1/status")).await.status, status, "{headers}");
        let elsewhere = if status == 200 { 404 } else { status };
        assert_eq!(world.raw(&head("/nowhere")).await.status, elsewhere, "{headers}");
    }
    let absolute =
        "GET http://example.org/v1/status HTTP/1.1\r\nHost: mesh.local\r\nConnection: close\r\n\r\n";
    assert_eq!(world.raw(absolute).await.status, 403);
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_named() {
    let world = World::new();
    let (other, text) = ("GET /v1/flights/abcd1234", "Content-Type: text/plain\r\n");
    let cases = [
        ("GET /nowhere", "", "", 404, "no_such_route", ""),
        ("GET /v1/blocks/", "", "", 404, "no_such_route", ""),
        ("GET /v1/shutdown", "", "", 405, "method_not_allowed", ""),
        ("GET /v1/status?x=1", "", "", 400, "parameter_invalid", "`x`"),
        ("GET /v1/jobs?wait_seconds=1", "", "", 400, "parameter_invalid", "`wait_seconds`"),
        ("GET /v1/jobs?limit=0", "", "", 400, "parameter_invalid", "limit"),
        ("GET /v1/jobs?limit=501", "", "", 400, "parameter_invalid", "limit"),
        ("GET /v1/jobs?limit=many", "", "", 400, "parameter_invalid", "limit"),
        ("GET /v1/jobs?limit=1&limit=2", "", "", 400, "parameter_invalid", "limit"),
        ("GET /v1/flights?state=lost", "", "", 400, "parameter_invalid", "state"),
        ("GET /v1/messages?agent=a%20b", "", "", 400, "parameter_invalid", "agent"),
        ("GET /v1/flights/abcd1234?wait_seconds=301", "", "", 400, "parameter_invalid", "0 to 300"),
        ("GET /v1/flights/abcd1234?wait_seconds=-1", "", "", 400, "parameter_invalid", "wait_seconds"),
        ("GET /v1/jobs/nonsense", "", "", 400, "path_invalid", "`nonsense` is not a job id"),
        ("GET /v1/flights/%ff", "", "", 400, "path_invalid", "UTF-8"),
        ("POST /v1/resolve", "", "{}", 415, "content_type_unsupported", "application/json"),
        ("POST /v1/resolve", text, "{}", 415, "content_type_unsupported", "application/json"),
        ("POST /v1/resolve", JSON, "{", 400, "body_not_json", "EOF"),
        ("POST /v1/resolve", JSON, "{\"to\":\"@a\"} x", 400, "body_not_json", "trailing"),
        ("POST /v1/resolve", JSON, "{\"to\":1}", 400, "field_invalid", "`to`"),
        ("POST /v1/resolve", JSON, "{\"to\":\"@a\",\"as\":1}", 400, "field_invalid", "`as`"),
        (
            "POST /v1/jobs",
            JSON,
            "{\"spec\":{\"language\":\"perl\"}}",
            400,
            "field_invalid",
            "`spec.language`",
        ),
    ];
    for (line, headers, body, status, code, names) in cases {
        let answer = world.request(line, headers, body).await;
        let (found, message) = answer.error();
        assert_eq!((answer.status, found.as_str()), (status, code), "{line} {body}");
        assert!(message.contains(names), "{line} {body}: {message}");
    }
    let long = format!("{other}{}", "x".repeat(200));
    assert_eq!(world.request(&long, "", "").await.status, 400);
    assert_eq!(world.service.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn the_service_s_refusal_reaches_the_caller_whole() {
    let world = World::new();
    let answer = world.request(&format!("GET /v1/flights/{MISSING}"), "", "").await;
    let body: mesh_node::api::ErrorBody = serde_json::from_str(&answer.body).unwrap();
    let expected = ApiError::new(ErrorKind::NotFound, "no_such_flight", "there is no such flight");
    assert_eq!((answer.status, body.error), (404, expected.hint("`mesh-cli flights` lists them")));
}

#[tokio::test]
async fn what_was_made_has_its_place_in_the_answer() {
    let world = World::new();
    let spec = "{\"spec\":{\"language\":\"python\",\"code\":\"1\"}}";
    let run = world.request("POST /v1/jobs", "Content-Type: Application/JSON; charset=utf-8\r\n", spec).await;
    assert_eq!((run.status, run.header("location")), (201, Some(format!("/v1/jobs/{JOB}").as_str())));
    let ask = world.json("POST /v1/asks", "{\"to\":\"@a\",\"task\":\"x\"}").await;
    assert_eq!(ask.status, 201);
    assert!(ask.header("location").unwrap().starts_with("/v1/flights/flt-"));
    let pending = world.request(&format!("GET /v1/jobs/{JOB}/result"), "", "").await;
    assert_eq!(pending.status, 202);
    world.service.end();
    let ended = world.request(&format!("GET /v1/jobs/{JOB}/result?wait_seconds=300"), "", "").await;
    assert_eq!(ended.status, 200);
}

//! Who may do what, and the credentials that say who.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mesh_node::api::limits::SESSIONS_MAX;
use mesh_node::api::operation::Operation;
use mesh_node::api::tokens::{Token, TokenError, Tokens};

use crate::world::World;

/// What agents may use, written out a second time: a change of the table must be made in both places.
const FOR_AGENTS: [&str; 21] = [
    "whoami",
    "agents",
    "resolve",
    "send",
    "send_batch",
    "messages",
    "ask",
    "flights",
    "flight",
    "cancel_flight",
    "run",
    "jobs",
    "job",
    "job_result",
    "job_events",
    "job_outputs",
    "job_capabilities",
    "attestation",
    "result_artifact",
    "cancel_job",
    "evidence",
];

/// The request line of an operation, its varying part filled in.
fn line(operation: Operation) -> String {
    let id = match operation.path().starts_with("/v1/jobs") {
        true => crate::answers::JOB.to_string(),
        false => "abcd1234".to_owned(),
    };
    let path = operation.path().replace("{id}", &id).replace("{peer}", "borea");
    format!("{} {path}", operation.verb().method())
}

#[tokio::test]
async fn each_credential_opens_its_own_operations_and_no_other() {
    let world = World::new();
    let session = world.tokens.mint("reviewer".parse().unwrap(), None).unwrap();
    let stranger = "a".repeat(52);
    for operation in Operation::ALL {
        let (name, line) = (operation.name(), line(operation));
        let for_agents = FOR_AGENTS.contains(&name);
        let callers = [
            (Some(world.operator()), 0),
            (Some(session.token().expose()), if for_agents || name == "status" { 0 } else { 403 }),
            (None, if name == "status" { 0 } else { 401 }),
            (Some(stranger.as_str()), 401),
        ];
        for (token, refused) in callers {
            let answer = world.request_as(token, &line, "", "").await;
            // An allowed request without a body gets as far as 415 or further.
            let refusal = if matches!(answer.status, 401 | 403) { answer.status } else { 0 };
            assert_eq!(refusal, refused, "{name} with {token:?}: {answer:?}");
            assert!(answer.status < 500 && answer.status != 404, "{name}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn the_service_is_told_which_agent_asks() {
    let world = World::new();
    let session = world.tokens.mint("reviewer".parse().unwrap(), None).unwrap();
    world.request_as(Some(session.token().expose()), "GET /v1/agents", "", "").await;
    world.request_as(None, "GET /v1/status", "", "").await;
    assert_eq!(world.service.calls(), ["agents reviewer", "status nobody"]);
}

#[tokio::test]
async fn a_session_s_token_ends_with_the_session() {
    let world = World::new();
    let session = world.tokens.mint("reviewer".parse().unwrap(), None).unwrap();
    let token = session.token().expose().to_owned();
    assert_eq!(world.request_as(Some(&token), "GET /v1/whoami", "", "").await.status, 200);
    drop(session);
    let answer = world.request_as(Some(&token), "GET /v1/whoami", "", "").await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "credential_unknown"));
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
}

#[tokio::test]
async fn a_credential_is_one_bearer_token_or_refused() {
    let world = World::new();
    let token = world.operator();
    let twice = format!("Authorization: Bearer {token}\r\nAuthorization: Bearer {token}\r\n");
    let basic = format!("Authorization: Basic {token}\r\n");
    let long = format!("Authorization: Bearer {}\r\n", "a".repeat(300));
    for headers in [twice.as_str(), &basic, &long, "Authorization:\r\n"] {
        let answer = world.request_as(None, "GET /v1/status", headers, "").await;
        assert_eq!(answer.status, 401, "{headers}");
        assert!(!answer.body.contains(token));
    }
    let lower = format!("authorization: bearer {token}\r\n");
    assert_eq!(world.request_as(None, "GET /v1/doctor", &lower, "").await.status, 200);
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_operator_s_token_is_made_once_and_for_its_owner_only() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("tokens").join("operator");
    let token = Token::read_or_create(&path).unwrap();
    assert_eq!(Token::read_or_create(&path).unwrap(), token);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn a_token_file_others_could_have_read_is_refused_with_a_way_out() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("operator");
    Token::read_or_create(&path).unwrap();
    for mode in [0o640, 0o604, 0o620] {
        chmod(&path, mode);
        let error = Token::read_or_create(&path).unwrap_err();
        assert!(matches!(error, TokenError::Exposed { mode: found, .. } if found == mode), "{error}");
        assert!(error.hints()[0].contains("rm "));
    }
}

#[test]
fn a_token_file_that_is_a_link_or_no_token_is_refused_and_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let (real, link, short) = (home.path().join("real"), home.path().join("link"), home.path().join("short"));
    Token::read_or_create(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert!(matches!(Token::read_or_create(&link), Err(TokenError::File { .. })));
    std::fs::write(&short, "abc\n").unwrap();
    chmod(&short, 0o600);
    assert!(matches!(Token::read_or_create(&short), Err(TokenError::Malformed { .. })));
    assert_eq!(std::fs::read_to_string(&short).unwrap(), "abc\n");
}

#[test]
fn no_debug_text_shows_a_token() {
    let home = tempfile::tempdir().unwrap();
    let token = Token::read_or_create(&home.path().join("operator")).unwrap();
    let tokens = Tokens::new(&token);
    let session = tokens.mint("reviewer".parse().unwrap(), None).unwrap();
    let shown = format!("{token:?} {tokens:?} {session:?}");
    assert!(!shown.contains(token.expose()) && !shown.contains(session.token().expose()), "{shown}");
}

#[test]
fn sessions_are_bounded_and_make_room_when_they_end() {
    let home = tempfile::tempdir().unwrap();
    let tokens = Tokens::new(&Token::read_or_create(&home.path().join("operator")).unwrap());
    let mint = || tokens.mint("reviewer".parse().unwrap(), None);
    let mut sessions: Vec<_> = (0..SESSIONS_MAX).map(|_| mint().unwrap()).collect();
    assert!(matches!(mint(), Err(TokenError::Full)));
    sessions.pop();
    assert!(mint().is_ok());
}

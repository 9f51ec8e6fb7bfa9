//! Every operation, from the client through the socket to the service and back.

use std::collections::BTreeSet;

use mesh_node::api::operation::Operation;
use mesh_node::service::{FlightFilter, MessageFilter};
use mesh_protocol::api::ask::{AskCommand, ResolveRequest, SendBatch, SendRequest};
use mesh_protocol::api::job::{JobFilter, RunRequest};
use mesh_protocol::api::mesh::{ExpelRequest, GrantRequest, InviteRequest};
use mesh_protocol::flight::FlightState;
use mesh_protocol::id::{ConversationId, FlightId};
use mesh_protocol::job::{CODE_BYTES_MAX, JobStatus, Language};
use mesh_protocol::policy::Trust;
use proptest::prelude::*;

use crate::answers::{self, JOB};
use crate::scripted::EVIDENCE;
use crate::world::World;

fn expel(peer: &str) -> ExpelRequest {
    ExpelRequest { peer: peer.into(), reason: "lost".into() }
}

fn job(code: &str) -> RunRequest {
    let spec = serde_json::from_value(serde_json::json!({"language": "python", "code": code})).unwrap();
    RunRequest::new(spec)
}

#[tokio::test]
async fn asks_and_messages_go_there_and_come_back() {
    let world = World::new();
    let client = world.client();
    let conversation = ConversationId::from_bytes([2; 16]);
    assert_eq!(client.status().await.unwrap(), answers::status());
    assert_eq!(client.doctor().await.unwrap()[0].name, "socket");
    assert_eq!(client.whoami().await.unwrap().may.len(), Operation::ALL.len());
    assert_eq!(client.agents().await.unwrap(), [answers::agent("@reviewer")]);
    let to = || "@reviewer".to_owned();
    assert_eq!(client.resolve(&ResolveRequest { to: to() }).await.unwrap(), answers::agent("@reviewer"));
    let send = SendRequest { to: to(), body: "hello".into(), request_id: None };
    assert_eq!(client.send(&send, 3).await.unwrap(), answers::receipt(None));
    let many = SendBatch { messages: vec![send.clone(), SendRequest { body: "again".into(), ..send }] };
    assert_eq!(client.send_batch(&many, 4).await.unwrap(), answers::sent_batch());
    let of = MessageFilter { conversation: Some(conversation), agent: Some("reviewer".parse().unwrap()) };
    assert_eq!(client.messages(&of, 7).await.unwrap(), []);
    let ask = AskCommand { to: to(), task: "look".into(), request_id: None, deadline_seconds: None };
    let flight_id = FlightId::from_bytes([1; 16]);
    assert_eq!(client.ask(&ask).await.unwrap(), answers::receipt(Some(flight_id)));
    let waiting = FlightFilter { state: Some(FlightState::Waiting) };
    let running = answers::flight(FlightState::Running);
    assert_eq!(client.flights(&waiting, 500).await.unwrap(), std::slice::from_ref(&running));
    assert_eq!(client.flight("abcd1234", 0).await.unwrap(), running);
    assert_eq!(client.cancel_flight("abcd1234").await.unwrap(), answers::cancelled());
    let expected = [
        "status operator".to_owned(),
        "doctor operator".to_owned(),
        "whoami operator".to_owned(),
        "agents operator".to_owned(),
        "resolve operator @reviewer".to_owned(),
        "send operator @reviewer hello 3".to_owned(),
        "send_batch operator hello again 4".to_owned(),
        format!("messages operator Some(\"{conversation}\") Some(\"reviewer\") 7"),
        "ask operator @reviewer look".to_owned(),
        "flights operator Some(Waiting) 500".to_owned(),
        "flight operator abcd1234 0".to_owned(),
        "cancel_flight operator abcd1234".to_owned(),
    ];
    assert_eq!(world.service.calls(), expected);
}

#[tokio::test]
async fn jobs_and_trust_go_there_and_come_back() {
    let world = World::new();
    let client = world.client();
    let running = answers::job(JOB, JobStatus::Running);
    assert_eq!(client.run(&job("print(1)")).await.unwrap(), answers::job_receipt());
    let filter = JobFilter {
        status: Some(JobStatus::Running),
        language: Some(Language::Python),
        cursor: Some("9:job".to_owned()),
    };
    let page = client.jobs(&filter, 3).await.unwrap();
    assert_eq!((page.jobs, page.next_cursor.as_deref()), (vec![running.clone()], Some("12:job")));
    assert_eq!(client.job_events(JOB, 7, 0).await.unwrap().next_cursor, 7);
    assert_eq!(client.job_outputs(JOB).await.unwrap(), []);
    assert_eq!(client.job_capabilities().await.unwrap(), answers::capabilities());
    assert_eq!(client.attestation(JOB).await.unwrap(), "envelope");
    assert_eq!(client.result_artifact(JOB).await.unwrap(), "artifact");
    assert_eq!(client.job(JOB).await.unwrap(), running);
    assert_eq!(client.job_result(JOB, 0).await.unwrap(), running);
    assert_eq!(client.cancel_job(JOB).await.unwrap(), answers::cancelled());
    assert_eq!(client.evidence(JOB).await.unwrap(), EVIDENCE);
    assert_eq!(client.outboxes().await.unwrap(), [answers::outbox("borea")]);
    assert_eq!(client.discard_outbox("borea").await.unwrap(), answers::outbox("borea"));
    let invite = InviteRequest { ttl_seconds: 60, trust: Trust::Mine };
    assert_eq!(client.invite(&invite).await.unwrap(), answers::ticket());
    let (allow, deny) = (Vec::new(), Vec::new());
    let grant = GrantRequest { peer: "borea".into(), trust: None, allow, deny, agents: None };
    assert_eq!(client.grant(&grant).await.unwrap(), answers::granted("borea"));
    assert_eq!(client.revoke(&expel("borea")).await.unwrap(), answers::expelled("borea"));
    assert_eq!(client.block(&expel("borea")).await.unwrap(), answers::expelled("borea"));
    assert_eq!(client.unblock("borea").await.unwrap(), answers::expelled("borea"));
    assert_eq!(client.route("borea").await.unwrap(), answers::route("borea"));
    assert_eq!(client.ping("borea").await.unwrap(), answers::pong("borea"));
    client.shutdown().await.unwrap();
    let expected = [
        "run operator python 8 bytes".to_owned(),
        format!("jobs operator {filter:?} 3"),
        format!("job_events operator {JOB} 7 0"),
        format!("job_outputs operator {JOB}"),
        "job_capabilities operator".to_owned(),
        format!("attestation operator {JOB}"),
        format!("result_artifact operator {JOB}"),
        format!("job operator {JOB}"),
        format!("job_result operator {JOB} 0"),
        format!("cancel_job operator {JOB}"),
        format!("evidence operator {JOB}"),
        "outboxes operator".to_owned(),
        "discard_outbox operator borea".to_owned(),
        "invite operator 60".to_owned(),
        "grant operator borea".to_owned(),
        "revoke operator borea".to_owned(),
        "block operator borea".to_owned(),
        "unblock operator borea".to_owned(),
        "route operator borea".to_owned(),
        "ping operator borea".to_owned(),
        "shutdown operator".to_owned(),
    ];
    assert_eq!(world.service.calls(), expected);
}

#[test]
fn no_two_operations_share_a_name_or_a_route() {
    let names: BTreeSet<_> = Operation::ALL.iter().map(|operation| operation.name()).collect();
    let routes: BTreeSet<_> = Operation::ALL
        .iter()
        .map(|operation| (operation.verb().method().to_string(), operation.path()))
        .collect();
    assert_eq!((names.len(), routes.len()), (Operation::ALL.len(), Operation::ALL.len()));
}

#[tokio::test]
async fn a_job_of_the_largest_code_fits() {
    let world = World::new();
    let code = "x".repeat(CODE_BYTES_MAX);
    world.client().run(&job(&code)).await.unwrap();
    assert_eq!(world.service.calls(), [format!("run operator python {CODE_BYTES_MAX} bytes")]);
}

#[tokio::test]
async fn many_requests_of_one_client_run_side_by_side() {
    let world = World::new();
    let client = world.client();
    let tasks = (0..32).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.flight("abcd1234", 60).await })
    });
    let tasks: Vec<_> = tasks.collect();
    world.service.asked(32).await;
    world.service.end();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().state, FlightState::Completed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_name_of_a_peer_arrives_as_it_was_given(peer in "\\PC{1,40}") {
        prop_assume!(peer.len() <= 128);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reply = runtime.block_on(async {
            let world = World::new();
            world.client().unblock(&peer).await.unwrap()
        });
        prop_assert_eq!(reply, answers::expelled(&peer));
    }
}

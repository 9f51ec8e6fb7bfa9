//! The job API described as OpenAPI 3.1: made from the table of routes and the documents' own types, so that it names
//! every route there is and no other.

use axum::Json;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::documents::{
    Accepted, Cancelled, Capabilities, Detail, ErrorBody, Health, Outcome, Page, PublicKey, Replay, Service,
    StreamTicket, Whoami,
};
use super::route::{Access, Route};
use crate::api::operation::Verb;

/// A job, as it is submitted. What reads it is `mesh_protocol::job::JobDocument`; a test holds the two together.
#[derive(JsonSchema)]
#[schemars(rename = "Job", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Job {
    /// `python`, `node` or `bash`.
    language: String,
    /// The program.
    code: String,
    /// What it reads on standard input.
    stdin: Option<String>,
    /// What it may use; clamped to the bounds of `/v1/capabilities`.
    limits: Option<JobLimits>,
    /// What it insists on.
    requirements: Option<JobRequirements>,
    /// Files it finds, below `input/`.
    files: Option<Vec<JobFile>>,
    /// Files it is to leave, below `output/`.
    outputs: Option<Vec<String>>,
    /// The runtime pack to run it in.
    runtime: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct JobLimits {
    wall_seconds: Option<u32>,
    cpu_seconds: Option<u32>,
    mem_mb: Option<u32>,
    max_pids: Option<u32>,
    max_file_mb: Option<u32>,
    /// Always refused: jobs have no network.
    allow_network: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct JobRequirements {
    minimum_isolation: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct JobFile {
    path: String,
    content_base64: String,
}

/// The document.
pub(super) async fn document() -> Json<Value> {
    Json(described())
}

fn described() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut schemas = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in Route::ALL {
        let operation = operation(route, &mut schemas);
        let path = paths.entry(route.path()).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.verb().method().as_str().to_ascii_lowercase(), operation);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Mesh job API", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "metricsToken": {"type": "http", "scheme": "bearer"},
                "ticket": {"type": "apiKey", "in": "query", "name": "ticket"},
            },
        },
    })
}

fn operation(route: Route, schemas: &mut SchemaGenerator) -> Value {
    let answer = |schema: &Value| json!({"description": "as asked", "content": schema});
    let typed = json!({"application/json": {"schema": schemas.subschema_for::<ErrorBody>()}});
    let mut responses = json!({"default": {"description": "a refusal, with a code", "content": typed}});
    for status in successes(route) {
        responses[*status] = answer(&content(route, schemas));
    }
    let mut operation = json!({
        "operationId": format!("{route:?}"),
        "summary": route.summary(),
        "security": security(route.access()),
        "parameters": parameters(route),
        "responses": responses,
    });
    if route == Route::Submit {
        let schema = schemas.subschema_for::<Job>();
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    operation
}

const fn successes(route: Route) -> &'static [&'static str] {
    match route {
        Route::Submit => &["201"],
        Route::Result => &["200", "202"],
        Route::Stream => &["101"],
        Route::OAuth => &[],
        _ => &["200"],
    }
}

fn security(access: Access) -> Value {
    match access {
        Access::Anyone => json!([]),
        Access::Key(scope) => json!([{"key": [scope.name()]}]),
        Access::KeyOrTicket(scope) => json!([{"key": [scope.name()]}, {"ticket": []}]),
        Access::MetricsToken => json!([{"metricsToken": []}]),
    }
}

fn parameters(route: Route) -> Vec<Value> {
    let in_path = route.path().contains("{id}").then_some(("id", "path"));
    let in_query = route.parameters().iter().map(|name| (*name, "query"));
    let key = (route.verb() == Verb::Post && route == Route::Submit).then_some(("Idempotency-Key", "header"));
    let all = in_path.into_iter().chain(in_query).chain(key);
    let number = |name| matches!(name, "limit" | "after" | "wait_seconds");
    all.map(|(name, place)| {
        let kind = if number(name) { "integer" } else { "string" };
        json!({"name": name, "in": place, "required": place == "path", "schema": {"type": kind}})
    })
    .collect()
}

/// What a route answers when all is well.
fn content(route: Route, schemas: &mut SchemaGenerator) -> Value {
    let schema = match route {
        Route::Submit => schemas.subschema_for::<Accepted>(),
        Route::List => schemas.subschema_for::<Page>(),
        Route::Show => schemas.subschema_for::<Detail>(),
        Route::Cancel => schemas.subschema_for::<Cancelled>(),
        Route::Result => schemas.subschema_for::<Outcome>(),
        Route::Replay => schemas.subschema_for::<Replay>(),
        Route::StreamTicket => schemas.subschema_for::<StreamTicket>(),
        Route::PublicKey => schemas.subschema_for::<PublicKey>(),
        Route::Capabilities => schemas.subschema_for::<Capabilities>(),
        Route::Status => schemas.subschema_for::<Service>(),
        Route::Whoami | Route::WhoamiShort => schemas.subschema_for::<Whoami>(),
        Route::Health | Route::Ready => schemas.subschema_for::<Health>(),
        Route::OpenApi => schemars::json_schema!({"type": "object"}),
        Route::Stream | Route::OAuth => return json!({}),
        Route::TenantMetrics | Route::Metrics => return json!({"text/plain": {"schema": {"type": "string"}}}),
        Route::Attestation => return json!({mesh_protocol::evidence::dsse::MEDIA_TYPE: {}}),
        Route::ResultArtifact => return json!({mesh_protocol::evidence::artifact::MEDIA_TYPE: {}}),
    };
    json!({"application/json": {"schema": schema}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_protocol::job::JobDocument;

    #[test]
    fn every_route_is_described_and_nothing_refers_to_what_is_not_there() {
        let document = described();
        for route in Route::ALL {
            let verb = route.verb().method().as_str().to_ascii_lowercase();
            let operation = &document["paths"][route.path()][&verb];
            assert_eq!(operation["summary"], route.summary(), "{route:?}");
        }
        let described: usize =
            document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(described, Route::ALL.len());
        let text = document.to_string();
        for rest in text.split("\"$ref\":\"#").skip(1) {
            let pointer = rest.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }

    #[test]
    fn the_job_that_is_described_is_the_one_that_is_read() {
        let whole = json!({
            "language": "python", "code": "1", "stdin": "", "runtime": "r", "outputs": ["output/x"],
            "limits": {"wall_seconds": 1, "cpu_seconds": 1, "mem_mb": 1, "max_pids": 1, "max_file_mb": 1,
                       "allow_network": false},
            "requirements": {"minimum_isolation": "none"},
            "files": [{"path": "input/x", "content_base64": ""}],
        });
        let schemas = &described()["components"]["schemas"];
        let same = |document: &Value, schema: &str| {
            let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            let (mut given, mut known) = (names(document), names(&schemas[schema]["properties"]));
            given.sort();
            known.sort();
            assert_eq!(given, known, "{schema}");
        };
        same(&whole, "Job");
        same(&whole["limits"], "JobLimits");
        same(&whole["requirements"], "JobRequirements");
        same(&whole["files"][0], "JobFile");
        assert!(serde_json::from_value::<JobDocument>(whole).is_ok());
    }
}

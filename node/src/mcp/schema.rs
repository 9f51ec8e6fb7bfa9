//! JSON Schemas of arguments and results, in the plain form every host takes.
//!
//! From the Rust types by `schemars`, as JSON Schema 2020-12, with what some hosts choke on or warn about taken out:
//! references, the meta-schema's address, `format`s that JSON Schema does not define, and `null` as a type (a member
//! that is optional is left out here, never null).

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::Value;

/// The schema of what a tool takes.
pub(crate) fn of_arguments<T: JsonSchema>() -> Arc<JsonObject> {
    let mut schema = of::<T>(Contract::Deserialize);
    // Some hosts want to see that there are none.
    Arc::make_mut(&mut schema).entry("properties").or_insert_with(|| Value::Object(JsonObject::new()));
    schema
}

/// The schema of what a tool gives.
pub(crate) fn of_result<T: JsonSchema>() -> Arc<JsonObject> {
    of::<T>(Contract::Serialize)
}

fn of<T: JsonSchema>(contract: Contract) -> Arc<JsonObject> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    settings.contract = contract;
    let mut schema = Value::from(settings.into_generator().into_root_schema_for::<T>());
    if let Value::Object(root) = &mut schema {
        // The name and the comment of a Rust type mean nothing to a model.
        root.remove("title");
        root.remove("description");
    }
    simplify(&mut schema);
    match schema {
        Value::Object(root) => Arc::new(root),
        _ => Arc::new(JsonObject::new()),
    }
}

fn simplify(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(simplify),
        Value::Object(members) => {
            // Under `properties` the keys are names of members, which may well be `format`.
            if let Some(Value::Object(properties)) = members.get_mut("properties") {
                properties.values_mut().for_each(simplify);
            }
            members.remove("format");
            forbid_null(members);
            let nested = members.iter_mut().filter(|(key, _)| {
                matches!(key.as_str(), "items" | "anyOf" | "oneOf" | "allOf" | "additionalProperties" | "not")
            });
            nested.for_each(|(_, schema)| simplify(schema));
        }
        _ => {}
    }
}

fn forbid_null(members: &mut JsonObject) {
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(alternatives)) = members.get_mut("anyOf") else { return };
    alternatives.retain(|alternative| alternative.get("type").is_none_or(|name| name != "null"));
    if let [Value::Object(only)] = alternatives.as_slice() {
        let only = only.clone();
        members.remove("anyOf");
        for (key, value) in only {
            members.entry(key).or_insert(value);
        }
    }
    if members.get("default").is_some_and(Value::is_null) {
        members.remove("default");
    }
}

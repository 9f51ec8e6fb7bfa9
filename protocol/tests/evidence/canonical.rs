//! Canonical JSON: one spelling, and a parser that refuses what two readers could read differently.

use mesh_protocol::evidence::canonical::{Bounds, CanonicalError, MAX_INTEGER, Value};
use mesh_protocol::evidence::digest::Digest;
use mesh_protocol::evidence::limits::{EVENT, MAX_DEPTH};
use proptest::prelude::*;

use crate::fixture::value;

fn refusal(json: &str) -> CanonicalError {
    Value::parse(json.as_bytes(), &EVENT).unwrap_err()
}

/// Text, canonical form, SHA-256 of the canonical form (computed with coreutils). Frozen.
const VECTORS: [(&str, &str, &str); 4] = [
    ("null", "null", "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"),
    (
        r#"{ "b" : [0, -1, 9007199254740991, -9007199254740991], "a" : {"z": true, "\u0041": false} }"#,
        r#"{"a":{"A":false,"z":true},"b":[0,-1,9007199254740991,-9007199254740991]}"#,
        "6b16ae2650307e164d66dea029278a269d84249960b084ac96d7779b460fe2d1",
    ),
    (
        "{\"\u{e9}\":\"\\u00e9\\u2028\\ud83d\\ude00\",\"e\":\"\\/\\u007f\",\"\u{ffff}\":1,\"\\ud83d\\ude00\":2}",
        "{\"e\":\"/\u{7f}\",\"\u{e9}\":\"\u{e9}\u{2028}\u{1f600}\",\"\u{ffff}\":1,\"\u{1f600}\":2}",
        "c5ce2610696eb2e6ef622f883ce48a64d2117b02723ae1d028809c21e2aca488",
    ),
    (
        r#"["\u0000\u001F\b\t\n\f\r\"\\"]"#,
        r#"["\u0000\u001f\b\t\n\f\r\"\\"]"#,
        "d8540b82516d43d1763c650fc54bd48d003eacc8a7c29c89a11f5aa28ffc2c17",
    ),
];

#[test]
fn frozen_vectors_keep_their_form_and_digest() {
    for (text, canonical, digest) in VECTORS {
        let document = value(text);
        assert_eq!(document.to_canonical(), canonical);
        assert_eq!(document.digest().to_string(), digest, "{canonical}");
    }
}

#[test]
fn names_sort_by_their_bytes_and_not_by_utf_16() {
    // U+FFFF sorts before U+1F600 in UTF-8 and after it in UTF-16.
    assert_eq!(value("{\"\u{1f600}\":1,\"\u{ffff}\":2}").to_canonical(), "{\"\u{ffff}\":2,\"\u{1f600}\":1}");
}

#[test]
fn a_name_twice_is_refused_at_any_depth_and_in_any_spelling() {
    for json in [r#"{"a":1,"a":1}"#, r#"[[{"x":{"a":1,"b":2,"a":3}}]]"#, r#"{"a":1,"\u0061":2}"#] {
        assert!(matches!(refusal(json), CanonicalError::DuplicateMember { name } if name == "a"), "{json}");
    }
}

#[test]
fn the_same_name_in_two_objects_is_fine() {
    assert_eq!(value(r#"[{"a":1},{"a":{"a":2}}]"#).to_canonical(), r#"[{"a":1},{"a":{"a":2}}]"#);
}

#[test]
fn numbers_that_are_not_exact_integers_are_refused() {
    let beyond = (MAX_INTEGER + 1).to_string();
    let below = (-MAX_INTEGER - 1).to_string();
    for json in ["1.5", "1.0", "1e3", "-0", "-0.0", "1e400", "18446744073709551616", &beyond, &below] {
        assert!(
            matches!(refusal(&format!("[{json}]")), CanonicalError::Number | CanonicalError::Syntax(_)),
            "{json}"
        );
    }
    for json in ["1.5", "1.0", "1e3", "-0", &beyond, &below] {
        assert!(matches!(refusal(json), CanonicalError::Number), "{json}");
    }
}

#[test]
fn a_float_cannot_be_serialised_into_a_document() {
    assert!(matches!(Value::of(&1.5, &EVENT), Err(CanonicalError::Number)));
    assert!(matches!(Value::of(&(1u64 << 53), &EVENT), Err(CanonicalError::Number)));
    assert!(matches!(Value::integer(1 << 53), Err(CanonicalError::Number)));
}

#[test]
fn what_is_not_json_is_refused() {
    for json in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "01",
        "+1",
        "nul",
        "1 2",
        "'a'",
        "\u{feff}1",
        "\"\\ud800\"",
        "\"\n\"",
    ] {
        assert!(matches!(refusal(json), CanonicalError::Syntax(_)), "{json:?}");
    }
    assert!(matches!(Value::parse(b"\"\xff\"", &EVENT), Err(CanonicalError::Syntax(_))));
}

#[test]
fn bounds_are_exact() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Value::parse(nested(MAX_DEPTH).as_bytes(), &EVENT).is_ok());
    assert!(matches!(refusal(&nested(MAX_DEPTH + 1)), CanonicalError::TooDeep { limit: MAX_DEPTH }));

    let bounds = Bounds { bytes: 9, depth: 1, nodes: 4 };
    assert!(Value::parse(b"[1,2,333]", &bounds).is_ok());
    assert!(matches!(Value::parse(b"[1,2,3,4]", &bounds), Err(CanonicalError::TooManyNodes { limit: 4 })));
    assert!(matches!(
        Value::parse(b"[1,2,3333]", &bounds),
        Err(CanonicalError::TooLarge { bytes: 10, limit: 9 })
    ));
}

#[test]
fn a_digest_has_one_spelling() {
    let digest = Digest::of(b"abc");
    assert_eq!(digest.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
    assert!(digest.to_string().to_uppercase().parse::<Digest>().is_err());
    assert!("ba78".parse::<Digest>().is_err());
}

fn documents() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-MAX_INTEGER..=MAX_INTEGER).prop_map(Value::Integer),
        any::<String>().prop_map(Value::Text),
    ];
    scalar.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            prop::collection::btree_map(any::<String>(), inner, 0..6).prop_map(Value::Object),
        ]
    })
}

proptest! {
    #[test]
    fn a_canonical_form_reads_back_as_the_same_document(document in documents()) {
        let text = document.to_canonical();
        prop_assert_eq!(Value::parse(text.as_bytes(), &EVENT).unwrap(), document);
    }

    #[test]
    fn an_independent_writer_of_compact_sorted_json_agrees(document in documents()) {
        prop_assert_eq!(document.to_canonical(), serde_json::to_string(&document).unwrap());
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        if let Ok(document) = Value::parse(&bytes, &EVENT) {
            prop_assert_eq!(Value::parse(document.to_canonical().as_bytes(), &EVENT).unwrap(), document);
        }
    }
}

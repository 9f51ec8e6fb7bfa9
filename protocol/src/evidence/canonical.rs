//! Canonical JSON: one spelling for each document, so that its SHA-256 can be computed again by anyone.
//!
//! A document is JSON (RFC 8259) of null, booleans, integers, strings, arrays and objects. Its canonical form has
//! object members sorted by the bytes of their UTF-8 names at every depth, no whitespace, and the shortest escapes:
//! `\"`, `\\`, `\b`, `\t`, `\n`, `\f`, `\r`, other characters below U+0020 as `\u00xx` in lower-case, all else as
//! plain UTF-8. Integers are decimal, at most 2^53 - 1 in size (what every JSON reader holds exactly). There are no
//! fractions and no exponents, and `-0` is refused. This is not RFC 8785, which sorts by UTF-16 and admits floats.
//!
//! The parser is strict: a member name twice in one object, at any depth, refuses the document, since two readers
//! might otherwise see two different documents under one signature. It never allocates more than its [`Bounds`].

mod parser;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use super::digest::Digest;
use super::limits;
use parser::Walk;

/// The largest integer, and the smallest when negated: 2^53 - 1.
pub const MAX_INTEGER: i64 = (1 << 53) - 1;

/// How large a document may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of text.
    pub bytes: usize,
    /// Arrays and objects inside each other.
    pub depth: usize,
    /// Values: each scalar, array and object is one.
    pub nodes: usize,
}

/// Why a text is not one of our documents.
#[derive(Debug, Error)]
pub enum CanonicalError {
    /// More bytes than the bounds allow.
    #[error("{bytes} bytes, where {limit} are allowed")]
    TooLarge {
        /// Found.
        bytes: usize,
        /// Allowed.
        limit: usize,
    },
    /// Arrays and objects nested deeper than the bounds allow.
    #[error("nested deeper than {limit}")]
    TooDeep {
        /// Allowed.
        limit: usize,
    },
    /// More values than the bounds allow.
    #[error("more than {limit} values")]
    TooManyNodes {
        /// Allowed.
        limit: usize,
    },
    /// One object has a member name twice.
    #[error("member `{name}` appears twice in one object")]
    DuplicateMember {
        /// The name, cut to 80 characters.
        name: String,
    },
    /// A fraction, an exponent, `-0`, or an integer beyond [`MAX_INTEGER`].
    #[error("a number that is not an integer within 2^53 - 1")]
    Number,
    /// Not JSON, or not UTF-8, or something follows the document.
    #[error("not JSON")]
    Syntax(#[source] serde_json::Error),
    /// A document, but not of the shape that was asked for.
    #[error("unexpected shape")]
    Shape(#[source] serde_json::Error),
}

/// A document, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer within [`MAX_INTEGER`]. [`Value::integer`] makes one.
    Integer(i64),
    /// A string.
    Text(String),
    /// An array; order matters.
    List(Vec<Value>),
    /// An object. `String` orders by its UTF-8 bytes, which is the canonical order.
    Object(BTreeMap<String, Value>),
}

impl Value {
    /// Reads a document strictly.
    ///
    /// # Errors
    /// Any [`CanonicalError`] but `Shape`.
    pub fn parse(text: &[u8], bounds: &Bounds) -> Result<Self, CanonicalError> {
        if text.len() > bounds.bytes {
            return Err(CanonicalError::TooLarge { bytes: text.len(), limit: bounds.bytes });
        }
        let mut json = serde_json::Deserializer::from_slice(text);
        let walk = Walk::new(bounds);
        let parsed = walk.read(&mut json).and_then(|value| {
            json.end()?;
            Ok(value)
        });
        parsed.map_err(|error| walk.into_refusal().unwrap_or(CanonicalError::Syntax(error)))
    }

    /// The document that `source` serialises to.
    ///
    /// # Errors
    /// When it is not within `bounds` or holds a number that a document cannot.
    pub fn of<T: Serialize>(source: &T, bounds: &Bounds) -> Result<Self, CanonicalError> {
        Self::parse(&serde_json::to_vec(source).map_err(CanonicalError::Shape)?, bounds)
    }

    /// This document as a `T`.
    ///
    /// # Errors
    /// [`CanonicalError::Shape`] when it is not one.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, CanonicalError> {
        serde_json::from_str(&self.to_canonical()).map_err(CanonicalError::Shape)
    }

    /// An integer.
    ///
    /// # Errors
    /// [`CanonicalError::Number`] when it is beyond [`MAX_INTEGER`].
    pub fn integer(number: i64) -> Result<Self, CanonicalError> {
        if (-MAX_INTEGER..=MAX_INTEGER).contains(&number) {
            Ok(Self::Integer(number))
        } else {
            Err(CanonicalError::Number)
        }
    }

    /// The member `name` of an object.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.get(name),
            _ => None,
        }
    }

    /// The string, if this is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The canonical form.
    #[must_use]
    pub fn to_canonical(&self) -> String {
        let mut out = String::new();
        write_value(self, &mut out);
        out
    }

    /// The SHA-256 of the canonical form.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_canonical().as_bytes())
    }
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Integer(number) => out.push_str(&number.to_string()),
        Value::Text(text) => write_text(text, out),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(name, out);
                out.push(':');
                write_value(member, out);
            }
            out.push('}');
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..'\u{20}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('"');
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(truth) => serializer.serialize_bool(*truth),
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => items.serialize(serializer),
            Self::Object(members) => members.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    /// Reads with the bounds of an event's data, the one place where a document holds another.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let walk = Walk::new(&limits::EVENT);
        let value = walk.read(deserializer);
        value.map_err(|error| walk.into_refusal().map_or(error, de::Error::custom))
    }
}

//! How people name an agent: `@reviewer`, or `@reviewer.node:atlas` for the one on a certain node.
//!
//! This part of the grammar has one dimension, the node (`host:` is the same word). Further qualifiers are refused by
//! name rather than ignored, so that an address never means less than it says. An address is looked up; it is not an
//! identity, and no routing is ever read from the text of a message.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use thiserror::Error;

use crate::limits::NAME_BYTES_MAX;

/// Words that cannot be an agent's or a node's name: they are kinds of target or parts of an address.
pub const RESERVED_NAMES: [&str; 16] = [
    "agent",
    "alias",
    "all",
    "broadcast",
    "channel",
    "host",
    "id",
    "me",
    "mesh",
    "node",
    "operator",
    "project",
    "ref",
    "session",
    "shared",
    "target",
];

/// Text that is not an address, or not a name.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum AddressError {
    /// Nothing between the marks.
    #[error("an address needs a name, as in `@reviewer`")]
    Empty,
    /// A part is too long or has a letter no name has.
    #[error(
        "`{part}` is not a name: use 1 to {NAME_BYTES_MAX} letters, digits and hyphens, not a hyphen first"
    )]
    Name {
        /// The part.
        part: String,
    },
    /// A word that has a meaning of its own.
    #[error("`{part}` is a reserved word and cannot be a name")]
    Reserved {
        /// The word.
        part: String,
    },
    /// `.something:` that this release does not know.
    #[error("`{qualifier}` is not a qualifier this release knows: `node:` is")]
    Qualifier {
        /// The qualifier.
        qualifier: String,
    },
    /// The same dimension twice.
    #[error("the address names two nodes")]
    Twice,
}

/// A name of an agent or a node: 1 to 64 of `a-z`, `0-9` and hyphens, not reserved, lower-cased when read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let shown = || text.chars().take(80).collect::<String>();
        let lower = text.to_ascii_lowercase();
        let plain = lower.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if lower.is_empty() || lower.len() > NAME_BYTES_MAX || !plain || lower.starts_with('-') {
            return Err(AddressError::Name { part: shown() });
        }
        if RESERVED_NAMES.contains(&lower.as_str()) {
            return Err(AddressError::Reserved { part: shown() });
        }
        Ok(Self(lower))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// An agent by name, on a certain node or on any.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentAddress {
    /// The agent's name.
    pub agent: Name,
    /// The node's name, or the beginning of its id.
    pub node: Option<Name>,
}

impl FromStr for AgentAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        let text = text.strip_prefix('@').unwrap_or(text);
        let mut parts = text.split('.');
        let agent = match parts.next() {
            None | Some("") => return Err(AddressError::Empty),
            Some(name) => name.parse()?,
        };
        let mut node = None;
        for part in parts {
            let Some((dimension, value)) = part.split_once(':') else {
                return Err(AddressError::Qualifier { qualifier: part.chars().take(80).collect() });
            };
            if !matches!(dimension, "node" | "host") {
                return Err(AddressError::Qualifier { qualifier: format!("{dimension:.80}:") });
            }
            if node.replace(value.parse()?).is_some() {
                return Err(AddressError::Twice);
            }
        }
        Ok(Self { agent, node })
    }
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.agent)?;
        self.node.as_ref().map_or(Ok(()), |node| write!(f, ".node:{node}"))
    }
}

impl Serialize for AgentAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AgentAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<String, AddressError> {
        text.parse::<AgentAddress>().map(|address| address.to_string())
    }

    #[test]
    fn an_address_has_one_canonical_form() {
        assert_eq!(parse("reviewer").unwrap(), "@reviewer");
        assert_eq!(parse(" @Reviewer ").unwrap(), "@reviewer");
        assert_eq!(parse("@reviewer.host:Atlas").unwrap(), "@reviewer.node:atlas");
    }

    #[test]
    fn what_an_address_cannot_say_is_refused_by_name() {
        assert_eq!(parse("@"), Err(AddressError::Empty));
        assert_eq!(parse("@a.model:x"), Err(AddressError::Qualifier { qualifier: "model:".into() }));
        assert_eq!(parse("@a.b"), Err(AddressError::Qualifier { qualifier: "b".into() }));
        assert_eq!(parse("@a.node:x.host:y"), Err(AddressError::Twice));
        assert_eq!(parse("@a b"), Err(AddressError::Name { part: "a b".into() }));
        assert_eq!(parse("@operator"), Err(AddressError::Reserved { part: "operator".into() }));
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_an_error(text in ".{0,200}") {
            if let Ok(address) = text.parse::<AgentAddress>() {
                prop_assert_eq!(address.to_string().parse::<AgentAddress>().unwrap(), address);
            }
        }
    }
}

//! Identities: each its own type, so that no two can be swapped.
//!
//! A [`NodeId`] is an Ed25519 public key; everything else is 16 bytes. Record ids start with 48 bits of wall-clock
//! milliseconds (the layout of UUID version 7, RFC 9562) and are shown in base32hex, which sorts as the bytes do, so
//! a list by id is a list by time. Time in an id is for people and for index locality; nothing decides by it.
//!
//! In text (JSON, TOML, the command line) an id is its string; in postcard it is its bytes.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE32_NOPAD, Encoding, Specification};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use thiserror::Error;

/// Text that is not an id.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("`{text}` is not {kind}")]
pub struct IdError {
    /// What was expected, with its article.
    pub kind: &'static str,
    /// What was given, cut to 80 characters.
    pub text: String,
}

impl IdError {
    fn new(kind: &'static str, text: &str) -> Self {
        Self { kind, text: text.chars().take(80).collect() }
    }
}

/// A node: the 32 bytes of its Ed25519 public key (RFC 8032).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; 32]);

impl NodeId {
    /// The id of the node with this public key. The bytes need not be a valid point: checking a signature does that.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The public key.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first ten characters: enough for people to tell nodes apart, never used to look one up.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string().chars().take(10).collect()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32_NOPAD.encode(&self.0).to_lowercase())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({})", self.short())
    }
}

impl FromStr for NodeId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let error = || IdError::new("a node id (52 characters of base32)", text);
        let bytes = BASE32_NOPAD.decode(text.to_uppercase().as_bytes()).map_err(|_| error())?;
        Ok(Self(bytes.try_into().map_err(|_| error())?))
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
            text.parse().map_err(D::Error::custom)
        } else {
            <[u8; 32]>::deserialize(deserializer).map(Self)
        }
    }
}

fn base32hex() -> Encoding {
    let mut specification = Specification::new();
    specification.symbols.push_str("0123456789abcdefghijklmnopqrstuv");
    #[expect(clippy::expect_used, reason = "a constant alphabet of 32 distinct symbols")]
    specification.encoding().expect("32 distinct symbols")
}

macro_rules! record_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// The id with these bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// A new id: wall-clock milliseconds and ten random bytes (RFC 9562, version 7).
            #[must_use]
            pub const fn mint(wall_ms: u64, random: [u8; 10]) -> Self {
                Self(uuid_v7(wall_ms, random))
            }

            /// The bytes, in the order ids sort.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// When it was made, by the wall clock of whoever did: for people, and for nothing else.
            #[must_use]
            pub const fn wall_ms(&self) -> u64 {
                let [t0, t1, t2, t3, t4, t5, ..] = self.0;
                u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5])
            }

            /// The last eight characters: what people type as a `ref`. Checked for uniqueness where it is used.
            #[must_use]
            pub fn suffix(&self) -> String {
                let text = base32hex().encode(&self.0);
                text.chars().skip(text.len().saturating_sub(8)).collect()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "-{}"), base32hex().encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.suffix())
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let error = || IdError::new($kind, text);
                let body = text.strip_prefix(concat!($prefix, "-")).ok_or_else(error)?;
                let bytes = base32hex().decode(body.as_bytes()).map_err(|_| error())?;
                Ok(Self(bytes.try_into().map_err(|_| error())?))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() { serializer.collect_str(self) } else { self.0.serialize(serializer) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                    text.parse().map_err(D::Error::custom)
                } else {
                    <[u8; 16]>::deserialize(deserializer).map(Self)
                }
            }
        }
    };
}

record_id! {
    /// A mesh: the nodes under one root key.
    MeshId, "mesh", "a mesh id (`mesh-...`)"
}
record_id! {
    /// One message between nodes or in a conversation. Delivery deduplicates by it.
    MessageId, "msg", "a message id (`msg-...`)"
}
record_id! {
    /// A conversation: where an ask's task and reply both are.
    ConversationId, "cnv", "a conversation id (`cnv-...`)"
}
record_id! {
    /// The life of one ask, from acceptance to outcome.
    FlightId, "flt", "a flight id (`flt-...`)"
}
record_id! {
    /// One sandboxed job.
    JobId, "job", "a job id (`job-...`)"
}
record_id! {
    /// A join ticket, as its issuer knows it.
    TicketId, "tkt", "a ticket id (`tkt-...`)"
}

const fn uuid_v7(wall_ms: u64, random: [u8; 10]) -> [u8; 16] {
    let [_, _, t0, t1, t2, t3, t4, t5] = wall_ms.to_be_bytes();
    let [r0, r1, r2, r3, r4, r5, r6, r7, r8, r9] = random;
    [t0, t1, t2, t3, t4, t5, 0x70 | (r0 & 0x0f), r1, 0x80 | (r2 & 0x3f), r3, r4, r5, r6, r7, r8, r9]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_text_in_json_and_its_bytes_in_postcard() {
        let id = JobId::mint(1_700_000_000_000, [9; 10]);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<JobId>(&json).unwrap(), id);
        assert_eq!(crate::codec::encode(&id), id.as_bytes());
    }

    #[test]
    fn ids_sort_by_time_in_text_as_in_bytes() {
        let earlier = FlightId::mint(1_000, [0xff; 10]);
        let later = FlightId::mint(1_001, [0; 10]);
        assert!(earlier < later);
        assert!(earlier.to_string() < later.to_string());
    }

    #[test]
    fn an_id_of_another_kind_is_refused_by_name() {
        let error = JobId::mint(1, [0; 10]).to_string().parse::<FlightId>().unwrap_err();
        assert!(error.to_string().contains("is not a flight id"), "{error}");
    }

    #[test]
    fn a_node_id_reads_back_in_either_case() {
        let id = NodeId::from_bytes([0xa5; 32]);
        assert_eq!(id.to_string().parse::<NodeId>().unwrap(), id);
        assert_eq!(id.to_string().to_uppercase().parse::<NodeId>().unwrap(), id);
        assert_eq!(id.short().len(), 10);
        assert!("nonsense".parse::<NodeId>().is_err());
    }
}

//! Keys that sort as their values do.
//!
//! Integers are big-endian, ids are their bytes, tuples are their parts in turn. Text is allowed only as the last
//! part, so that no part needs an end mark.

use mesh_protocol::id::{ConversationId, FlightId, JobId, MessageId, NodeId, TicketId};
use thiserror::Error;

use crate::time::NodeTime;

/// Bytes that are not a key of the expected type.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("key of {bytes} bytes does not fit its type")]
pub struct KeyError {
    /// How long the part in question was.
    pub bytes: usize,
}

/// A key, or a part of one.
pub trait Key: Sized {
    /// Appends the sortable bytes.
    fn write(&self, out: &mut Vec<u8>);

    /// Takes this part from the front of the bytes.
    ///
    /// # Errors
    /// [`KeyError`] when they are too short or not of this type.
    fn read(bytes: &mut &[u8]) -> Result<Self, KeyError>;

    /// The sortable bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        self.write(&mut out);
        out
    }

    /// The key that is exactly these bytes.
    ///
    /// # Errors
    /// [`KeyError`] when they are too short, too long or not of this type.
    fn from_bytes(mut bytes: &[u8]) -> Result<Self, KeyError> {
        let key = Self::read(&mut bytes)?;
        if bytes.is_empty() { Ok(key) } else { Err(KeyError { bytes: bytes.len() }) }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], KeyError> {
    let (part, rest) = bytes.split_first_chunk::<N>().ok_or(KeyError { bytes: bytes.len() })?;
    *bytes = rest;
    Ok(*part)
}

macro_rules! fixed_key {
    ($($type:ty, $bytes:ident => $to:expr, $from:expr;)*) => {$(
        impl Key for $type {
            fn write(&self, out: &mut Vec<u8>) {
                let $bytes = self;
                out.extend_from_slice(&$to);
            }

            fn read(bytes: &mut &[u8]) -> Result<Self, KeyError> {
                take(bytes).map($from)
            }
        }
    )*};
}

fixed_key! {
    u8, v => [*v], |[v]: [u8; 1]| v;
    u64, v => v.to_be_bytes(), u64::from_be_bytes;
    u128, v => v.to_be_bytes(), u128::from_be_bytes;
    NodeTime, v => v.0.to_be_bytes(), |v| NodeTime(u64::from_be_bytes(v));
    NodeId, v => *v.as_bytes(), NodeId::from_bytes;
    MessageId, v => *v.as_bytes(), MessageId::from_bytes;
    ConversationId, v => *v.as_bytes(), ConversationId::from_bytes;
    FlightId, v => *v.as_bytes(), FlightId::from_bytes;
    JobId, v => *v.as_bytes(), JobId::from_bytes;
    TicketId, v => *v.as_bytes(), TicketId::from_bytes;
}

impl Key for () {
    fn write(&self, _: &mut Vec<u8>) {}

    fn read(_: &mut &[u8]) -> Result<Self, KeyError> {
        Ok(())
    }
}

impl Key for String {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, KeyError> {
        let text = std::str::from_utf8(bytes).map_err(|_| KeyError { bytes: bytes.len() })?;
        *bytes = &[];
        Ok(text.to_owned())
    }
}

impl<A: Key, B: Key> Key for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, KeyError> {
        Ok((A::read(bytes)?, B::read(bytes)?))
    }
}

impl<A: Key, B: Key, C: Key> Key for (A, B, C) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
        self.2.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, KeyError> {
        Ok((A::read(bytes)?, B::read(bytes)?, C::read(bytes)?))
    }
}

/// The first key after all that begin with this prefix; `None` when there is none.
pub(super) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut next = prefix.to_vec();
    while let Some(last) = next.pop() {
        if let Some(raised) = last.checked_add(1) {
            next.push(raised);
            return Some(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_successor_of_a_prefix_of_ones_is_shorter() {
        assert_eq!(successor(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(successor(&[0xff]), None);
        assert_eq!(successor(&[]), None);
    }

    proptest! {
        #[test]
        fn keys_sort_as_their_values(a in any::<(u64, u128)>(), b in any::<(u64, u128)>()) {
            prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
            prop_assert_eq!(<(u64, u128)>::from_bytes(&a.to_bytes()).unwrap(), a);
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = <(NodeId, u128, String)>::from_bytes(&bytes);
        }
    }
}

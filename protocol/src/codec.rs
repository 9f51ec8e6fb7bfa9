//! Bytes to values and back: postcard, strict, and length-prefixed frames.
//!
//! Postcard alone accepts trailing bytes and longer-than-needed varints, so two different byte strings could mean one
//! value and a signature or hash over the one would not cover the other. Decoding here takes all bytes, encodes the
//! value again and compares: one value has one encoding.
//!
//! A frame is a 32-bit big-endian length and that many bytes. The length is checked against a limit before anything
//! is allocated.

use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Why bytes are not the value they claim to be. The bytes are dropped; nothing else changed.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes do not parse as the type.
    #[error("malformed {what}")]
    Malformed {
        /// The type that was expected.
        what: &'static str,
    },
    /// Valid, but not in the one encoding this value has: trailing bytes or a padded integer.
    #[error("non-canonical encoding of {what}")]
    NotCanonical {
        /// The type that was expected.
        what: &'static str,
    },
    /// A stored value of a release this build does not know.
    #[error("{what} has version {found}, this build reads up to {known}")]
    UnknownVersion {
        /// The type that was expected.
        what: &'static str,
        /// The version byte found.
        found: u8,
        /// The newest version this build reads.
        known: u8,
    },
    /// Longer than its limit.
    #[error("{what} of {bytes} bytes is over the limit of {limit}")]
    TooLong {
        /// What was measured.
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

/// The canonical bytes of a value. Infallible for the plain data of this crate.
///
/// # Panics
/// Never for types of this workspace: postcard fails only on unsized sequences, which none of them has.
#[must_use]
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    #[expect(clippy::expect_used, reason = "our own values, all of sized sequences")]
    postcard::to_stdvec(value).expect("a sized value always encodes")
}

/// The value these bytes encode, all of them and canonically.
///
/// # Errors
/// [`DecodeError::Malformed`] or [`DecodeError::NotCanonical`].
pub fn decode<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let what = short_name::<T>();
    let value: T = postcard::from_bytes(bytes).map_err(|_| DecodeError::Malformed { what })?;
    if encode(&value) == bytes { Ok(value) } else { Err(DecodeError::NotCanonical { what }) }
}

/// A value for the disk: one version byte, then its canonical bytes.
#[must_use]
pub fn encode_versioned<T: Serialize>(version: u8, value: &T) -> Vec<u8> {
    #[expect(clippy::expect_used, reason = "our own values, all of sized sequences")]
    postcard::to_extend(value, vec![version]).expect("a sized value always encodes")
}

/// The value of a row written by [`encode_versioned`] with exactly this version.
///
/// # Errors
/// [`DecodeError::UnknownVersion`] for another version byte, otherwise as [`decode`], without the second encoding:
/// our own disk is not hostile, and its checksums are the database's.
pub fn decode_versioned<T: DeserializeOwned>(version: u8, bytes: &[u8]) -> Result<T, DecodeError> {
    let what = short_name::<T>();
    let (found, rest) = bytes.split_first().ok_or(DecodeError::Malformed { what })?;
    if *found != version {
        return Err(DecodeError::UnknownVersion { what, found: *found, known: version });
    }
    match postcard::take_from_bytes(rest) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(DecodeError::NotCanonical { what }),
        Err(_) => Err(DecodeError::Malformed { what }),
    }
}

/// One frame: length, then bytes.
///
/// # Errors
/// [`DecodeError::TooLong`] when the body is over `limit`, so that no peer is sent what it would refuse.
pub fn frame(body: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let too_long = DecodeError::TooLong { what: "frame", bytes: body.len(), limit };
    let length = u32::try_from(body.len()).map_err(|_| too_long.clone())?;
    if body.len() > limit {
        return Err(too_long);
    }
    let mut framed = Vec::with_capacity(body.len().saturating_add(4));
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(body);
    Ok(framed)
}

/// The length of the body that follows these four bytes, checked before anything is allocated.
///
/// # Errors
/// [`DecodeError::TooLong`] when it is over `limit`.
pub fn frame_length(header: [u8; 4], limit: usize) -> Result<usize, DecodeError> {
    let bytes = usize::try_from(u32::from_be_bytes(header)).unwrap_or(usize::MAX);
    if bytes > limit { Err(DecodeError::TooLong { what: "frame", bytes, limit }) } else { Ok(bytes) }
}

fn short_name<T>() -> &'static str {
    let full = std::any::type_name::<T>();
    full.rsplit("::").next().unwrap_or(full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn trailing_bytes_are_refused() {
        let mut bytes = encode(&7_u32);
        bytes.push(0);
        assert_eq!(decode::<u32>(&bytes), Err(DecodeError::NotCanonical { what: "u32" }));
    }

    #[test]
    fn a_padded_varint_is_refused() {
        assert_eq!(decode::<u32>(&[0x87, 0x00]), Err(DecodeError::NotCanonical { what: "u32" }));
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_before_it_is_read() {
        assert!(matches!(frame_length([0xff; 4], 10), Err(DecodeError::TooLong { .. })));
        assert!(frame(&[0; 11], 10).is_err());
    }

    #[test]
    fn a_row_of_a_newer_release_names_its_version() {
        let row = encode_versioned(2, &1_u8);
        assert!(matches!(decode_versioned::<u8>(1, &row), Err(DecodeError::UnknownVersion { found: 2, .. })));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<(String, Vec<u64>, Option<[u8; 32]>)>(&bytes);
            let _ = decode_versioned::<(String, Vec<u64>)>(1, &bytes);
        }

        #[test]
        fn what_is_encoded_decodes_to_itself(value in any::<(String, Vec<u64>, Option<[u8; 32]>)>()) {
            let read: (String, Vec<u64>, Option<[u8; 32]>) = decode(&encode(&value)).unwrap();
            prop_assert_eq!(read, value);
        }
    }
}

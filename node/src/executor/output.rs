//! How much of a job's output is kept, so that result and proof fit in one parcel.
//!
//! Output travels twice: as text, where bytes that are not UTF-8 are replaced, and signed, where it is a JSON string
//! inside a JSON string. The sandbox bounds the bytes it reads; here the two written forms are bounded as well, since
//! a replacement takes three bytes and a control character seven.

use mesh_node_core::limits::PARCEL_BODY_BYTES_MAX;
use mesh_protocol::job::OUTPUT_BYTES_MAX;

/// Bytes of a parcel left for everything but the output: the envelope, the events, a certificate, the frame.
const BESIDE_OUTPUT_BYTES: usize = 128 * 1024;

/// Bytes that one stream may take in a parcel, in both forms together.
const STREAM_COST_MAX: usize = (PARCEL_BODY_BYTES_MAX - BESIDE_OUTPUT_BYTES) / 2;

/// Bytes that stand for a sequence that is not UTF-8: those of U+FFFD.
const REPLACEMENT_BYTES: usize = char::REPLACEMENT_CHARACTER.len_utf8();

// Output that is not UTF-8 is signed in base64, four bytes for three.
const _: () = assert!(OUTPUT_BYTES_MAX + OUTPUT_BYTES_MAX.div_ceil(3) * 4 < STREAM_COST_MAX);

/// Cuts a stream to what is kept of it. `cut` says that the sandbox has cut it already; returns whether it is now.
///
/// A character that a cut goes through is left out, so that cut text stays text.
pub(super) fn keep(bytes: &mut Vec<u8>, cut: bool) -> bool {
    let fitting = fitting(bytes, cut);
    let cut = cut || fitting < bytes.len();
    bytes.truncate(fitting);
    cut
}

/// How many bytes are kept.
fn fitting(bytes: &[u8], cut: bool) -> usize {
    let (mut shown, mut signed, mut fits) = (0, 0, 0);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            shown += character.len_utf8();
            signed += signed_bytes(character);
            if shown > OUTPUT_BYTES_MAX || shown + signed > STREAM_COST_MAX {
                return fits;
            }
            fits += character.len_utf8();
        }
        let invalid = chunk.invalid().len();
        let went_through = cut && fits + invalid == bytes.len();
        if invalid > 0 {
            shown += REPLACEMENT_BYTES;
            if shown > OUTPUT_BYTES_MAX || went_through {
                return fits;
            }
            fits += invalid;
        }
    }
    fits
}

/// Bytes a character takes in a JSON string inside a JSON string.
const fn signed_bytes(character: char) -> usize {
    match character {
        '"' | '\\' => 4,
        '\u{8}' | '\t' | '\n' | '\u{c}' | '\r' => 3,
        '\0'..' ' => 7,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(bytes: &[u8], cut: bool) -> (Vec<u8>, bool) {
        let mut bytes = bytes.to_vec();
        let cut = keep(&mut bytes, cut);
        (bytes, cut)
    }

    #[test]
    fn output_up_to_the_limit_is_kept_whole_and_one_byte_more_is_not() {
        let most = vec![b'x'; OUTPUT_BYTES_MAX];
        assert_eq!(kept(&most, false), (most.clone(), false));
        let more = vec![b'x'; OUTPUT_BYTES_MAX + 1];
        assert_eq!(kept(&more, false), (most, true));
    }

    #[test]
    fn bytes_that_are_replaced_count_as_what_replaces_them() {
        let (bytes, cut) = kept(&vec![0xff; OUTPUT_BYTES_MAX], false);
        assert!(cut);
        assert_eq!(bytes.len(), OUTPUT_BYTES_MAX / REPLACEMENT_BYTES);
    }

    #[test]
    fn a_character_that_a_cut_goes_through_is_left_out() {
        let broken = "grün".as_bytes().get(..3).unwrap();
        assert_eq!(kept(broken, true), (b"gr".to_vec(), true));
        assert_eq!(kept(broken, false), (broken.to_vec(), false));
    }

    #[test]
    fn control_characters_leave_room_for_the_rest_of_the_parcel() {
        let (bytes, cut) = kept(&vec![1; OUTPUT_BYTES_MAX], false);
        assert!(cut);
        assert!(2 * bytes.len() * 8 + BESIDE_OUTPUT_BYTES <= PARCEL_BODY_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_a_beginning_whose_text_is_within_its_limit(
            part in proptest::collection::vec(any::<u8>(), 1..64),
            times in 1_usize..8_000,
            cut in any::<bool>(),
        ) {
            let bytes = part.repeat(times);
            let (kept, cut_now) = kept(&bytes, cut);
            prop_assert!(bytes.starts_with(&kept));
            prop_assert!(cut_now || kept == bytes);
            prop_assert!(String::from_utf8_lossy(&kept).len() <= OUTPUT_BYTES_MAX);
        }
    }
}

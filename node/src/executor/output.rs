//! How much of a job's output is kept, decided as it comes.
//!
//! Output is told three times: as text, where bytes that are not UTF-8 are replaced; signed, where it is a JSON string
//! inside a JSON string; and in events. The sandbox bounds the bytes it reads; here the two written forms are bounded as
//! well, since a replacement takes three bytes and a control character seven.

use mesh_node_core::limits::PARCEL_BODY_BYTES_MAX;
use mesh_protocol::job::OUTPUT_BYTES_MAX;

/// Bytes left beside the output: the envelope, a certificate, the frame.
const BESIDE_OUTPUT_BYTES: usize = 128 * 1024;

/// Bytes that one stream may take in both written forms together.
const STREAM_COST_MAX: usize = (PARCEL_BODY_BYTES_MAX - BESIDE_OUTPUT_BYTES) / 2;

/// Bytes that stand for a sequence that is not UTF-8: those of U+FFFD.
const REPLACEMENT_BYTES: usize = char::REPLACEMENT_CHARACTER.len_utf8();

// Output that is not UTF-8 is signed in base64, four bytes for three.
const _: () = assert!(OUTPUT_BYTES_MAX + OUTPUT_BYTES_MAX.div_ceil(3) * 4 < STREAM_COST_MAX);

/// What is kept of one stream. A character that a cut goes through is left out, so that cut text stays text.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    kept: Vec<u8>,
    /// The beginning of a character whose rest has not come yet.
    held: Vec<u8>,
    shown: usize,
    signed: usize,
    cut: bool,
}

impl Keeper {
    /// Takes what the stream brought, and returns what is kept of it. What does not fit, and all that follows, is not.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.cut {
            return Vec::new();
        }
        let mut arrived = std::mem::take(&mut self.held);
        arrived.extend_from_slice(bytes);
        let whole = arrived.len() - unfinished(&arrived);
        self.held = arrived.split_off(whole);
        self.keep(arrived)
    }

    /// The stream is over, or `cut` off by the sandbox: returns what is kept of a character that never came whole.
    pub(super) fn end(&mut self, cut: bool) -> Vec<u8> {
        let rest = std::mem::take(&mut self.held);
        let kept = if cut || self.cut { Vec::new() } else { self.keep(rest) };
        self.cut |= cut;
        kept
    }

    /// Keeps nothing more.
    pub(super) fn cut(&mut self) {
        self.cut = true;
    }

    /// Whether something was not kept.
    pub(super) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Bytes kept so far.
    pub(super) const fn len(&self) -> usize {
        self.kept.len()
    }

    /// All that was kept.
    pub(super) fn into_kept(self) -> Vec<u8> {
        self.kept
    }

    fn keep(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        let fitting = self.fitting(&bytes);
        self.cut |= fitting < bytes.len();
        bytes.truncate(fitting);
        self.kept.extend_from_slice(&bytes);
        bytes
    }

    /// How many bytes fit; they are counted.
    fn fitting(&mut self, bytes: &[u8]) -> usize {
        let mut fits = 0;
        for chunk in bytes.utf8_chunks() {
            let valid = chunk.valid().chars().map(|c| (c.len_utf8(), c.len_utf8(), signed_bytes(c)));
            let invalid = Some(chunk.invalid().len()).filter(|bytes| *bytes > 0);
            for (raw, shown, signed) in valid.chain(invalid.map(|bytes| (bytes, REPLACEMENT_BYTES, 0))) {
                let (shown, signed) = (self.shown + shown, self.signed + signed);
                if shown > OUTPUT_BYTES_MAX || shown + signed > STREAM_COST_MAX {
                    return fits;
                }
                (self.shown, self.signed) = (shown, signed);
                fits += raw;
            }
        }
        fits
    }
}

/// Bytes at the end that may be the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        Ok(_) | Err(_) => 0,
    }
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
        let mut keeper = Keeper::default();
        keeper.take(bytes);
        keeper.end(cut);
        let cut = keeper.is_cut();
        (keeper.into_kept(), cut)
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
    fn control_characters_leave_room_for_the_rest() {
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

        #[test]
        fn what_is_kept_does_not_depend_on_how_it_came(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 0..40),
        ) {
            let mut keeper = Keeper::default();
            let mut said: Vec<u8> = parts.iter().flat_map(|part| keeper.take(part)).collect();
            said.extend(keeper.end(false));
            prop_assert_eq!(&said, &parts.concat());
            prop_assert_eq!(keeper.into_kept(), said);
        }
    }
}

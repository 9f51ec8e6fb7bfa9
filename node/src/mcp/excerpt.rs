//! Cuts a long text to what a model should be given, and says so in the text.
//!
//! Keeps both ends: the beginning says what it is, the end is where errors are. Never cuts inside a character.

use super::limits::SHOWN_BYTES_MAX;

/// The text, with its middle left out when it is longer than [`SHOWN_BYTES_MAX`], and how many bytes those are.
pub(crate) fn excerpt(text: String) -> (String, u64) {
    if text.len() <= SHOWN_BYTES_MAX {
        return (text, 0);
    }
    let (head, rest) = text.split_at(text.floor_char_boundary(SHOWN_BYTES_MAX / 2));
    let (middle, tail) =
        rest.split_at(rest.ceil_char_boundary(rest.len().saturating_sub(SHOWN_BYTES_MAX / 2)));
    let omitted = middle.len();
    let shown = format!("{head}\n[... {omitted} bytes left out ...]\n{tail}");
    (shown, u64::try_from(omitted).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_that_fits_stays_as_it_is() {
        let text = "ä".repeat(SHOWN_BYTES_MAX / 2);
        assert_eq!(excerpt(text.clone()), (text, 0));
    }

    proptest! {
        #[test]
        fn what_is_shown_and_what_is_left_out_add_up(unit in "[aä€😀]{1,9}", extra in 1_usize..5_000) {
            let text = unit.repeat((SHOWN_BYTES_MAX + extra) / unit.len() + 1);
            let (shown, omitted) = excerpt(text.clone());
            let marker = format!("\n[... {omitted} bytes left out ...]\n");
            let (head, tail) = shown.split_once(&marker).unwrap();
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert!(head.len() + tail.len() <= SHOWN_BYTES_MAX);
            prop_assert_eq!(u64::try_from(text.len() - head.len() - tail.len()).unwrap(), omitted);
        }
    }
}

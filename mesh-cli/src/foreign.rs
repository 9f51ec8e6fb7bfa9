//! Text from a peer, an agent or a job, made safe to show.
//!
//! Such text can hold terminal control sequences, line breaks that fake our own lines, and marks that reverse the
//! reading order. Here it can only be text. This is for display; what goes into a pipe or a file is left as it is.

/// Marks that change the direction of reading (Unicode Standard Annex 9), used to make text look like another.
const DIRECTION_MARKS: [std::ops::RangeInclusive<char>; 3] =
    ['\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];

/// One line of it: nothing in it can end the line or move the cursor.
pub(crate) fn line(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        if is_control(c) {
            safe.extend(c.escape_default())
        } else {
            safe.push(c)
        }
        safe
    })
}

/// One line of it, cut to `chars_max` characters.
pub(crate) fn excerpt(text: &str, chars_max: usize) -> String {
    cut(&line(text), chars_max)
}

/// Several lines of it: line ends and tabs stay.
pub(crate) fn block(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        if is_control(c) && !matches!(c, '\n' | '\t') {
            safe.extend(c.escape_default())
        } else {
            safe.push(c)
        }
        safe
    })
}

/// `text`, or its beginning and `...` where it has more than `chars_max` characters.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max.saturating_sub(3)).collect();
    format!("{kept}...")
}

fn is_control(c: char) -> bool {
    c.is_control() || DIRECTION_MARKS.iter().any(|marks| marks.contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_peer_cannot_move_the_cursor_or_fake_a_line() {
        assert_eq!(line("a\u{1b}[2Jb\nerror: c"), "a\\u{1b}[2Jb\\nerror: c");
        assert_eq!(line("abc\u{202e}fed"), "abc\\u{202e}fed");
    }

    #[test]
    fn a_block_keeps_its_lines_and_nothing_else() {
        assert_eq!(block("a\n\tb\r\u{7}"), "a\n\tb\\r\\u{7}");
    }

    proptest! {
        #[test]
        fn nothing_that_controls_a_terminal_is_left(text in ".*", bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let text = format!("{text}{}", String::from_utf8_lossy(&bytes));
            prop_assert!(line(&text).chars().all(|c| !is_control(c)));
            prop_assert!(excerpt(&text, 10).chars().count() <= 10);
        }
    }
}

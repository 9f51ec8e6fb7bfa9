//! Sentences within the width of a terminal.

/// Columns of a terminal that everyone has.
pub(crate) const WIDTH_MAX: usize = 80;

/// `text` in lines of at most 80 columns where its words allow it; all but the first are indented. Styles take no room.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let width = anstream::adapter::strip_str(word).map(|piece| piece.chars().count()).sum::<usize>();
        if column > indent && column + 1 + width > WIDTH_MAX {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += width;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::{GOOD, paint};

    #[test]
    fn a_long_sentence_continues_indented() {
        let lines = wrapped(&"word ".repeat(40), 2);
        assert!(lines.lines().all(|line| line.len() <= WIDTH_MAX), "{lines}");
        assert!(lines.lines().skip(1).all(|line| line.starts_with("  word")), "{lines}");
    }

    #[test]
    fn styles_take_no_room_and_words_are_not_broken() {
        let styled = vec![paint(GOOD, "12345678"); 8].join(" ");
        assert_eq!(wrapped(&styled, 2), styled);
        assert_eq!(wrapped(&"x".repeat(200), 2), "x".repeat(200));
    }
}

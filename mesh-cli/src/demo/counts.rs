//! What there is to know of a text: the same figures as `count.py` finds, computed here to judge its answer.
//!
//! Invariant: a word is what stands between ASCII blanks; for the list of frequent ones it is taken without the ASCII
//! punctuation around it and in lower case. Both languages do exactly this, byte by byte.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mesh_protocol::evidence::digest::Digest;
use serde::{Deserialize, Serialize};

/// Words listed.
const FREQUENT: usize = 5;
/// Bytes of a word from which on it is worth listing.
const LETTERS_MIN: usize = 5;

/// The figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Lines, the last one ended or not.
    pub(crate) lines: u64,
    /// Words.
    pub(crate) words: u64,
    /// Bytes.
    pub(crate) bytes: u64,
    /// SHA-256 of the bytes, 64 hexadecimal digits.
    pub(crate) sha256: String,
    /// The most frequent long words, most frequent first; equal ones in the order of their bytes.
    pub(crate) frequent: Vec<Frequency>,
}

/// How often a word occurs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Frequency {
    /// The word.
    pub(crate) word: String,
    /// How often.
    pub(crate) times: u64,
}

impl Counts {
    /// The figures of a text.
    pub(crate) fn of(text: &str) -> Self {
        let mut times = BTreeMap::<String, u64>::new();
        let mut words = 0;
        for word in text.split(is_blank).filter(|word| !word.is_empty()) {
            words += 1;
            let plain = word.trim_matches(|c: char| c.is_ascii_punctuation()).to_ascii_lowercase();
            if plain.len() >= LETTERS_MIN {
                *times.entry(plain).or_default() += 1;
            }
        }
        let mut frequent: Vec<_> = times.into_iter().map(|(word, times)| Frequency { word, times }).collect();
        // Stable: equal ones stay in the order of the map.
        frequent.sort_by_key(|entry| Reverse(entry.times));
        frequent.truncate(FREQUENT);
        Self {
            lines: text.lines().count() as u64,
            words,
            bytes: text.len() as u64,
            sha256: Digest::of(text.as_bytes()).to_string(),
            frequent,
        }
    }
}

/// What Python's `bytes.split` splits at.
const fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequent(text: &str) -> Vec<(String, u64)> {
        Counts::of(text).frequent.into_iter().map(|entry| (entry.word, entry.times)).collect()
    }

    #[test]
    fn nothing_has_no_lines_and_a_last_line_need_not_be_ended() {
        let size = |text| (Counts::of(text).lines, Counts::of(text).words, Counts::of(text).bytes);
        assert_eq!(size(""), (0, 0, 0));
        assert_eq!(size("one two\n\n three"), (3, 3, 15));
        assert_eq!(size("one\u{b}two\n"), (1, 2, 8));
    }

    #[test]
    fn frequent_words_are_long_plain_and_in_a_fixed_order() {
        let found = frequent("Light, light. (beacon) beacon a a a a harbour");
        assert_eq!(found, [("beacon".into(), 2), ("light".into(), 2), ("harbour".into(), 1)]);
    }

    #[test]
    fn the_digest_is_the_published_one_of_the_empty_text() {
        let published = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Counts::of("").sha256, published);
    }
}

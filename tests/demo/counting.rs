//! What is in a text, counted for the third time: neither the demo's own way nor its agent's.

use std::collections::HashMap;

use mesh_protocol::evidence::digest::Digest;
use serde_json::{Value, json};

/// The figures, as the demo's document has them.
pub(crate) fn counted(text: &str) -> Value {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let mut times = HashMap::new();
    for word in &words {
        let plain = word.trim_matches(|c: char| c.is_ascii_punctuation()).to_ascii_lowercase();
        *times.entry(plain).or_insert(0) += 1;
    }
    let mut long: Vec<(String, i32)> = times.into_iter().filter(|(word, _)| word.len() >= 5).collect();
    long.sort_by(|(a, a_times), (b, b_times)| b_times.cmp(a_times).then(a.cmp(b)));
    let ends = text.matches('\n').count();
    json!({
        "lines": if text.ends_with('\n') { ends } else { ends + 1 },
        "words": words.len(),
        "bytes": text.len(),
        "sha256": Digest::of(text.as_bytes()).to_string(),
        "frequent": long.iter().take(5).map(|(word, times)| json!({"word": word, "times": times})).collect::<Vec<_>>(),
    })
}

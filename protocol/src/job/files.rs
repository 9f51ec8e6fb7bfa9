//! Files that go into a job and come out of it, and which paths they may have.
//!
//! A path is hostile text: relative, below its one folder, each name plain. Two files of one list never mean one place.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::limits::PATH_BYTES_MAX;

/// Bytes of a file: themselves in postcard, standard padded base64 in JSON.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Contents(pub Vec<u8>);

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Contents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&STANDARD.encode(&self.0))
        } else {
            serde_bytes::serialize(&self.0, serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Contents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
            STANDARD.decode(text.as_bytes()).map(Self).map_err(|_| D::Error::custom("not standard base64"))
        } else {
            serde_bytes::deserialize(deserializer).map(Self)
        }
    }
}

/// A file given to a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// Where the job finds it: `input/...`.
    pub path: String,
    /// Its bytes.
    #[serde(rename = "content_base64")]
    pub content: Contents,
}

/// A file that a job was asked for and left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputFile {
    /// Where the job wrote it: `output/...`.
    pub path: String,
    /// Its bytes.
    #[serde(rename = "content_base64")]
    pub content: Contents,
}

/// Whether this is a plain relative path below `folder`, spelled in the one way there is.
pub(super) fn is_below(folder: &str, path: &str) -> bool {
    let Some(rest) = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) else { return false };
    let plain = |name: &str| !matches!(name, "" | "." | "..");
    let printable = !path.chars().any(|character| character.is_control() || character == '\\');
    path.len() <= PATH_BYTES_MAX && printable && rest.split('/').all(plain)
}

/// The first path that is another's, or lies in another as if that were a folder.
pub(super) fn collision<'a>(paths: &[&'a str]) -> Option<&'a str> {
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    paths.iter().enumerate().find_map(|(at, path)| {
        let earlier = paths.get(..at).unwrap_or_default();
        earlier.iter().any(|other| within(path, other) || within(other, path)).then_some(*path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_its_folder_or_is_oddly_spelled_is_none() {
        let long = format!("input/{}", "x".repeat(PATH_BYTES_MAX));
        let bad = [
            "",
            "input",
            "input/",
            "/input/x",
            "inputs/x",
            "output/x",
            "input/../x",
            "input/./x",
            "input//x",
            "input/x/",
            "input/a\\b",
            "input/a\0b",
            "input/a\nb",
            &long,
        ];
        for path in bad {
            assert!(!is_below("input", path), "{path:?}");
        }
        for path in ["input/x", "input/a/b.csv", "input/.hidden", "input/grün"] {
            assert!(is_below("input", path), "{path:?}");
        }
    }

    #[test]
    fn a_file_cannot_be_another_files_folder() {
        assert_eq!(collision(&["input/a", "input/ab", "input/b/c"]), None);
        assert_eq!(collision(&["input/a", "input/a"]), Some("input/a"));
        assert_eq!(collision(&["input/a", "input/a/b"]), Some("input/a/b"));
        assert_eq!(collision(&["input/a/b", "input/a"]), Some("input/a"));
    }
}

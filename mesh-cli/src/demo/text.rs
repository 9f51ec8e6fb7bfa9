//! The text the demo is about: a file of the user's, or one that comes with the program.

use mesh_protocol::job::STDIN_BYTES_MAX;

use crate::failure::Failure;
use crate::input::Source;

use super::counts::Counts;

/// A log of a winter, written for this demo.
const LIGHTS: &str = include_str!("lights.txt");

/// A text and what it is called.
#[derive(Debug)]
pub(crate) struct Text {
    /// Where it comes from, for people.
    pub(crate) source: String,
    /// The text.
    pub(crate) body: String,
    /// What this process itself counts in it.
    pub(crate) counts: Counts,
}

impl Text {
    /// Reads the file, or takes the text that comes with the program.
    ///
    /// It must fit in one ask and on a job's standard input, and there must be something to count.
    pub(crate) async fn read(input: Option<&Source>) -> Result<Self, Failure> {
        let (source, body) = match input {
            None => ("a text of its own".to_owned(), LIGHTS.to_owned()),
            Some(Source::Stdin) => ("standard input".to_owned(), Source::Stdin.text(BYTES_MAX).await?),
            Some(file @ Source::File(path)) => (path.display().to_string(), file.text(BYTES_MAX).await?),
        };
        if body.trim().is_empty() {
            return Err(Failure::usage("there is nothing to count in the text", "give another `--input`"));
        }
        let counts = Counts::of(&body);
        Ok(Self { source, body, counts })
    }
}

/// Bytes of the longest text.
const BYTES_MAX: usize = STDIN_BYTES_MAX;
const _: () =
    assert!(BYTES_MAX <= mesh_protocol::limits::BODY_BYTES_MAX, "the text is also the body of an ask");

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_program_brings_a_text_of_some_size() {
        let text = Text::read(None).await.unwrap();
        assert!(text.counts.lines >= 300 && text.counts.frequent.len() == 5, "{:?}", text.counts);
    }

    #[tokio::test]
    async fn a_text_with_nothing_in_it_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blank");
        std::fs::write(&path, " \n").unwrap();
        assert!(matches!(Text::read(Some(&Source::File(path))).await, Err(Failure::Usage { .. })));
    }
}

//! What became of each file that a job was to leave. Pure.
//!
//! Answers come in the order in which the files were asked for; see [`crate::control`].

use crate::control::missing;
use crate::report::{MissingOutput, MissingReason, OutputFile};

/// The files asked for, and what is known of the first of them.
#[derive(Debug)]
pub(crate) struct Leavings<'a> {
    asked: std::slice::Iter<'a, String>,
    found: Vec<OutputFile>,
    missing: Vec<MissingOutput>,
    complete: bool,
}

impl<'a> Leavings<'a> {
    pub(crate) fn of(asked: &'a [String]) -> Self {
        Self { asked: asked.iter(), found: Vec::new(), missing: Vec::new(), complete: false }
    }

    /// The next file has these contents.
    pub(crate) fn found(&mut self, contents: Vec<u8>) {
        self.found.extend(self.asked.next().map(|path| OutputFile { path: path.clone(), contents }));
    }

    /// The next file is not there, for the reason with this number.
    pub(crate) fn missing(&mut self, reason: u8) {
        let reason = match reason {
            missing::ABSENT => MissingReason::Absent,
            missing::NOT_A_FILE => MissingReason::NotAFile,
            missing::LINKED => MissingReason::Linked,
            missing::TOO_LARGE => MissingReason::TooLarge,
            _ => MissingReason::Unreadable,
        };
        self.missing.extend(self.asked.next().map(|path| MissingOutput { path: path.clone(), reason }));
    }

    /// Nothing more will be said of them.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    pub(crate) fn is_any_missing(&self) -> bool {
        !self.missing.is_empty() || self.asked.len() > 0
    }

    /// What was found, and what was not or was never spoken of.
    pub(crate) fn into_parts(self) -> (Vec<OutputFile>, Vec<MissingOutput>) {
        let Self { asked, found, mut missing, .. } = self;
        let unspoken =
            |path: &String| MissingOutput { path: path.clone(), reason: MissingReason::NotCollected };
        missing.extend(asked.map(unspoken));
        (found, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_asked_for_is_found_or_missing_and_none_is_made_up() {
        let asked = ["a", "b", "c"].map(str::to_owned);
        let mut leavings = Leavings::of(&asked);
        leavings.found(vec![1]);
        leavings.missing(missing::LINKED);
        assert!(leavings.is_any_missing() && !leavings.is_complete());
        let (found, missing) = leavings.into_parts();
        assert_eq!(found, [OutputFile { path: "a".to_owned(), contents: vec![1] }]);
        let reasons: Vec<_> = missing.iter().map(|one| (one.path.as_str(), one.reason)).collect();
        assert_eq!(reasons, [("b", MissingReason::Linked), ("c", MissingReason::NotCollected)]);

        let mut leavings = Leavings::of(&asked[..1]);
        leavings.found(vec![]);
        leavings.found(vec![]);
        assert!(!leavings.is_any_missing());
        assert_eq!(leavings.into_parts().0.len(), 1);
    }
}

//! Questions between linked nodes: one frame each way on a stream of their own, never queued, never durable.
//!
//! Evolve by adding variants at the end. A node that does not know a question gives the stream up.

use serde::{Deserialize, Serialize};

use crate::policy::Grant;

/// What one node asks another it is linked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Here is the revocation list I have; do you have a newer one? Empty for none.
    Revocations(#[serde(with = "serde_bytes")] Vec<u8>),
    /// What may I do at yours?
    Grant,
}

/// The answer, of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A list that is newer than the one in the question; empty when there is none.
    Revocations(#[serde(with = "serde_bytes")] Vec<u8>),
    /// What the asker may do.
    Grant(Grant),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};
    use crate::policy::Trust;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_of_a_question_never_change() {
        assert_eq!(encode(&Question::Revocations(vec![9])), [0, 1, 9]);
        assert_eq!(encode(&Question::Grant), [1]);
        assert_eq!(encode(&Answer::Grant(Grant::from(Trust::None))), [1, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Question>(&bytes);
            let _ = decode::<Answer>(&bytes);
        }
    }
}

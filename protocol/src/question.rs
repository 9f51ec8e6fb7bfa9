//! Questions between linked nodes: one frame each way on a stream of their own, never queued, never durable.
//!
//! Evolve by adding variants at the end. A node that does not know a question gives the stream up.

use serde::{Deserialize, Serialize};

use crate::id::NodeId;
use crate::policy::Grant;

/// What one node asks another it is linked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Here is the revocation list I have; do you have a newer one? Empty for none.
    Revocations(#[serde(with = "serde_bytes")] Vec<u8>),
    /// What may I do at yours?
    Grant,
    /// Do you reach this member, and would you carry packets between us?
    Reach(NodeId),
    /// Are you there? Answered with the same number.
    Echo(u64),
}

/// What a node says of its way to another: its own view, for the asker to weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// Whether it counts it as alive.
    pub alive: bool,
    /// Whether it has a direct link to it.
    pub direct: bool,
    /// Whether it lets the asker relay.
    pub carries: bool,
    /// Its round trip to it, microseconds.
    pub rtt_us: Option<u64>,
}

/// The answer, of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A list that is newer than the one in the question; empty when there is none.
    Revocations(#[serde(with = "serde_bytes")] Vec<u8>),
    /// What the asker may do.
    Grant(Grant),
    /// What there is to say about the member.
    Reach(Reach),
    /// The number of the question.
    Echo(u64),
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
        assert_eq!(encode(&Question::Reach(NodeId::from_bytes([4; 32]))), [&[2][..], &[4; 32]].concat());
        assert_eq!(encode(&Question::Echo(300)), [3, 0xac, 2]);
        let reach = Reach { alive: true, direct: true, carries: false, rtt_us: Some(5) };
        assert_eq!(encode(&Answer::Reach(reach)), [2, 1, 1, 0, 1, 5]);
        assert_eq!(encode(&Answer::Echo(300)), [3, 0xac, 2]);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Question>(&bytes);
            let _ = decode::<Answer>(&bytes);
        }
    }
}

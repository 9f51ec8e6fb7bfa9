//! The supervisor's side of the talk with an init: what may be said when, and how much of it.
//!
//! Pure. The grammar is in [`crate::control`]. After the first thing that does not fit nothing is listened to any
//! more. No more is kept than the longest answer that may come next, whatever is announced. Public for the fuzzer.

use crate::control::{Answer, Broken, body_length};

/// Longest answer that is not an output, in bytes.
const SHORT_ANSWER_BYTES: usize = 2;

/// What may be said next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The interpreter is being started.
    Start,
    /// It waits for its job: the init has nothing to say.
    Supervisor,
    /// The job runs.
    Exit,
    /// So many outputs are to come, or the reasons why they do not.
    Outputs(usize),
    /// All was said.
    Over,
    /// Something did not fit.
    Broken,
}

/// One talk.
#[derive(Debug)]
pub struct Dialogue {
    turn: Turn,
    outputs: usize,
    /// Bytes that outputs may still have.
    output_bytes: usize,
    heard: Vec<u8>,
}

impl Default for Dialogue {
    fn default() -> Self {
        Self { turn: Turn::Start, outputs: 0, output_bytes: 0, heard: Vec::new() }
    }
}

impl Dialogue {
    /// The supervisor says its part: from now on the init may say how the job went, with so many outputs that have so
    /// many bytes together. Returns whether it was the supervisor's turn.
    pub fn assign(&mut self, outputs: usize, output_bytes: usize) -> bool {
        let due = self.turn == Turn::Supervisor;
        if due {
            (self.turn, self.outputs, self.output_bytes) = (Turn::Exit, outputs, output_bytes);
        }
        due
    }

    /// Whether the init waits for a job.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.turn == Turn::Supervisor
    }

    /// Takes in what came; returns what it says in full.
    pub fn hear(&mut self, bytes: &[u8]) -> Result<Vec<Answer>, Broken> {
        self.heard.extend_from_slice(bytes);
        let answers = self.take_answers();
        if answers.is_err() {
            self.turn = Turn::Broken;
            self.heard = Vec::new();
        }
        answers
    }

    fn take_answers(&mut self) -> Result<Vec<Answer>, Broken> {
        let mut answers = Vec::new();
        while let Some((header, rest)) = self.heard.split_first_chunk::<4>() {
            let length = body_length(*header);
            if length == 0 || length > self.longest_next() {
                return Err(Broken);
            }
            let Some(body) = rest.get(..length) else { break };
            let answer = Answer::from_body(body)?;
            self.heard.drain(..header.len() + length);
            self.turn = self.after(&answer)?;
            answers.push(answer);
        }
        // Not even the beginning of an answer may come out of turn.
        let mute = matches!(self.turn, Turn::Supervisor | Turn::Over | Turn::Broken);
        if mute && !self.heard.is_empty() { Err(Broken) } else { Ok(answers) }
    }

    fn longest_next(&self) -> usize {
        match self.turn {
            Turn::Outputs(left) if left > 0 => SHORT_ANSWER_BYTES.max(self.output_bytes.saturating_add(1)),
            Turn::Start | Turn::Exit | Turn::Outputs(_) => SHORT_ANSWER_BYTES,
            Turn::Supervisor | Turn::Over | Turn::Broken => 0,
        }
    }

    fn after(&mut self, answer: &Answer) -> Result<Turn, Broken> {
        match (self.turn, answer) {
            (Turn::Start, Answer::Ready) => Ok(Turn::Supervisor),
            (Turn::Start | Turn::Exit, Answer::Refused) => Ok(Turn::Over),
            (Turn::Exit, Answer::Exited(_)) => Ok(Turn::Outputs(self.outputs)),
            (Turn::Outputs(left), Answer::Output(contents)) if left > 0 => {
                self.output_bytes = self.output_bytes.checked_sub(contents.len()).ok_or(Broken)?;
                Ok(Turn::Outputs(left - 1))
            }
            (Turn::Outputs(left), Answer::Missing(_)) if left > 0 => Ok(Turn::Outputs(left - 1)),
            (Turn::Outputs(0), Answer::Done) => Ok(Turn::Over),
            _ => Err(Broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::missing;

    fn said(answers: &[Answer]) -> Vec<u8> {
        answers.iter().flat_map(Answer::to_frame).collect()
    }

    fn assigned(outputs: usize, bytes: usize) -> Dialogue {
        let mut dialogue = Dialogue::default();
        assert_eq!(dialogue.hear(&said(&[Answer::Ready])), Ok(vec![Answer::Ready]));
        assert!(dialogue.assign(outputs, bytes));
        dialogue
    }

    #[test]
    fn a_whole_talk_is_heard_even_byte_by_byte() {
        let mut dialogue = assigned(2, 3);
        let answers = [
            Answer::Exited(7),
            Answer::Output(b"abc".to_vec()),
            Answer::Missing(missing::ABSENT),
            Answer::Done,
        ];
        let mut heard = Vec::new();
        for byte in said(&answers) {
            heard.extend(dialogue.hear(&[byte]).unwrap());
        }
        assert_eq!(heard, answers);
    }

    #[test]
    fn what_is_out_of_turn_or_too_long_or_no_answer_ends_the_talk_for_good() {
        let out_of_turn: [&[Answer]; 7] = [
            &[Answer::Ready],
            &[Answer::Done],
            &[Answer::Missing(missing::ABSENT)],
            &[Answer::Exited(0), Answer::Exited(0)],
            &[Answer::Exited(0), Answer::Done],
            &[Answer::Exited(0), Answer::Output(vec![0; 4])],
            &[Answer::Exited(0), Answer::Missing(missing::ABSENT), Answer::Done, Answer::Done],
        ];
        for answers in out_of_turn {
            let mut dialogue = assigned(1, 3);
            assert_eq!(dialogue.hear(&said(answers)), Err(Broken), "{answers:?}");
            assert_eq!(dialogue.hear(&said(&[Answer::Exited(0)])), Err(Broken));
        }
        for bytes in [&[0, 0, 0, 0][..], &[255, 255, 255, 255], &[1, 0, 0, 0, 9], &[2, 0, 0, 0, 5, 0]] {
            assert_eq!(assigned(1, 3).hear(bytes), Err(Broken), "{bytes:?}");
        }
    }

    #[test]
    fn outputs_that_are_small_each_may_not_be_large_together() {
        let mut dialogue = assigned(3, 4);
        let pair = Answer::Output(vec![0; 2]);
        assert!(dialogue.hear(&said(&[Answer::Exited(0), pair.clone(), pair.clone()])).is_ok());
        assert_eq!(dialogue.hear(&said(&[pair])), Err(Broken));
    }

    #[test]
    fn an_init_that_speaks_while_it_should_wait_is_not_given_a_job() {
        let mut dialogue = Dialogue::default();
        assert!(!dialogue.assign(0, 0));
        assert!(dialogue.hear(&[&said(&[Answer::Ready])[..], &[0]].concat()).is_err());
        assert!(!dialogue.is_ready() && !dialogue.assign(0, 0));
    }
}

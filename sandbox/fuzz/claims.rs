//! What must hold for any bytes that come over the control socket of a sandbox. Run by the fuzzer with bytes that
//! coverage found, and by the property tests of the crate with random ones.
//!
//! A claim returns whether the bytes were taken to their end. It panics when the language breaks its promise.

#![expect(clippy::unwrap_used, reason = "a broken claim is a panic")]

use mesh_sandbox::control::{Answer, Assignment};
use mesh_sandbox::dialogue::Dialogue;

/// What holds for any bytes; whether they were taken.
pub(crate) type Claim = fn(&[u8]) -> bool;

/// Every claim, by the name of the folder of its seeds.
pub(crate) const CLAIMS: &[(&str, Claim)] = &[("answers", answers), ("assignment", assignment)];

/// Of an init that a job may have taken over: a hostile one hands over no more files than were asked for and no more
/// bytes than are allowed, speaks only in turn, and is understood the same however its words arrive.
///
/// The first byte says how many files are asked for, the second how many bytes they may have together.
fn answers(bytes: &[u8]) -> bool {
    let Some(([asked, allowed], said)) = bytes.split_first_chunk::<2>() else { return false };
    let (asked, allowed) = (usize::from(*asked), usize::from(*allowed));
    let whole = hear(said, said.len().max(1), asked, allowed);
    let in_pieces = hear(said, 1, asked, allowed);
    if let (Some(whole), Some(in_pieces)) = (&whole, &in_pieces) {
        assert_eq!(whole, in_pieces);
    }
    assert_eq!(whole.is_some(), in_pieces.is_some());
    let Some(heard) = whole else { return false };
    let said_again: Vec<u8> = heard.iter().flat_map(Answer::to_frame).collect();
    assert!(said.starts_with(&said_again), "{heard:?} was taken from other bytes than its own");
    let outputs = heard.iter().filter_map(|answer| match answer {
        Answer::Output(contents) => Some(contents.len()),
        _ => None,
    });
    assert!(outputs.clone().count() <= asked && outputs.sum::<usize>() <= allowed);
    let count = |wanted: &Answer| heard.iter().filter(|answer| *answer == wanted).count();
    assert!(count(&Answer::Ready) <= 1 && count(&Answer::Done) + count(&Answer::Refused) <= 1);
    heard.last().is_some_and(|last| matches!(last, Answer::Done | Answer::Refused))
}

/// Everything that is said in pieces of this length, the job being assigned as soon as it may; nothing if any of it
/// does not fit.
fn hear(said: &[u8], piece: usize, asked: usize, allowed: usize) -> Option<Vec<Answer>> {
    let mut dialogue = Dialogue::default();
    let mut heard = Vec::new();
    // Ready is said alone: an init that goes on before it has a job is out of turn.
    let ready = Answer::Ready.to_frame();
    let (first, rest) = if said.starts_with(&ready) { said.split_at(ready.len()) } else { (said, &[][..]) };
    for piece in first.chunks(piece).chain(rest.chunks(piece)) {
        match dialogue.hear(piece) {
            Ok(answers) => heard.extend(answers),
            Err(_) => {
                assert!(dialogue.hear(&Answer::Done.to_frame()).is_err(), "it listens on");
                return None;
            }
        }
        if dialogue.is_ready() {
            assert!(dialogue.assign(asked, allowed) && !dialogue.is_ready());
        }
    }
    Some(heard)
}

/// One value, one encoding.
fn assignment(bytes: &[u8]) -> bool {
    let Some(assignment) = Assignment::from_body(bytes) else { return false };
    let frame = assignment.to_frame();
    let (length, body) = frame.split_first_chunk::<4>().unwrap();
    assert_eq!((usize::try_from(u32::from_le_bytes(*length)).unwrap(), body), (bytes.len(), bytes));
    true
}

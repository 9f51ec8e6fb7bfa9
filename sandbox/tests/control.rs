//! The claims of the fuzzer about the control socket, without a fuzzer: on its seeds, on seeds that were changed a
//! little, and on random bytes.
//!
//! The seeds are golden: each is written here by its encoder, and the file has to hold the same bytes.
//! `MESH_WRITE_SEEDS=1` writes them, for a language that is new.

#![expect(clippy::unwrap_used, reason = "a broken test should stop")]

use std::path::PathBuf;

use mesh_sandbox::control::{Answer, Assignment, missing};
use proptest::prelude::*;

#[path = "../fuzz/claims.rs"]
mod claims;

use claims::{CLAIMS, Claim};

/// Seeds by claim and name.
fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let talk = |asked: u8, allowed: u8, answers: &[Answer]| {
        let said = answers.iter().flat_map(Answer::to_frame);
        [asked, allowed].into_iter().chain(said).collect::<Vec<u8>>()
    };
    let assignment = Assignment {
        max_pids: 64,
        file_bytes: 1 << 24,
        output_bytes: 1 << 24,
        code: b"print(1)",
        inputs: vec![("a/b", b"one"), ("c", b"")],
        outputs: vec!["d", "e/f"],
    };
    vec![
        ("answers", "plain", talk(0, 0, &[Answer::Ready, Answer::Exited(0), Answer::Done])),
        (
            "answers",
            "outputs",
            talk(
                3,
                9,
                &[
                    Answer::Ready,
                    Answer::Exited(3),
                    Answer::Output(b"contents".to_vec()),
                    Answer::Missing(missing::ABSENT),
                    Answer::Missing(missing::UNREADABLE),
                    Answer::Done,
                ],
            ),
        ),
        ("answers", "refused", talk(0, 0, &[Answer::Ready, Answer::Refused])),
        ("answers", "refused-at-once", talk(1, 1, &[Answer::Refused])),
        ("assignment", "full", assignment.to_frame().split_off(4)),
        ("assignment", "empty", Assignment::default().to_frame().split_off(4)),
    ]
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds")
}

/// Every seed on the disk: those above, and those that once broke a claim.
fn stored_seeds() -> Vec<(String, Claim, Vec<u8>)> {
    let mut stored = Vec::new();
    for (name, claim) in CLAIMS {
        for entry in std::fs::read_dir(folder().join(name)).unwrap() {
            let path = entry.unwrap().path();
            stored.push((path.display().to_string(), *claim, std::fs::read(path).unwrap()));
        }
    }
    stored
}

#[test]
fn what_is_said_on_the_control_socket_never_changes() {
    for (claim, name, bytes) in seeds() {
        let path = folder().join(claim).join(name);
        if std::env::var_os("MESH_WRITE_SEEDS").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "{} is not what is said now", path.display());
    }
}

#[test]
fn every_seed_is_taken_and_no_part_of_it_is_taken_for_the_whole() {
    for (path, claim, bytes) in stored_seeds() {
        assert!(claim(&bytes), "{path} is not taken");
        for cut in 0..bytes.len() {
            assert!(!claim(&bytes[..cut]), "{path} is taken after {cut} bytes");
        }
        assert!(!claim(&[&bytes[..], &[0]].concat()), "{path} is taken with a byte more");
    }
}

proptest! {
    #[test]
    fn every_claim_holds_for_random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (_, claim) in CLAIMS {
            claim(&bytes);
        }
    }

    #[test]
    fn every_claim_holds_for_seeds_changed_a_little(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let stored = stored_seeds();
        let (_, claim, mut bytes) = stored[which.index(stored.len())].clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        claim(&bytes);
    }

    #[test]
    fn every_claim_holds_for_any_talk_of_well_formed_answers(
        head in (0..4_u8, 0..20_u8),
        answers in proptest::collection::vec(prop_oneof![
            Just(Answer::Ready),
            Just(Answer::Refused),
            any::<u8>().prop_map(Answer::Exited),
            proptest::collection::vec(any::<u8>(), 0..12).prop_map(Answer::Output),
            (1..6_u8).prop_map(Answer::Missing),
            Just(Answer::Done),
        ], 0..8),
    ) {
        let said = [Answer::Ready].iter().chain(&answers).flat_map(Answer::to_frame);
        let bytes: Vec<u8> = [head.0, head.1].into_iter().chain(said).collect();
        CLAIMS[0].1(&bytes);
    }
}

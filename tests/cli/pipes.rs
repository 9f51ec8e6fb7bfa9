//! Output that cannot be written.

use std::fs::File;
use std::process::Stdio;

use crate::command::Place;

#[test]
fn a_reader_that_went_away_is_no_error() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = place.program(&["completions", "bash"]).stdout(writer).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_full_disk_is_an_error() {
    let place = Place::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = place.program(&["explain", "exit-codes"]).stdout(Stdio::from(full)).output().unwrap();
    insta::assert_snapshot!(place.pictured(&output), @r"
    exit code 3
    ----- stderr -----
    error: cannot write the output
    caused by: No space left on device (os error 28)

    hint: check where the output goes: a full disk, or a program that has ended
    ");
}

#[test]
fn colour_is_for_terminals_unless_it_is_asked_for() {
    let place = Place::new();
    let coloured = |arguments: &[&str]| {
        let output = place.program(arguments).output().unwrap();
        output.stderr.contains(&0x1b)
    };
    assert!(!coloured(&["who"]));
    assert!(coloured(&["who", "--color", "always"]));
}

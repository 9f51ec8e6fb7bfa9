//! Wrong command lines: what is said, and that it is exit code 2.

use crate::command::Place;

#[test]
fn a_misspelt_command_is_answered_with_the_right_one() {
    insta::assert_snapshot!(Place::new().picture(&["statu"]), @r"
    exit code 2
    ----- stderr -----
    error: unrecognized subcommand 'statu'

      tip: some similar subcommands exist: 'setup', 'status'

    Usage: mesh-cli [OPTIONS] [COMMAND]

    For more information, try '--help'.
    ");
}

#[test]
fn an_unknown_permission_is_answered_with_those_there_are() {
    insta::assert_snapshot!(Place::new().picture(&["allow", "atlas", "fly"]), @r"
    exit code 2
    ----- stderr -----
    error: invalid value 'fly' for '[PERMISSION]...': `fly` is not one of resolve, message, ask, job, relay, observe

    For more information, try '--help'.
    ");
}

#[test]
fn a_program_whose_language_is_not_told_is_not_guessed() {
    insta::assert_snapshot!(Place::new().picture(&["run", "-e", "print(1)"]), @r"
    exit code 2
    ----- stderr -----
    error: the program's language is not told by its name

    hint: add `--language python`, `node` or `bash`
    ");
}

#[test]
fn standard_input_is_not_used_twice() {
    insta::assert_snapshot!(Place::new().picture(&["run", "-", "--stdin", "-"]), @r"
    exit code 2
    ----- stderr -----
    error: standard input cannot be both the program and what it reads

    hint: put one of them in a file
    ");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    insta::assert_snapshot!(Place::new().picture(&["run", "missing.py"]), @r"
    exit code 2
    ----- stderr -----
    error: cannot read missing.py
    caused by: No such file or directory (os error 2)

    hint: check the path, and that this user may read it
    ");
}

#[test]
fn what_cannot_be_asked_names_the_flag_that_answers() {
    insta::assert_snapshot!(Place::new().picture(&["outbox", "--discard", "nova"]), @r"
    exit code 4
    ----- stderr -----
    error: this needs your word, and it was not given

    hint: add `--yes` to say it beforehand
    ");
}

#[test]
fn a_line_that_is_no_ticket_is_refused_and_not_repeated() {
    let place = Place::new();
    insta::assert_snapshot!(place.picture(&["join", "mesh-oops"]), @r"
    exit code 2
    ----- stderr -----
    error: this is not a ticket

    hint: a ticket is the line that `mesh-cli invite` prints; it starts with `mesh1`
    ");
    let damaged = place.picture_reading(&["join", "-"], "mesh1abc\n");
    assert!(!damaged.contains("mesh1abc"));
    insta::assert_snapshot!(damaged, @r"
    exit code 2
    ----- stderr -----
    error: the ticket is damaged or incomplete

    hint: copy the whole line again, from `mesh1` to its end
    ");
}

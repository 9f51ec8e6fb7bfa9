//! Where there is no node: what is said, and that nothing is made by looking.

use std::os::unix::fs::PermissionsExt;

use crate::command::Place;

#[test]
fn without_arguments_it_says_how_things_are_and_what_comes_next() {
    insta::assert_snapshot!(Place::new().picture(&[]), @r"
    exit code 0
    ----- stdout -----
    there is no node here: [FOLDER]/home does not exist
    ----- stderr -----
    hint: `mesh-cli init` makes a mesh
    hint: `mesh-cli join TICKET` joins one
    hint: `mesh-cli --help` lists all commands
    ");
}

#[test]
fn a_command_that_needs_a_node_says_that_there_is_none() {
    let place = Place::new();
    insta::assert_snapshot!(place.picture(&["who"]), @r"
    exit code 3
    ----- stderr -----
    error: there is no node here: [FOLDER]/home does not exist

    hint: `mesh-cli init` makes a mesh
    hint: `mesh-cli join TICKET` joins one
    ");
    assert!(!place.home().exists(), "looking must not make a home");
}

#[test]
fn the_same_is_one_document_for_programs() {
    insta::assert_snapshot!(Place::new().picture(&["--json", "status"]), @r#"
    exit code 3
    ----- stdout -----
    {"schema_version":1,"ok":false,"error":{"code":"no_home","kind":"not_found","message":"there is no node here: [FOLDER]/home does not exist","hints":["`mesh-cli init` makes a mesh","`mesh-cli join TICKET` joins one"],"retryable":false}}
    "#);
}

#[test]
fn a_home_without_a_running_node_says_how_to_start_it() {
    let place = Place::new();
    std::fs::create_dir(place.home()).unwrap();
    std::fs::set_permissions(place.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    insta::assert_snapshot!(place.picture(&["status"]), @r"
    exit code 3
    ----- stderr -----
    error: the node is not running

    hint: `mesh-cli up` starts it
    ");
    insta::assert_snapshot!(place.picture(&["down"]), @r"
    exit code 0
    ----- stderr -----
    the node was down already
    ");
}

#[test]
fn a_home_that_others_can_write_to_is_not_used() {
    let place = Place::new();
    std::fs::create_dir(place.home()).unwrap();
    std::fs::set_permissions(place.home(), std::fs::Permissions::from_mode(0o777)).unwrap();
    insta::assert_snapshot!(place.picture(&["status"]), @r"
    exit code 4
    ----- stderr -----
    error: directory [FOLDER]/home is open to other users (mode 777)

    hint: run `chmod 700 [FOLDER]/home`
    ");
}

#[test]
fn a_token_that_is_none_is_refused_without_being_shown() {
    let place = Place::new();
    let mut program = place.program(&["whoami"]);
    let picture = place.pictured(&program.env("MESH_TOKEN", "not-a-token").output().unwrap());
    assert!(!picture.contains("not-a-token"));
    insta::assert_snapshot!(picture, @r"
    exit code 4
    ----- stderr -----
    error: the text is not a token

    hint: `MESH_TOKEN` must hold the token and nothing else
    ");
}

#[test]
fn a_job_that_cannot_be_run_ends_with_125() {
    insta::assert_snapshot!(Place::new().picture(&["run", "--language", "bash", "-e", "true"]), @r"
    exit code 125
    ----- stderr -----
    error: there is no node here: [FOLDER]/home does not exist

    hint: `mesh-cli init` makes a mesh
    hint: `mesh-cli join TICKET` joins one
    ");
}

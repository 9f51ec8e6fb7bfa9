//! The life of a node on one machine, from `init` to `down`.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

use crate::command::Place;

/// A home whose node listens on the loopback interface alone. Whatever happens, its node is stopped.
struct Machine(Place);

impl Machine {
    fn new() -> Self {
        let place = Place::new();
        std::fs::DirBuilder::new().mode(0o700).create(place.home()).unwrap();
        let config = "[node]\nname = \"atlas\"\nlisten = \"127.0.0.1:0\"\n\n[executor]\nenabled = false\n";
        std::fs::write(place.home().join("config.toml"), config).unwrap();
        Self(place)
    }

    fn refuses_to_start(&self, reason: &str) {
        let picture = self.0.picture(&["up"]);
        let named = picture.contains(reason) && picture.contains("mesh.redb");
        assert!(named && !picture.contains("exit code 0"), "{picture}");
    }

    /// A run with what differs from run to run taken out.
    fn shows(&self, arguments: &[&str], picture: impl FnOnce(String)) {
        let mut settings = insta::Settings::clone_current();
        settings.add_filter("mesh-[0-9a-v]{26}", "[MESH]");
        settings.add_filter("[a-z2-7]{52}", "[KEY]");
        settings.add_filter("node [a-z2-7]{10} of", "node [SHORT] of");
        settings.add_filter("127.0.0.1:[0-9]+", "127.0.0.1:[PORT]");
        settings.add_filter("up          [0-9]+s", "up          [AGE]");
        settings.bind(|| picture(self.0.picture(arguments)));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.program(&["down"]).output();
    }
}

#[test]
fn a_mesh_is_made_once_and_its_node_runs_until_it_is_told_to_stop() {
    let machine = Machine::new();
    machine.shows(&["up"], |picture| {
        insta::assert_snapshot!(picture, @r"
        exit code 3
        ----- stderr -----
        error: [FOLDER]/home is not a member of any mesh

        hint: `mesh-cli init` makes a mesh, `mesh-cli join -` joins one
        ")
    });
    machine.shows(&["init"], |picture| {
        insta::assert_snapshot!(picture, @r"
    exit code 0
    ----- stdout -----
    node  atlas [KEY]
    mesh  [MESH]
    root  [KEY]
    ----- stderr -----
    hint: `mesh-cli up` starts the node, then `mesh-cli invite` prints a ticket for the next
    ")
    });
    machine.shows(&["init"], |picture| {
        insta::assert_snapshot!(picture, @r"
    exit code 0
    ----- stdout -----
    this home is node [SHORT] of [MESH] already
    ----- stderr -----
    hint: `mesh-cli up` starts the node, then `mesh-cli invite` prints a ticket for the next
    ")
    });
    machine.shows(&["up"], |picture| {
        insta::assert_snapshot!(picture, @r"
    exit code 0
    ----- stdout -----
    node        atlas [KEY]
    mesh        [MESH], with its root key
    up          [AGE], version 0.1.0
    reached at  127.0.0.1:[PORT]
    sandbox     none: jobs are switched off in its configuration
    work        0 asks and 0 jobs open, 0 agents here

    no peers yet
    ----- stderr -----
    the node is up
    hint: `mesh-cli invite` prints a ticket for the next machine
    ")
    });
    machine.shows(&["up", "-q"], |picture| {
        insta::assert_snapshot!(picture, @r"
    exit code 0
    ----- stdout -----
    node        atlas [KEY]
    mesh        [MESH], with its root key
    up          [AGE], version 0.1.0
    reached at  127.0.0.1:[PORT]
    sandbox     none: jobs are switched off in its configuration
    work        0 asks and 0 jobs open, 0 agents here

    no peers yet
    ")
    });
    machine.shows(&["whoami"], |picture| {
        insta::assert_snapshot!(picture, @r"
    exit code 0
    ----- stdout -----
    you are  operator
    on       atlas [KEY]
    you may  status, doctor, whoami, agents, resolve, send, send_batch, messages,
             ask, flights, flight, cancel_flight, run, jobs, job, job_result,
             job_events, job_outputs, job_capabilities, cancel_job, evidence,
             attestation, result_artifact, outboxes, discard_outbox, invite, grant,
             revoke, block, unblock, route, ping, shutdown
    ")
    });
    machine.shows(&["down"], |picture| {
        insta::assert_snapshot!(picture, @r"
    exit code 0
    ----- stderr -----
    the node is down; what it had accepted waits for it to come back
    ")
    });
    machine.shows(&["down"], |picture| {
        insta::assert_snapshot!(picture, @r"
    exit code 0
    ----- stderr -----
    the node was down already
    ")
    });
}

#[test]
fn the_log_in_the_background_is_for_its_owner_alone() {
    let machine = Machine::new();
    for arguments in [["init", "-q"], ["up", "-q"]] {
        assert!(machine.0.program(&arguments).output().unwrap().status.success());
    }
    let log = machine.0.home().join("node.log");
    assert_eq!(std::fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o600);
    let shown = machine.0.program(&["logs", "-n", "20"]).output().unwrap();
    assert!(String::from_utf8(shown.stdout).unwrap().contains("the node is up"));
}

#[test]
fn a_ticket_is_no_use_where_its_issuer_is_not() {
    let machine = Machine::new();
    for arguments in [["init", "-q"], ["up", "-q"]] {
        assert!(machine.0.program(&arguments).output().unwrap().status.success());
    }
    let ticket = String::from_utf8(machine.0.program(&["invite", "-q"]).output().unwrap().stdout).unwrap();
    assert!(machine.0.program(&["down"]).output().unwrap().status.success());
    let other = Place::new();
    let picture = other.picture_reading(&["join", "-", "--name", "nova"], &ticket);
    assert!(!picture.contains(ticket.trim()), "{picture}");
    assert!(picture.starts_with("exit code 3\n") && picture.contains("does not answer"), "{picture}");
}

#[test]
fn a_name_that_the_configuration_contradicts_is_refused() {
    let machine = Machine::new();
    let picture = machine.0.picture(&["init", "--name", "nova"]);
    assert!(picture.starts_with("exit code 1\n"), "{picture}");
    assert!(picture.contains("config.toml does not say that this node is called nova"), "{picture}");
    assert!(!machine.0.home().join("node.key").exists());
    assert!(machine.0.program(&["init", "--name", "atlas"]).output().unwrap().status.success());
}

/// What this node owes others is in that file: without it, or with one that does not read, it does not start.
#[test]
fn a_node_whose_database_is_missing_or_damaged_does_not_start_and_names_the_file() {
    let machine = Machine::new();
    assert!(machine.0.program(&["init"]).output().unwrap().status.success());
    let database = machine.0.home().join("mesh.redb");
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[..64].fill(0x5a);
    std::fs::write(&database, &bytes).unwrap();
    machine.refuses_to_start("cannot open database [FOLDER]");
    assert_eq!(std::fs::read(&database).unwrap(), bytes, "it is left as it is");
    std::fs::remove_file(&database).unwrap();
    machine.refuses_to_start("mesh.redb is missing");
    assert!(!database.exists(), "no new one is made in its place");
}

//! `keys`: made, shown once, listed, used on a running node and ended.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::net::TcpSocket;

use crate::command::Place;

/// A home with a configuration. Whatever happens, its node is stopped.
struct Machine(Place);

impl Machine {
    fn new(http: &str) -> Self {
        let place = Place::new();
        std::fs::DirBuilder::new().mode(0o700).create(place.home()).unwrap();
        let node = "[node]\nname = \"atlas\"\nlisten = \"127.0.0.1:0\"\n[executor]\nenabled = false\n";
        std::fs::write(place.home().join("config.toml"), format!("{node}[http]\n{http}")).unwrap();
        Self(place)
    }

    /// What a run that has to go well says on standard output.
    fn does(&self, arguments: &[&str]) -> String {
        let output = self.0.program(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn credentials(&self) -> PathBuf {
        self.0.home().join("keys/credentials.json")
    }

    fn listed(&self) -> Vec<Value> {
        let document: Value = serde_json::from_str(&self.does(&["--json", "keys", "list"])).unwrap();
        document["data"].as_array().unwrap().clone()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.program(&["down"]).output();
    }
}

/// What the job API says to a key: the status, and the body.
fn asked(at: SocketAddr, path: &str, key: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(at).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_key_is_made_listed_used_and_revoked_while_the_node_runs() {
    // Bound and never listening: nobody else is given its port, and the node may take it (`SO_REUSEADDR`, socket(7)).
    let port = TcpSocket::new_v4().unwrap();
    port.set_reuseaddr(true).unwrap();
    port.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let at = port.local_addr().unwrap();
    let machine = Machine::new(&format!("listen = \"{at}\"\n"));
    machine.does(&["init", "-q"]);
    machine.does(&["up", "-q"]);
    assert_eq!(asked(at, "/v1/whoami", "nobody").0, 401, "there is a port, and nobody has a key");
    let made =
        machine.does(&["keys", "add", "acme", "--id", "ci", "--scopes", "service:read", "--expires", "90d"]);
    let key = made.trim();
    assert!(made.lines().count() == 1 && key.starts_with("mesh_ci_"), "{made}");
    let kept = std::fs::read_to_string(machine.credentials()).unwrap();
    assert!(!kept.contains(key.rsplit('_').next().unwrap()), "a digest is kept, and no key");
    for file in ["keys/credentials.json", "keys/pepper"] {
        assert_eq!(mode(&machine.0.home().join(file)), 0o600, "{file}");
    }
    assert_eq!(mode(&machine.0.home().join("keys")), 0o700);
    let (status, who) = asked(at, "/v1/whoami", key);
    assert_eq!((status, &who["tenant"], &who["credential_id"]), (200, &"acme".into(), &"ci".into()));
    assert_eq!(who["scopes"], serde_json::json!(["service:read"]));
    assert_eq!(asked(at, "/v1/jobs", key).0, 403, "it is for nothing else");
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d+[smh] ago|now", "[AGO]");
    settings.bind(|| {
        insta::assert_snapshot!(machine.0.picture(&["keys", "list"]), @r"
        exit code 0
        ----- stdout -----
        KEY  TENANT  STATE  SCOPES        EXPIRES  MADE
        ci   acme    good   service:read  in 89d   [AGO]
        ");
    });
    assert!(!machine.does(&["--json", "keys", "list"]).contains("digest"));
    let revoked = machine.does(&["keys", "revoke", "ci"]);
    assert_eq!(revoked, "key ci of tenant acme is good for nothing any more\n");
    let (status, refusal) = asked(at, "/v1/whoami", key);
    assert_eq!((status, &refusal["error"]["code"]), (401, &"invalid_api_key".into()));
    let before = machine.listed();
    machine.does(&["keys", "revoke", "ci"]);
    assert_eq!(machine.listed(), before, "once is enough");
    assert_eq!(before[0]["state"], "revoked");
}

#[test]
fn what_cannot_be_a_key_is_refused_and_nothing_is_changed() {
    let machine = Machine::new("");
    machine.does(&["keys", "add", "acme", "--id", "ci"]);
    let before = std::fs::read(machine.credentials()).unwrap();
    for (arguments, said) in [
        (&["keys", "add", "acme", "--id", "ci"][..], "there is a key `ci` already"),
        (&["keys", "add", "operator"], "`operator` is no tenant"),
        (&["keys", "add", "@agent"], "`@agent` is no tenant"),
        (&["keys", "add", "acme", "--id", "under_score"], "`under_score` is no key id"),
        (&["keys", "add", "acme", "--scopes", "jobs:all"], "there is no scope `jobs:all`"),
        (&["keys", "add", "acme", "--expires", "soon"], "is not a unit of time"),
        (&["keys", "revoke", "nobody"], "there is no key `nobody`"),
    ] {
        let picture = machine.0.picture(arguments);
        assert!(!picture.starts_with("exit code 0") && picture.contains(said), "{picture}");
    }
    assert_eq!(std::fs::read(machine.credentials()).unwrap(), before);
    std::fs::remove_file(machine.0.home().join("keys/pepper")).unwrap();
    let picture = machine.0.picture(&["keys", "add", "acme"]);
    assert!(picture.contains("good with it only"), "a new pepper would end every key: {picture}");
    assert_eq!(std::fs::read(machine.credentials()).unwrap(), before);
}

#[test]
fn keys_that_are_made_at_the_same_time_are_all_there() {
    let machine = Machine::new("");
    let makers: Vec<_> = (0..6)
        .map(|n| machine.0.program(&["keys", "add", "acme", "--id", &format!("k{n}"), "-q"]).spawn().unwrap())
        .collect();
    for mut maker in makers {
        assert!(maker.wait().unwrap().success());
    }
    assert_eq!(machine.listed().len(), 6);
}

#[test]
fn keys_are_where_the_configuration_says() {
    let place = Place::new();
    let (credentials, pepper) = (place.path("etc/keys.json"), place.path("etc/pepper"));
    let http = format!("credentials = {credentials:?}\npepper = {pepper:?}\n");
    let machine = Machine::new(&http);
    let made = machine.does(&["--json", "keys", "add", "acme", "--principal", "build"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    assert!(made["data"]["key"].as_str().unwrap().starts_with("mesh_"));
    assert_eq!(made["data"]["principal_id"], "build");
    assert!(credentials.exists() && pepper.exists() && !machine.credentials().exists());
}

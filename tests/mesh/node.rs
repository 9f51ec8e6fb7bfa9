//! One node: a home, a host, and the program under test running there, or not.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use mesh_node::api::tokens::Token;
use mesh_node::client::{Client, Endpoint};
use mesh_node::home::Home;
use mesh_protocol::api::ask::{AskCommand, FlightView, Receipt, SendRequest};
use mesh_protocol::api::node::{PeerStatus, Status};
use mesh_tests::network::Host;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

/// How long anything a test waits for may take, on a machine that is busy with other tests.
pub(crate) const WITHIN: Duration = Duration::from_secs(45);
/// Between two looks at something that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Where every node listens.
pub(crate) const PORT: u16 = 7_370;

/// Jobs switched off: most tests are not about them, and looking at a sandbox takes seconds.
pub(crate) const NO_JOBS: &str = "[executor]\nenabled = false\n";

/// One node. What runs is stopped when it is dropped.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) host: Host,
    pub(crate) home: PathBuf,
    pub(crate) client: Client,
    /// More variables of the process's environment, from its next start on.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    process: Option<Child>,
}

/// An agent whose whole program is this shell script.
pub(crate) fn agent(name: &str, script: &str) -> String {
    format!("[[agent]]\nname = \"{name}\"\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\n\n")
}

impl Drop for Node {
    fn drop(&mut self) {
        let log = self.home.join("log");
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            eprintln!("----- log of {} -----\n{log}", self.name);
        }
        if let Some(mut process) = self.process.take() {
            let pid = Pid::from_child(&process);
            let _ = kill_process(pid, Signal::TERM);
            // A node ends its jobs first; one that does not end is stopped by the test runner, which says so.
            let _ = process.wait();
        }
    }
}

impl Node {
    /// A home with its configuration, and nothing else.
    pub(crate) fn prepare(root: &Path, host: Host, name: &str, extra: &str) -> Self {
        let dir = root.join(name);
        let home = Home::open(&dir).unwrap();
        let listen = host.at(PORT);
        let config = format!("[node]\nname = \"{name}\"\nlisten = \"{listen}\"\n\n{extra}");
        std::fs::write(home.config_file(), config).unwrap();
        let socket = home.socket(|_| None).unwrap();
        let endpoint = Endpoint { home: dir.clone(), lock: dir.join("mesh.lock"), socket, token: None };
        Self {
            name: name.to_owned(),
            host,
            home: dir,
            client: Client::new(endpoint),
            environment: Vec::new(),
            process: None,
        }
    }

    /// The first node of a new mesh, running. Members may do everything there.
    pub(crate) async fn found(root: &Path, host: Host, name: &str, extra: &str) -> Self {
        let mut node = Self::prepare(root, host, name, extra);
        succeeded(&node.cli(&["init", "--trust", "mine"], ""));
        node.start().await;
        node
    }

    /// One more node of this node's mesh, running and seen from here. Members may do everything there.
    pub(crate) async fn join(&self, root: &Path, host: Host, name: &str, extra: &str) -> Self {
        let ticket = succeeded(&self.cli(&["invite", "--quiet", "--trust", "mine"], ""));
        let mut node = Self::prepare(root, host, name, extra);
        succeeded(&node.cli(&["join", "--trust", "mine", "-"], &ticket));
        node.start().await;
        self.sees(name, "alive").await;
        node.sees(&self.name, "alive").await;
        node
    }

    /// A command of the program under test, run to its end on this node's host with something to read.
    pub(crate) fn cli(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.program(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.host.within(|| command.spawn()).unwrap().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that does not read has ended by then, which its output tells.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().unwrap()
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh-under-test"));
        command.args(arguments).current_dir(&self.home).env_clear();
        command.env("MESH_HOME", &self.home).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    /// Starts the node and waits until it answers.
    pub(crate) async fn start(&mut self) {
        assert!(self.process.is_none(), "{} runs already", self.name);
        let log = File::options().append(true).create(true).open(self.home.join("log")).unwrap();
        let mut command = self.program(&["up", "--foreground"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        self.process = Some(self.host.within(|| command.spawn()).unwrap().unwrap());
        let deadline = Instant::now() + WITHIN;
        while self.client.status().await.is_err() {
            let ended = self.process.as_mut().unwrap().try_wait().unwrap();
            assert_eq!(ended, None, "{} ended at once", self.name);
            assert!(Instant::now() < deadline, "{} does not answer", self.name);
            sleep(LOOK_EVERY).await;
        }
        let token = Token::read(&self.home.join("tokens/operator")).unwrap();
        self.client = Client::new(Endpoint { token: Some(token), ..self.client.endpoint().clone() });
    }

    /// Kills the process with a signal it cannot see, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Sends the process a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.process.as_ref().expect("it runs")), signal).unwrap();
    }

    /// Mebibytes of memory the process has (proc_pid_status(5)).
    pub(crate) fn resident_mib(&self) -> u64 {
        let pid = self.process.as_ref().expect("it runs").id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1_024
    }

    /// The status, once it is as it should be.
    pub(crate) async fn status_when(&self, what: &str, holds: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + WITHIN;
        loop {
            let status = self.client.status().await.unwrap();
            if holds(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{}: {what}: {status:#?}", self.name);
            sleep(LOOK_EVERY).await;
        }
    }

    /// The peer, once it is as it should be.
    pub(crate) async fn peer_when(
        &self,
        peer: &str,
        what: &str,
        holds: impl Fn(&PeerStatus) -> bool,
    ) -> PeerStatus {
        let found = |status: &Status| status.peers.iter().any(|p| p.name == peer && holds(p));
        let status = self.status_when(&format!("{peer}: {what}"), found).await;
        status.peers.into_iter().find(|p| p.name == peer).unwrap()
    }

    /// The peer, once this node sees it in a state.
    pub(crate) async fn sees(&self, peer: &str, state: &str) -> PeerStatus {
        self.peer_when(peer, state, |p| p.state == state).await
    }

    /// Gives an agent work.
    pub(crate) async fn ask(&self, to: &str, task: &str, deadline_seconds: Option<u64>) -> Receipt {
        let command = AskCommand { to: to.into(), task: task.into(), request_id: None, deadline_seconds };
        self.client.ask(&command).await.unwrap()
    }

    /// Sends an agent a message, which is accepted.
    pub(crate) async fn tell(&self, to: &str, body: &str) {
        let request = SendRequest { to: to.into(), body: body.into(), request_id: None };
        self.client.send(&request, 0).await.unwrap();
    }

    /// The flight, once it is as it should be.
    pub(crate) async fn flight_when(
        &self,
        receipt: &Receipt,
        what: &str,
        holds: impl Fn(&FlightView) -> bool,
    ) -> FlightView {
        let id = receipt.flight_id.expect("an ask has a flight").to_string();
        let deadline = Instant::now() + WITHIN;
        loop {
            let flight = self.client.flight(&id, 0).await.unwrap();
            if holds(&flight) {
                return flight;
            }
            assert!(Instant::now() < deadline, "{}: {what}: {flight:#?}", self.name);
            sleep(LOOK_EVERY).await;
        }
    }

    /// The flight, once it has ended.
    pub(crate) async fn ended(&self, receipt: &Receipt) -> FlightView {
        self.flight_when(receipt, "it ends", |flight| flight.terminal).await
    }
}

/// What a command printed, which must have succeeded.
pub(crate) fn succeeded(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {out}{err}", output.status);
    out.into_owned()
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(LOOK_EVERY).await;
    }
}

/// A file's lines; none when it is not there.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

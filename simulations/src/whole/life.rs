//! One life of a node, from its start to its crash, and what it may still do.
//!
//! A process that is killed does nothing any more. Tasks on a shared runtime cannot be killed so thoroughly, so
//! everything through which a node acts outside asks its life first: socket, disk, agents, jobs. What the tasks of an
//! ended life do until they notice is seen by nobody.

use std::io;

use mesh_node::storage::Backends;
use redb::StorageBackend;
use tokio_util::sync::CancellationToken;

use crate::disk::Disk;

/// Short, so that it is full now and then.
pub(super) const JOURNAL_BYTES: u64 = 64 * 1024;

/// A life. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct Life(CancellationToken);

impl Life {
    pub(super) fn end(&self) {
        self.0.cancel();
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_cancelled()
    }

    pub(super) async fn over(&self) {
        self.0.cancelled().await;
    }
}

/// The disk, as one life has it.
#[derive(Debug)]
pub(super) struct Grip {
    pub(super) disk: Disk,
    pub(super) life: Life,
}

impl Grip {
    /// Both files of a disk.
    pub(super) fn backends(disk: &Disk, life: &Life) -> Backends<Self> {
        let Backends { tree, journal, journal_bytes } = disk.backends(JOURNAL_BYTES);
        let [tree, journal] = [tree, journal].map(|disk| Self { disk, life: life.clone() });
        Backends { tree, journal, journal_bytes }
    }

    fn disk(&self) -> Result<&Disk, io::Error> {
        if self.life.is_over() { Err(io::Error::other("this process ended")) } else { Ok(&self.disk) }
    }
}

impl StorageBackend for Grip {
    fn len(&self) -> Result<u64, io::Error> {
        self.disk()?.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.disk()?.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.disk()?.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.disk()?.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.disk()?.write(offset, data)
    }
}

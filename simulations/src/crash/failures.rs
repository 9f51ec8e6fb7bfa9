//! Machines that stop, disks that fail, and backups put back.

use mesh_node::limits::RECOVERY_TRIES_MAX;
use mesh_node::storage::Database;
use rand::RngExt;

use super::judge::Violation;
use super::point::{At, SideIndex};
use super::row::Row;
use super::side::{Acked, Contents, JOURNAL_BYTES};
use super::world::{World, at};
use super::writing::About;
use crate::disk::Disk;

impl World {
    /// Sets the point of this run, if it is this side's and still ahead.
    pub(super) fn arm(&self, side: SideIndex) {
        if let Some(point) = self.point.filter(|point| point.side == side && !self.reached)
            && let At::Operation(number) = point.at
        {
            self.side(side).disk.die_at(at(&self.base, side) + number);
        }
    }

    /// The machine stopped: in a batch that began at this operation, or after its commit.
    pub(super) fn stopped(
        &mut self,
        side: SideIndex,
        about: About,
        began: u64,
        committed: bool,
    ) -> anyhow::Result<()> {
        self.note_rows(side, about, began, committed);
        self.lose_process(side)
    }

    /// A machine without power, or a process that was killed: what is left of it is looked at.
    fn lose_process(&mut self, side: SideIndex) -> anyhow::Result<()> {
        self.trace.note("stopped", &[self.ms]);
        self.reached = true;
        self.restarts += 1;
        let cut = self.rng.random_ratio(3, 4);
        let wait = self.rng.random_range(0..4);
        let ms = self.ms;
        let mut rng = self.rng.clone();
        let this = self.side_mut(side);
        this.running = None;
        this.restart_in = wait;
        if cut {
            this.disk.reboot(&mut rng);
            this.booted(ms);
        } else {
            this.disk.restart();
        }
        self.rng = rng;
        self.truth.power_cut |= cut;
        self.lose_link();
        self.check_disk(side)?;
        // Some machines stop again while they start.
        if self.rng.random_ratio(1, 4) && self.point.is_some() {
            let again = self.side(side).disk.operations() + self.rng.random_range(1..40);
            self.side(side).disk.die_at(again);
        }
        Ok(())
    }

    fn note_rows(&mut self, side: SideIndex, about: About, began: u64, committed: bool) {
        let this = self.side(side);
        let first = this.disk.operations() <= began + 1;
        let mut rows = Vec::new();
        if committed {
            rows.extend(about.publishes.then_some(Row::S3));
            rows.extend(about.parcel.then_some(Row::R3));
            rows.extend(about.work_ended.then_some(Row::R8));
        } else {
            rows.extend(about.publishes.then_some(if first { Row::S1 } else { Row::S2 }));
            rows.extend(about.parcel.then_some(if first { Row::R1 } else { Row::R2 }));
            rows.extend((about.parcel && !first).then_some(Row::R6));
            rows.extend(about.acknowledged.then_some(Row::S7));
            rows.extend(about.work_ended.then_some(Row::R7));
        }
        // What has arrived and is in no batch yet is lost with the process.
        let arrived = this.running.iter().flat_map(|running| &running.inbox);
        let mut waits = About::default();
        arrived.for_each(|arrived| waits.note(&arrived.event));
        rows.extend(waits.publishes.then_some(Row::S1));
        rows.extend(waits.parcel.then_some(Row::R1));
        rows.extend(waits.acknowledged.then_some(Row::S7));
        rows.extend(waits.work_ended.then_some(Row::R7));
        if let Some(running) = &this.running
            && running.depth.as_ref().is_some_and(|depth| depth.count > 0)
        {
            let on_the_wire = running.outgoing.as_ref().is_some_and(|outgoing| outgoing.used);
            rows.push(if on_the_wire { Row::S6 } else { Row::S5 });
        }
        self.rows.extend(rows);
    }

    /// What acknowledged commits left must be there, whole; one that nobody was told of may be.
    fn check_disk(&mut self, side: SideIndex) -> anyhow::Result<()> {
        let image = self.side(side).disk.image();
        let Ok(found) = Contents::read(image.clone()) else {
            self.violations.insert(Violation::Unreadable);
            return Ok(());
        };
        let acked = self.side(side).acked.clone();
        self.checked += self.side(side).commits;
        if found.commits < acked.commits {
            self.violations.insert(Violation::LostCommit);
        } else if found.commits > acked.commits {
            self.survived += found.commits - acked.commits;
        } else if found != Contents::read(acked.image)? {
            self.violations.insert(Violation::ChangedRows);
        }
        // Without a power cut a commit may be there that the disk would still forget: nobody was told of it yet, and
        // whatever is said next is said after a sync.
        if self.side(side).disk.is_settled() {
            self.side_mut(side).acked = Acked { commits: found.commits, image };
        }
        Ok(())
    }

    /// The process begins on what the disk has.
    pub(super) fn try_start(&mut self, side: SideIndex) -> anyhow::Result<()> {
        let ms = self.ms;
        let this = self.side_mut(side);
        if this.restart_in > 0 {
            this.restart_in -= 1;
            return Ok(());
        }
        let began = this.disk.operations();
        if this.start(ms).is_err() {
            if this.disk.is_dead() {
                return self.stopped(side, About::default(), began, false);
            }
            // A disk that is full or fails may not let it start; one that is well must.
            if this.disk.is_failing() || this.disk.is_full() {
                this.restart_in = 3;
            } else {
                self.violations.insert(Violation::Unreadable);
            }
            return Ok(());
        }
        if let Some(running) = self.running(side) {
            running.post(mesh_node_core::event::Event::Started);
        }
        self.ask_again(side);
        Ok(())
    }

    /// The disk failed under a machine that runs on.
    pub(super) fn failed(&mut self, side: SideIndex, about: About) -> anyhow::Result<()> {
        if about.parcel && self.side(side).disk.is_full() {
            self.rows.insert(Row::R10);
        }
        self.hear(side);
        let Some(running) = self.running(side) else { return Ok(()) };
        if running.tries < RECOVERY_TRIES_MAX {
            return Ok(());
        }
        // The writer ends, and the node with it; somebody starts it again.
        let failing = self.side(side).disk.is_failing();
        let this = self.side_mut(side);
        this.running = None;
        this.restart_in = 3;
        self.restarts += 1;
        self.lose_link();
        if !failing {
            self.check_disk(side)?;
        }
        Ok(())
    }

    pub(super) fn back_up(&mut self, side: SideIndex) {
        self.truth.answered_at_backup = self.truth.answered_of(side);
        let this = self.side_mut(side);
        // With what happened since its last commit: a backup of a running machine is as a power cut.
        this.backup = Some(Acked { image: this.disk.image(), ..this.acked.clone() });
    }

    pub(super) fn restore(&mut self, side: SideIndex) -> anyhow::Result<()> {
        let Some(backup) = self.side_mut(side).backup.take() else { return Ok(()) };
        self.truth.note_restored(side);
        let ms = self.ms;
        let this = self.side_mut(side);
        this.running = None;
        this.restart_in = 1;
        this.disk.restore(backup.image.clone());
        this.booted(ms);
        this.acked = backup;
        self.truth.power_cut = true;
        self.lose_link();
        self.check_disk(side)?;
        let copy = Disk::with(self.side(side).disk.image());
        let kept = Database::open_backends(move || copy.backends(JOURNAL_BYTES))?;
        self.truth.note_kept(&kept.snapshot()?)?;
        self.arm(side);
        Ok(())
    }
}

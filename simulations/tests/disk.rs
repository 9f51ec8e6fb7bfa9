//! The disk in memory keeps what was synced, forgets the rest as a power cut does, and fails as it is told to.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use mesh_simulations::disk::Disk;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use redb::StorageBackend;

fn read(disk: &Disk, offset: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0xff; bytes];
    disk.read(offset, &mut out).unwrap();
    out
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

#[test]
fn what_was_synced_survives_every_power_cut() {
    for seed in 0..50 {
        let disk = Disk::new();
        disk.set_len(20_000).unwrap();
        disk.write(4_000, &[7; 9_000]).unwrap();
        disk.sync_data().unwrap();
        disk.write(15_000, &[8; 4_000]).unwrap();
        disk.reboot(&mut rng(seed));
        assert_eq!(read(&disk, 4_000, 9_000), [7; 9_000]);
        assert_eq!(read(&disk, 0, 4_000), [0; 4_000]);
    }
}

#[test]
fn of_what_was_not_synced_a_power_cut_keeps_all_none_or_some_sectors() {
    let left = (0..200).map(|seed| {
        let disk = Disk::new();
        disk.set_len(4_096).unwrap();
        disk.sync_data().unwrap();
        disk.write(0, &[1; 2_048]).unwrap();
        disk.reboot(&mut rng(seed));
        let sectors = read(&disk, 0, 2_048);
        let whole = sectors.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0]));
        assert!(whole, "a sector is written or not");
        sectors.iter().filter(|byte| **byte == 1).count() / 512
    });
    let left: std::collections::BTreeSet<usize> = left.collect();
    assert_eq!(left, [0, 1, 2, 3, 4].into());
}

#[test]
fn a_killed_process_leaves_what_it_wrote() {
    let disk = Disk::new();
    disk.set_len(512).unwrap();
    disk.write(0, &[1; 512]).unwrap();
    disk.die();
    assert!(disk.write(0, &[2; 512]).is_err() && disk.len().is_err());
    disk.restart();
    assert_eq!(read(&disk, 0, 512), [1; 512]);
}

#[test]
fn a_machine_stops_in_the_middle_of_the_operation_it_is_told() {
    let disk = Disk::new();
    disk.set_len(8_192).unwrap();
    disk.die_at(3);
    disk.write(0, &[1; 4_096]).unwrap();
    assert!(disk.write(4_096, &[2; 4_096]).is_err() && disk.is_dead());
    assert_eq!(disk.operations(), 3);
    disk.restart();
    assert_eq!(read(&disk, 4_096, 2_048), [2; 2_048]);
    assert_eq!(read(&disk, 6_144, 2_048), [0; 2_048]);
}

#[test]
fn a_full_disk_overwrites_and_does_not_grow() {
    let disk = Disk::new();
    disk.set_len(8_192).unwrap();
    disk.write(0, &[1; 4_096]).unwrap();
    disk.set_full(true);
    disk.write(0, &[2; 4_096]).unwrap();
    let error = disk.write(4_096, &[3; 4_096]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    disk.set_full(false);
    disk.write(4_096, &[3; 4_096]).unwrap();
}

#[test]
fn a_disk_that_fails_does_so_until_it_is_healed() {
    let disk = Disk::new();
    disk.set_len(512).unwrap();
    disk.fail_at(2);
    assert!(disk.sync_data().is_err() && disk.len().is_err() && disk.is_failing());
    disk.heal();
    disk.sync_data().unwrap();
}

#[test]
fn a_lying_disk_forgets_what_it_said_it_had_synced() {
    let forgets = (0..50).any(|seed| {
        let disk = Disk::new();
        disk.set_len(512).unwrap();
        disk.lie_about_sync(true);
        disk.write(0, &[1; 512]).unwrap();
        disk.sync_data().unwrap();
        disk.reboot(&mut rng(seed));
        disk.len().unwrap() == 0 || read(&disk, 0, 1) == [0]
    });
    assert!(forgets);
}

#[test]
fn a_backup_is_the_disk_as_it_was_and_cutting_off_leaves_zeros() {
    let disk = Disk::new();
    disk.write(100, &[1; 9_000]).unwrap();
    let backup = disk.image();
    disk.set_len(5_000).unwrap();
    disk.set_len(9_100).unwrap();
    assert_eq!(read(&disk, 4_900, 200), [[1; 100], [0; 100]].concat());
    assert!(disk.read(9_000, &mut [0; 200]).is_err());
    disk.restore(backup);
    assert_eq!(read(&disk, 100, 9_000), [1; 9_000]);
}

//! What delivery costs without a disk: nanoseconds a message over ordered maps in memory, one event each.
//!
//! `cargo run --release -p mesh-simulations --example delivery_cost`

#![expect(clippy::print_stdout, reason = "a command line program")]

use std::time::Instant;

use mesh_node_core::outbox::{self, Class, NewParcel, Resumed, Take};
use mesh_node_core::store::{OrderedStore, Overlay};
use mesh_node_core::time::{NodeTime, Now};
use mesh_protocol::id::{MessageId, NodeId};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const PEER: NodeId = NodeId::from_bytes([2; 32]);
const MESSAGES: u64 = 50_000;
const BODY_BYTES: usize = 512;
const SESSION: u64 = 7;

/// Times one step over all messages.
fn time(what: &str, mut step: impl FnMut(u64) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let started = Instant::now();
    (0..MESSAGES).try_for_each(&mut step)?;
    println!("{what:<10} {:>7} ns", started.elapsed().as_nanos() / u128::from(MESSAGES));
    Ok(())
}

fn message(number: u64) -> MessageId {
    let mut random = [0; 10];
    random.iter_mut().zip(number.to_be_bytes()).for_each(|(to, from)| *to = from);
    MessageId::mint(number, random)
}

/// One event that commits.
fn commit<T>(
    disk: &mut OrderedStore,
    event: impl FnOnce(&mut Overlay<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut tx = Overlay::new(disk);
    let decided = event(&mut tx)?;
    let changes = tx.into_changes();
    disk.apply(changes);
    Ok(decided)
}

fn main() -> anyhow::Result<()> {
    let now = Now { node: NodeTime(1), wall_ms: 1 };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut sender, mut receiver) = (OrderedStore::default(), OrderedStore::default());
    time("publish", |number| {
        commit(&mut sender, |tx| {
            let body = vec![0; BODY_BYTES];
            let message = message(number);
            let parcel = NewParcel {
                message,
                body,
                class: Class::Request,
                deadline_ms: Some(60_000),
                supersedes: None,
            };
            outbox::publish(tx, now, &mut rng, PEER, parcel)?;
            Ok(())
        })
    })?;
    let open = commit(&mut sender, |tx| Ok(outbox::open(tx, &mut rng, PEER, SESSION)?))?;
    let resume = commit(&mut receiver, |tx| Ok(outbox::handle_open(tx, now, PEER, open)?))?;
    let resumed =
        commit(&mut sender, |tx| Ok(outbox::handle_resume(tx, now, &mut rng, PEER, SESSION, resume)?))?;
    anyhow::ensure!(matches!(resumed, Resumed::Live { send_from: 1, .. }), "two new disks agree");
    let mut parcels = Vec::new();
    time("read", |number| {
        parcels.extend(
            outbox::next_parcels(&sender, PEER, SESSION, number + 1, 1, u64::MAX)?.unwrap_or_default(),
        );
        Ok(())
    })?;
    let mut parcels = parcels.into_iter();
    time("take", |_| {
        let Some(parcel) = parcels.next() else { anyhow::bail!("every parcel is read") };
        let taken = commit(&mut receiver, |tx| Ok(outbox::take(tx, now, PEER, SESSION, parcel)?))?;
        anyhow::ensure!(matches!(taken, Take::Apply { .. }), "every parcel is new");
        Ok(())
    })?;
    let epoch = open.epoch;
    time("ack", |number| {
        let ack = mesh_protocol::delivery::Ack { epoch, mark: number + 1 };
        commit(&mut sender, |tx| Ok(outbox::handle_ack(tx, now, PEER, SESSION, ack)?))?;
        Ok(())
    })
}

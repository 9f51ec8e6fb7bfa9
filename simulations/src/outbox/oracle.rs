//! What must hold once a world has come to rest. One function an invariant.

use std::collections::{BTreeMap, BTreeSet};

use mesh_node_core::outbox::{self, DeliveryReport, ReportKind};
use mesh_node_core::time::{NodeTime, Now};
use mesh_protocol::id::MessageId;

use super::receiver::is_applied;
use super::world::{Outcome, RECEIVER, Restored, World};

/// An invariant that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Violation {
    /// An accepted message has no effect and lies in no reported gap.
    SilentLoss,
    /// A message had its effect twice, although the receiver's disk never went back.
    DoubleEffect,
    /// Effects did not come in the order of their publication.
    OutOfOrder,
    /// A gap is recorded on one side only.
    GapOnOneSide,
    /// A restored disk was reported although none was.
    InventedRollback,
    /// A message that was said not to have run had an effect.
    FalseClaim,
    /// A message was reported delivered without an effect.
    FalseDelivery,
    /// Something is still waiting after healing.
    NoRest,
    /// Rows or counts are left over in an empty outbox.
    Leftovers,
}

/// Everything a test asks of one schedule.
pub(super) fn judge(world: &World, rests: bool) -> anyhow::Result<Outcome> {
    let sending = outbox::reports(&world.sender.machine.disk, usize::MAX)?;
    let receiving = outbox::reports(&world.receiver.machine.disk, usize::MAX)?;
    let verdicts = [
        (Violation::NoRest, !rests),
        (Violation::SilentLoss, rests && loses_silently(world, &sending, &receiving)?),
        (Violation::DoubleEffect, has_double_effect(world)),
        (Violation::OutOfOrder, is_out_of_order(world)),
        (Violation::GapOnOneSide, rests && gaps(&sending) != gaps(&receiving)),
        (Violation::InventedRollback, invents_rollback(world, &sending, &receiving)),
        (Violation::FalseClaim, claims_falsely(world)?),
        (Violation::FalseDelivery, delivers_falsely(world)),
        (Violation::Leftovers, rests && has_leftovers(world)?),
    ];
    let count = |what: &str| count(world.truth.claims.iter().filter(|claim| claim.what == what));
    Ok(Outcome {
        trace: world.trace,
        violations: verdicts.into_iter().filter_map(|(name, broken)| broken.then_some(name)).collect(),
        restored: world.restored,
        published: self::count(world.truth.published.iter()),
        effects: self::count(world.truth.effects.iter()),
        crashes: world.crashes,
        never_sent: count("never sent"),
        never_arrived: count("never arrived"),
        gaps: self::count(gaps(&sending).iter()),
        rollbacks_found: self::count(sending.iter().filter(|report| report.kind != ReportKind::Gap)),
    })
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    items.fold(0, |count, _| count + 1)
}

fn receiver_restored(world: &World) -> bool {
    world.restored == Restored::Receiver
}

fn effects_by_message(world: &World) -> BTreeMap<MessageId, u64> {
    let mut effects = BTreeMap::new();
    for effect in &world.truth.effects {
        *effects.entry(effect.message).or_insert(0) += 1;
    }
    effects
}

fn gaps(reports: &[DeliveryReport]) -> BTreeSet<(mesh_protocol::delivery::Epoch, u64, u64)> {
    let gaps = reports.iter().filter(|report| report.kind == ReportKind::Gap);
    gaps.map(|report| (report.epoch, report.from, report.to)).collect()
}

fn loses_silently(
    world: &World,
    sending: &[DeliveryReport],
    receiving: &[DeliveryReport],
) -> anyhow::Result<bool> {
    let mut gaps = gaps(sending);
    gaps.extend(self::gaps(receiving));
    let in_gap: BTreeSet<MessageId> = gaps
        .into_iter()
        .flat_map(|(epoch, from, to)| world.truth.sent.range((epoch, from)..=(epoch, to)))
        .map(|(_, message)| *message)
        .collect();
    for message in &world.truth.published {
        let excused = world.truth.not_owed.contains(message) || in_gap.contains(message);
        if !excused && !is_applied(&world.receiver.machine, message)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_double_effect(world: &World) -> bool {
    !receiver_restored(world) && effects_by_message(world).values().any(|count| *count > 1)
}

/// Within an epoch by sequence; with no restored disk also by publication, except statuses, which may give way.
fn is_out_of_order(world: &World) -> bool {
    if receiver_restored(world) {
        return false;
    }
    let mut last = BTreeMap::new();
    let by_sequence = world.truth.effects.iter().all(|effect| {
        let before = last.insert(effect.epoch, effect.seq);
        before.is_none_or(|before| before < effect.seq)
    });
    let place: BTreeMap<MessageId, usize> =
        world.truth.published.iter().enumerate().map(|(place, message)| (*message, place)).collect();
    let places = world.truth.effects.iter().map(|effect| effect.message);
    let places = places.filter(|message| world.truth.ordered.contains(message));
    let by_publication =
        world.restored != Restored::Nobody || places.map(|message| place.get(&message)).is_sorted();
    !(by_sequence && by_publication)
}

fn invents_rollback(world: &World, sending: &[DeliveryReport], receiving: &[DeliveryReport]) -> bool {
    world.restored == Restored::Nobody && !(sending.is_empty() && receiving.is_empty())
}

/// A restored receiver undoes effects, so there only those it has in the end count.
fn claims_falsely(world: &World) -> anyhow::Result<bool> {
    for claim in &world.truth.claims {
        let Some(from) = claim.judged_from else { continue };
        let had_effect = if receiver_restored(world) {
            is_applied(&world.receiver.machine, &claim.message)?
        } else {
            world.truth.effects.iter().skip(from).any(|effect| effect.message == claim.message)
        };
        if had_effect {
            return Ok(true);
        }
    }
    Ok(false)
}

fn delivers_falsely(world: &World) -> bool {
    let effects = effects_by_message(world);
    world.truth.delivered.iter().any(|message| !effects.contains_key(message))
}

fn has_leftovers(world: &World) -> anyhow::Result<bool> {
    let disk = &world.sender.machine.disk;
    let end_of_time = Now { node: NodeTime(u64::MAX), ..world.now };
    let view = outbox::depth(disk, world.now, RECEIVER)?;
    Ok(!outbox::due(disk, end_of_time, 1)?.is_empty() || view.is_some_and(|view| view.bytes != 0))
}

//! Every wait of membership, with its reason. Milliseconds on the node's own clock.

/// Between two probes of a node: SWIM's protocol period, memberlist's default on a LAN.
pub const PROBE_EVERY_MS: u64 = 1_000;
/// How long one attempt of a probe waits for its answer: several times a slow continental round trip.
pub const PROBE_TIMEOUT_MS: u64 = 500;
/// Attempts before a peer is suspected. One lost datagram is no news on a lossy path.
pub const PROBE_ATTEMPTS: u32 = 2;

/// How long a helper waits for the one it was asked about: less than who asked waits for the helper.
pub const ERRAND_MS: u64 = 300;
/// Between two inquiries about one peer.
pub const INQUIRE_AGAIN_MS: u64 = 2_000;
/// While helpers said within this time that a peer answers them, a linked peer is not suspected.
pub const ANSWERED_ANOTHER_MS: u64 = 5_000;
/// What others said about a peer is shown for this long.
pub const SIGHTING_MS: u64 = 600_000;
/// Between two rounds of rumours, while there are any: what makes them cross a thousand nodes in two seconds.
pub const GOSSIP_EVERY_MS: u64 = 200;

/// A suspicion lasts at least about 4 * log10(members) seconds (Lifeguard's minimum): this much for every doubling.
pub const SUSPICION_PER_DOUBLING_MS: u64 = 1_204;
/// And never less, however small the mesh: six more attempts of a probe.
pub const SUSPICION_FLOOR_MS: u64 = 3_000;
/// How long a suspicion that nobody shares is kept to oneself: telling it costs the accused a new record.
pub const ACCUSE_AFTER_MS: u64 = 1_500;
/// A peer that proved itself within this time is not probed again because of an accusation.
pub const FRESH_MS: u64 = 1_000;

/// Without any sign from anybody for this long, with several peers suspected, the fault is here.
pub const ISOLATED_AFTER_MS: u64 = 2_500;
/// A wake-up this late means that the machine was suspended or starved: what seemed to expire did not.
pub const GAP_MS: u64 = 5_000;
/// After such a gap nobody is judged for this long: longer than a link's idle timeout (15 s), so that by then every
/// link has answered or was dialled anew.
pub const CAREFUL_MS: u64 = 20_000;

/// Between two comparisons of directories, with a random peer, give or take a quarter.
pub const SYNC_EVERY_MS: u64 = 10_000;
/// After an exchange that changed something, before the next with anybody: what makes news cross the mesh in about a
/// second. And between two exchanges with one peer, however often it claims to have news.
pub const SYNC_AGAIN_MS: u64 = 250;
/// An exchange whose end was not reported by then is taken as failed.
pub const SYNC_LOST_MS: u64 = 15_000;

/// Between two dials of a random unreachable peer whatever its back-off: what makes a split heal in seconds.
pub const SEEK_EVERY_MS: u64 = 2_000;
/// Peers that became unreachable within this time are sought so; later they cost no more than their back-off.
pub const SEEK_FOR_MS: u64 = 600_000;
/// Unless this part of the members is lost, and two at least: then the mesh is split, not a machine away, and the
/// sides are to find each other as fast after days as after a minute.
pub const SPLIT_ONE_OF: u64 = 4;

/// How long a link that is no neighbour's is kept after anybody last used it: a conversation's pauses, not a day's.
pub const LINK_IDLE_MS: u64 = 60_000;
/// A link that ends sooner than this was taken away: by the rule of which process counts, when another machine runs with
/// this node's identity. Then the next dial waits, or the two would take turns as fast as they can shake hands.
pub const TAKEN_WITHIN_MS: u64 = 5_000;
/// How long it waits, from half of this on: less than any suspicion lasts.
pub const TAKEN_WAIT_MS: u64 = 2_000;
/// Dials that a healed split sets off are spread over this time.
pub const HASTE_SPREAD_MS: u64 = 200;

/// Between two versions of one's own record: load and agents may change often, members fetch each version.
pub const PUBLISH_EVERY_MS: u64 = 1_000;
/// Between two raises of one's own epoch: two machines with one identity would raise it in turn for ever.
pub const RAISE_EVERY_MS: u64 = 10_000;

/// Two processes of one identity that took turns within this time make it a duplicate.
pub const DUPLICATE_MS: u64 = 600_000;
/// How long the record of a node that left or was revoked is kept, so that nobody brings it back by an older one.
pub const RETENTION_MS: u64 = 30 * 24 * 3_600 * 1_000;

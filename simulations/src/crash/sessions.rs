//! Sessions and the frames in them, as a node's delivery keeps them: begun, fed from committed rows, ended and begun
//! again. Nothing is decided here; that is the core's.

use mesh_node_core::event::{Delivery, Event};
use mesh_node_core::outbox;
use mesh_node_core::time::NodeTime;
use mesh_node_core::view::Contact;
use mesh_protocol::delivery::{ToReceiver, ToSender};
use rand::Rng;

use super::link::Frame;
use super::point::{SIDES, SideIndex};
use super::row::Row;
use super::side::{Outgoing, id, view};
use super::world::World;

/// Milliseconds a session may take to come to live, and how often a quiet one is looked at: as the node does it.
pub(super) const LIVE_WITHIN_MS: u64 = 5_000;

/// Milliseconds after which the next session begins on a link that lives, likewise.
const AGAIN_AFTER_MS: u64 = 2_000;

/// Parcels put on the wire at once.
const PAGE: usize = 3;

impl World {
    /// Time passes for a process: timers, and sessions that begin and end by time.
    pub(super) fn tick(&mut self, side: SideIndex) {
        let (ms, up) = (self.ms, self.link.up);
        let session = self.rng.next_u64();
        let reading = self.side(side).reading(ms);
        let Some(running) = self.running(side) else { return };
        running.clock.set(reading);
        if running.now().node >= running.wake {
            running.wake = NodeTime(u64::MAX);
            running.post(Event::Due);
        }
        let stillborn =
            |outgoing: &Outgoing| outgoing.next.is_none() && ms >= outgoing.began_ms + LIVE_WITHIN_MS;
        if running.outgoing.as_ref().is_some_and(stillborn) {
            self.end_session(side);
        } else if running.outgoing.is_none() && up && ms >= running.again_at_ms {
            let (next, epoch) = (None, None);
            running.outgoing =
                Some(Outgoing { session, began_ms: ms, next, woken: false, epoch, used: false });
            running.post(Event::Delivery(id(1 - side), Delivery::Begin { session }));
        }
    }

    /// Puts committed parcels on the wire.
    pub(super) fn stream(&mut self, side: SideIndex) -> anyhow::Result<()> {
        let ms = self.ms;
        let Some(running) = self.side_mut(side).running.as_mut() else { return Ok(()) };
        let Some(outgoing) = running.outgoing.as_mut() else { return Ok(()) };
        let Some(seq) = outgoing.next else { return Ok(()) };
        if !std::mem::take(&mut outgoing.woken) && ms < outgoing.began_ms + LIVE_WITHIN_MS {
            return Ok(());
        }
        outgoing.began_ms = ms;
        let (session, epoch) = (outgoing.session, outgoing.epoch);
        let page =
            running.database.snapshot().map_err(Into::into).and_then(|snapshot| {
                outbox::next_parcels(&snapshot, id(1 - side), session, seq, PAGE, 1 << 20)
            });
        let Ok(Some(parcels)) = page else {
            self.end_session(side);
            return Ok(());
        };
        outgoing.woken = !parcels.is_empty();
        outgoing.used |= !parcels.is_empty();
        if let Some(last) = parcels.last() {
            outgoing.next = Some(last.seq + 1);
        }
        for parcel in parcels {
            if let Some(epoch) = epoch {
                self.truth.sent.insert((side, epoch, parcel.seq), parcel.message);
            }
            self.link.push(1 - side, Frame::ToReceiver(session, ToReceiver::Parcel(parcel)));
        }
        Ok(())
    }

    /// The next frame arrives.
    pub(super) fn deliver(&mut self, to: SideIndex) {
        if self.asleep == Some(to) {
            return;
        }
        let Some(frame) = self.link.pop(to) else { return };
        let from = id(1 - to);
        let Some(running) = self.running(to) else { return };
        let is_current = |session: u64| running.outgoing.as_ref().is_some_and(|it| it.session == session);
        match frame {
            Frame::ToReceiver(session, ToReceiver::Open(open)) => {
                running.incoming.insert(session);
                running.post(Event::Delivery(from, Delivery::Open(open)));
            }
            Frame::ToReceiver(session, frame) if running.incoming.contains(&session) => {
                let delivery = match frame {
                    ToReceiver::Parcel(parcel) => Delivery::Parcel { session, parcel },
                    ToReceiver::Gap(gap) => Delivery::Gap { session, gap },
                    ToReceiver::Open(open) => Delivery::Open(open),
                };
                running.post(Event::Delivery(from, delivery));
            }
            Frame::ToReceiver(..) => {}
            Frame::ToSender(session, frame) if is_current(session) => match frame {
                ToSender::Resume(resume) => {
                    running.post(Event::Delivery(from, Delivery::Resume { session, resume }));
                }
                ToSender::Ack(ack) => running.post(Event::Delivery(from, Delivery::Ack { session, ack })),
                ToSender::Busy(_) => self.end_session(to),
            },
            Frame::Stop(session) if is_current(session) => self.end_session(to),
            Frame::ToSender(..) | Frame::Stop(_) => {}
        }
    }

    pub(super) fn end_session(&mut self, side: SideIndex) {
        let again_at_ms = self.ms + AGAIN_AFTER_MS;
        let Some(running) = self.running(side) else { return };
        if let Some(Outgoing { session, .. }) = running.outgoing.take() {
            running.post(Event::Delivery(id(1 - side), Delivery::Lost { session }));
            running.again_at_ms = again_at_ms;
        }
    }

    /// The link comes up when both machines run and nothing keeps it down.
    pub(super) fn join(&mut self) {
        let both = self.sides.iter().all(|side| side.running.is_some());
        if self.link.up || !self.link.wanted || !both || self.asleep.is_some() {
            return;
        }
        self.link.up = true;
        for side in SIDES {
            if let Some(running) = self.running(side) {
                running.again_at_ms = 0;
                running.post(Event::View(view(side, Contact::Reachable)));
            }
        }
    }

    /// The link is gone, and with it what was on it; both sides notice.
    pub(super) fn lose_link(&mut self) {
        if !self.link.up {
            return;
        }
        self.rows.insert(Row::L1);
        if self.link.lose() {
            self.rows.insert(Row::R4);
        }
        for side in SIDES {
            self.end_session(side);
            if let Some(running) = self.running(side) {
                running.incoming.clear();
                running.post(Event::View(view(side, Contact::NotNow)));
            }
        }
    }
}

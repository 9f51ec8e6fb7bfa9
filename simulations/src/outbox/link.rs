//! The link: streams that lose, repeat and reorder frames, and deliver some long after their stream was replaced.
//!
//! Worse than QUIC, whose streams do none of this before they break: what holds here holds there.

use std::collections::{BTreeSet, VecDeque};

use mesh_protocol::delivery::{ToReceiver, ToSender};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// How bad it is, each in percent of frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weather {
    pub(super) lose: u32,
    pub(super) repeat: u32,
    pub(super) reorder: u32,
}

impl Weather {
    pub(super) const FAIR: Self = Self { lose: 0, repeat: 0, reorder: 0 };
}

/// A frame and the session whose stream it is on.
pub(super) type OnStream<F> = (u64, F);

/// Both directions of all streams.
#[derive(Default)]
pub(super) struct Link {
    pub(super) to_receiver: VecDeque<OnStream<ToReceiver>>,
    pub(super) to_sender: VecDeque<OnStream<ToSender>>,
    /// What was under way on replaced streams and arrives when nobody expects it any more.
    late: VecDeque<OnStream<ToReceiver>>,
    /// Sessions whose stream takes no more frames.
    pub(super) broken: BTreeSet<u64>,
}

impl Link {
    pub(super) fn send_to_receiver(&mut self, session: u64, frame: ToReceiver) {
        if !self.broken.contains(&session) {
            self.to_receiver.push_back((session, frame));
        }
    }

    pub(super) fn send_to_sender(&mut self, session: u64, frame: ToSender) {
        if !self.broken.contains(&session) {
            self.to_sender.push_back((session, frame));
        }
    }

    /// Holds back what is still under way on a stream that was replaced.
    pub(super) fn delay(&mut self, session: u64) {
        let (late, rest) = self.to_receiver.drain(..).partition(|(stream, _)| *stream == session);
        self.to_receiver = rest;
        let late: VecDeque<_> = late;
        self.late.extend(late);
    }

    /// One frame that was held back, if there is any, is the next to arrive.
    pub(super) fn arrive_late(&mut self) {
        if let Some(frame) = self.late.pop_front() {
            self.to_receiver.push_front(frame);
        }
    }

    /// The receiver's end is gone: nothing arrives there any more.
    pub(super) fn break_all_to_receiver(&mut self) {
        self.broken.extend(self.to_receiver.iter().map(|(session, _)| *session));
        self.to_receiver.clear();
        self.late.clear();
    }
}

/// The frame that arrives next, if any does.
pub(super) fn arrive<F: Clone>(
    queue: &mut VecDeque<OnStream<F>>,
    weather: Weather,
    rng: &mut ChaCha8Rng,
) -> Option<OnStream<F>> {
    let at =
        if rng.random_ratio(weather.reorder, 100) { rng.random_range(0..queue.len().clamp(1, 4)) } else { 0 };
    if rng.random_ratio(weather.lose, 100) {
        queue.remove(at);
        None
    } else if rng.random_ratio(weather.repeat, 100) {
        queue.get(at).cloned()
    } else {
        queue.remove(at)
    }
}

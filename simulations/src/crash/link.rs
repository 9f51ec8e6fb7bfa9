//! Both directions of the link between the sides: frames in order, lost when the link is, and nowhere kept.

use std::collections::VecDeque;

use mesh_protocol::delivery::{ToReceiver, ToSender};

use super::point::SideIndex;

/// What is under way on a stream of this session.
#[derive(Debug, Clone)]
pub(super) enum Frame {
    ToReceiver(u64, ToReceiver),
    ToSender(u64, ToSender),
    /// The receiver closed the stream.
    Stop(u64),
}

/// The link. Frames are kept by where they go.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) up: bool,
    /// Whether it should be.
    pub(super) wanted: bool,
    frames: [VecDeque<Frame>; 2],
}

impl Link {
    pub(super) fn push(&mut self, to: SideIndex, frame: Frame) {
        if let Some(frames) = self.frames.get_mut(to).filter(|_| self.up) {
            frames.push_back(frame);
        }
    }

    pub(super) fn pop(&mut self, to: SideIndex) -> Option<Frame> {
        self.frames.get_mut(to)?.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.iter().all(VecDeque::is_empty)
    }

    /// It is lost, and what was under way with it. Whether an acknowledgement was.
    pub(super) fn lose(&mut self) -> bool {
        self.up = false;
        let mut lost = self.frames.iter_mut().flat_map(std::mem::take);
        lost.any(|frame| matches!(frame, Frame::ToSender(_, ToSender::Ack(_))))
    }
}

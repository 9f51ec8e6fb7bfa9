//! The event queue: what happens when, in one order for one seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

use mesh_node_core::links::ConnectionKey;
use mesh_protocol::peer::BootId;

/// A node's place in the mesh's list, and its process: an event for a process that is gone is for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) host: usize,
    pub(super) boot: BootId,
}

#[derive(Debug)]
pub(super) enum Event {
    Wake(End),
    Datagram {
        from: usize,
        to: usize,
        bytes: Vec<u8>,
    },
    /// An echo probes a process of a whole node.
    EchoProbe {
        echo: usize,
        to: usize,
        boot: BootId,
    },
    DialTry {
        from: End,
        to: usize,
        number: u64,
        plan: Vec<SocketAddr>,
    },
    DialTimeout {
        from: End,
        to: usize,
        number: u64,
    },
    Established {
        end: End,
        peer: End,
        key: ConnectionKey,
    },
    Ended {
        end: End,
        peer: usize,
        key: ConnectionKey,
        cause: &'static str,
    },
    IdleCheck {
        ends: [End; 2],
        key: ConnectionKey,
    },
    Frame {
        from: usize,
        to: usize,
        exchange: u64,
        from_initiator: bool,
        bytes: Vec<u8>,
    },
    ExchangeTimeout {
        host: usize,
        peer: usize,
        exchange: u64,
    },
}

#[derive(Debug)]
struct Planned {
    at: u64,
    number: u64,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Events in the order of their time; those of one time in the order they were planned.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<Planned>>,
    planned: u64,
}

impl Queue {
    pub(super) fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.heap.push(Reverse(Planned { at, number: self.planned, event }));
    }

    /// The next event, if it is due by then.
    pub(super) fn next(&mut self, until: u64) -> Option<(u64, Event)> {
        let due = self.heap.peek().is_some_and(|Reverse(next)| next.at <= until);
        due.then(|| self.heap.pop()).flatten().map(|Reverse(planned)| (planned.at, planned.event))
    }
}

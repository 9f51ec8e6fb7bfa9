//! Two nodes and the link between them. Time, restarts and the link move only when the test says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_node_core::event::{Action, Caller, Command, Delivery, Event, Reply};
use mesh_node_core::handler::Handler;
use mesh_node_core::machine::Machine;
use mesh_node_core::outbox;
use mesh_node_core::policy::GrantChange;
use mesh_node_core::site::{AgentSetting, JobPolicy, Site};
use mesh_node_core::store::{OrderedStore, Overlay, Record, get, scan_last};
use mesh_node_core::time::{NodeTime, Now};
use mesh_node_core::view::{Contact, KnownAgent, Member, View};
use mesh_protocol::api::ask::{AskCommand, Receipt};
use mesh_protocol::api::error::ApiError;
use mesh_protocol::api::node::ExecutorView;
use mesh_protocol::codec::encode;
use mesh_protocol::delivery::{Content, Parcel, ToReceiver, ToSender};
use mesh_protocol::flight::FlightOutcome;
use mesh_protocol::id::{FlightId, MessageId, NodeId};
use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::message::PeerMessage;
use mesh_protocol::policy::{PermissionProfile, Trust};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;

pub(crate) struct Node {
    pub(crate) id: NodeId,
    machine: Machine,
    site: Site,
    pub(crate) store: OrderedStore,
    /// Everything it asked to be done and the link does not do.
    pub(crate) todo: Vec<Action>,
}

pub(crate) struct Pair {
    pub(crate) nodes: Vec<Node>,
    pub(crate) now: Now,
    rng: ChaCha8Rng,
    linked: bool,
    sessions: u64,
    /// How many more parcels get through, where a link breaks.
    parcels_left: Option<usize>,
}

fn id(n: usize) -> NodeId {
    NodeId::from_bytes([u8::try_from(n).unwrap() + 1; 32])
}

pub(crate) fn executor(node: usize) -> ExecutorView {
    // Only B has a sandbox.
    let classes = if node == B { vec![IsolationClass::GvisorApplicationKernel] } else { Vec::new() };
    let languages = if node == B { vec!["python".to_owned()] } else { Vec::new() };
    ExecutorView { classes, languages, slots: 1, ..ExecutorView::default() }
}

fn agents() -> BTreeMap<mesh_protocol::address::Name, AgentSetting> {
    let setting = AgentSetting {
        harness: "command".into(),
        profile: PermissionProfile::Review,
        advertised: true,
        slots: 1,
        offline: None,
        description: String::new(),
    };
    let secret = AgentSetting { advertised: false, ..setting.clone() };
    BTreeMap::from([("echo".parse().unwrap(), setting), ("secret".parse().unwrap(), secret)])
}

/// What a node sees: `echo-a` style addresses are `@echo.node:a` and `@echo.node:b`.
pub(crate) fn view(me: usize, other: Contact) -> Arc<View> {
    let member = |n: usize| Member {
        name: ["a", "b"][n].parse().unwrap(),
        contact: if n == me { Contact::Here } else { other },
        state: if n == me || other == Contact::Reachable { "alive" } else { "unreachable" }.into(),
        since_wall_ms: Some(5),
        cause: "probe timed out".into(),
        executor: executor(n),
        as_of_ms: None,
    };
    let agent = |n: usize| KnownAgent {
        name: "echo".parse().unwrap(),
        node: id(n),
        harness: "command".into(),
        profile: Some(PermissionProfile::Review),
        offline: None,
        description: String::new(),
    };
    Arc::new(View { members: [A, B].map(|n| (id(n), member(n))).into(), agents: vec![agent(A), agent(B)] })
}

/// What jobs may take in tests: short queues, and two at once where a test gives room for them.
pub(crate) fn policy() -> JobPolicy {
    JobPolicy { tenant_queue_max: 4, queue_max: 6, ..JobPolicy::default() }
}

impl Pair {
    /// Two nodes that trust each other with everything, not linked yet.
    pub(crate) fn new() -> Self {
        let mut pair = Self {
            nodes: Vec::new(),
            now: Now { wall_ms: 1_700_000_000_000, ..Now::default() },
            rng: ChaCha8Rng::seed_from_u64(7),
            linked: false,
            sessions: 1_000,
            parcels_left: None,
        };
        for n in [A, B] {
            pair.nodes.push(Node {
                id: id(n),
                machine: Self::machine(n),
                site: Self::default_site(n),
                store: OrderedStore::default(),
                todo: vec![],
            });
            pair.event(n, Event::Started);
            let mine = GrantChange { trust: Some(Trust::Mine), ..GrantChange::default() };
            pair.command(n, Command::Grant(id(1 - n), mine)).unwrap();
        }
        pair
    }

    fn machine(n: usize) -> Machine {
        Machine::new(Self::default_site(n))
    }

    fn default_site(n: usize) -> Site {
        Site {
            me: id(n),
            agents: agents(),
            executor: executor(n),
            named_executors: vec!["b".into()],
            jobs: policy(),
            view: view(n, Contact::NotNow),
        }
    }

    /// What a node is told of itself at its start; a test changes it and gives it back.
    pub(crate) fn site(&self, n: usize) -> Site {
        self.nodes[n].site.clone()
    }

    /// The process ends and another begins, told this; what was committed is there.
    pub(crate) fn replace(&mut self, n: usize, site: Site) {
        self.nodes[n].machine = Machine::new(site.clone());
        self.nodes[n].site = site;
        self.nodes[n].todo.clear();
    }

    /// One event and its commit; what the link can do is done when linked, the rest is kept in `todo`.
    pub(crate) fn event(&mut self, n: usize, event: Event) -> Option<Reply> {
        let node = &mut self.nodes[n];
        let mut tx = Overlay::new(&node.store);
        let handled = node.machine.handle(&mut tx, self.now, &mut self.rng, &event).unwrap();
        let changes = tx.into_changes();
        node.store.apply(changes);
        for action in handled.actions {
            self.perform(n, action);
        }
        handled.reply
    }

    pub(crate) fn command(&mut self, n: usize, command: Command) -> Result<Reply, ApiError> {
        match self.event(n, Event::Command(command)).expect("a command is answered") {
            Reply::Refused(error) => Err(error),
            reply => Ok(reply),
        }
    }

    fn perform(&mut self, n: usize, action: Action) {
        let me = self.nodes[n].id;
        let peer = 1 - n;
        match action {
            Action::SendFrame(_, session, frame) if self.linked => {
                let delivery = match frame {
                    ToReceiver::Open(open) => Delivery::Open(open),
                    ToReceiver::Gap(gap) => Delivery::Gap { session, gap },
                    ToReceiver::Parcel(parcel) => Delivery::Parcel { session, parcel },
                };
                self.event(peer, Event::Delivery(me, delivery));
            }
            Action::Answer(_, session, frame) if self.linked => {
                let delivery = match frame {
                    ToSender::Resume(resume) => Delivery::Resume { session, resume },
                    ToSender::Ack(ack) => Delivery::Ack { session, ack },
                    ToSender::Busy(_) => return,
                };
                self.event(peer, Event::Delivery(me, delivery));
            }
            Action::StreamFrom(..) | Action::OutboxGrew(_) if self.linked => self.stream(n),
            Action::Acknowledged(..) => {}
            other => self.nodes[n].todo.push(other),
        }
    }

    /// Sends what the outbox offers, from the first that is not acknowledged.
    fn stream(&mut self, n: usize) {
        let (me, to) = (self.nodes[n].id, self.nodes[1 - n].id);
        let mut sent_to = 0;
        loop {
            let Some(depth) = outbox::depth(&self.nodes[n].store, self.now, to).unwrap() else { return };
            let (session, from) = (self.session(n), depth.acked.max(sent_to) + 1);
            if !depth.live || from >= depth.next {
                return;
            }
            let parcels =
                outbox::next_parcels(&self.nodes[n].store, to, session, from, 100, 1 << 20).unwrap();
            let parcels = parcels.unwrap_or_default();
            let Some(last) = parcels.last() else { return };
            sent_to = last.seq;
            for parcel in parcels {
                match &mut self.parcels_left {
                    Some(0) => return,
                    Some(left) if n == A => *left -= 1,
                    _ => {}
                }
                self.event(1 - n, Event::Delivery(me, Delivery::Parcel { session, parcel }));
            }
        }
    }

    /// Whether parcels may go in this session to the other node, which whoever holds its stream asks with each look.
    pub(crate) fn lives(&self, n: usize, session: u64) -> bool {
        let to = self.nodes[1 - n].id;
        outbox::next_parcels(&self.nodes[n].store, to, session, 1, 1, 1).unwrap().is_some()
    }

    pub(crate) fn session(&self, n: usize) -> u64 {
        self.sessions + u64::try_from(n).unwrap()
    }

    /// A link comes up: both see each other, both begin to send.
    pub(crate) fn link(&mut self) {
        self.sessions += 10;
        self.linked = true;
        for n in [A, B] {
            self.event(n, Event::View(view(n, Contact::Reachable)));
        }
        for n in [A, B] {
            let (peer, session) = (self.nodes[1 - n].id, self.session(n));
            self.event(n, Event::Delivery(peer, Delivery::Begin { session }));
        }
    }

    /// A link that breaks after this many parcels of A, and both notice.
    pub(crate) fn link_for(&mut self, parcels: usize) {
        self.parcels_left = Some(parcels);
        self.link();
        self.parcels_left = None;
        self.cut();
    }

    /// A node sends the other this message, which its machine would not.
    pub(crate) fn tell(&mut self, n: usize, message: PeerMessage) {
        let (me, to) = (self.nodes[n].id, self.nodes[1 - n].id);
        let depth = outbox::depth(&self.nodes[n].store, self.now, to).unwrap();
        let seq = depth.map_or(1, |depth| depth.next);
        let content = Content::Body(encode(&message));
        let parcel = Parcel { seq, acked: 0, message: MessageId::from_bytes([0xee; 16]), content };
        let session = self.session(n);
        self.event(1 - n, Event::Delivery(me, Delivery::Parcel { session, parcel }));
    }

    /// The link is gone, and both notice.
    pub(crate) fn cut(&mut self) {
        self.linked = false;
        for n in [A, B] {
            let (peer, session) = (self.nodes[1 - n].id, self.session(n));
            self.event(n, Event::Delivery(peer, Delivery::Lost { session }));
            self.event(n, Event::View(view(n, Contact::NotNow)));
        }
    }

    /// A session is live on A's side, and nothing A sends arrives any more.
    pub(crate) fn go_deaf(&mut self) {
        self.linked = false;
    }

    /// The process ends and another begins on what was committed.
    pub(crate) fn restart(&mut self, n: usize) {
        self.nodes[n].machine = Self::machine(n);
        self.nodes[n].todo.clear();
        self.event(n, Event::Started);
    }

    /// The same, and the sandbox is still being looked at.
    pub(crate) fn restart_before_sandbox(&mut self, n: usize) {
        self.nodes[n].machine = Self::machine(n).awaiting_executor();
        self.nodes[n].todo.clear();
        self.event(n, Event::Started);
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now = Now { node: NodeTime(self.now.node.0 + ms), wall_ms: self.now.wall_ms + ms };
        for n in [A, B] {
            self.event(n, Event::Due);
        }
    }

    pub(crate) fn ask(&mut self, n: usize, to: &str) -> Result<Receipt, ApiError> {
        self.ask_as(n, Caller::Operator, to, None)
    }

    pub(crate) fn ask_as(
        &mut self,
        n: usize,
        caller: Caller,
        to: &str,
        id: Option<&str>,
    ) -> Result<Receipt, ApiError> {
        let command = AskCommand {
            to: to.into(),
            task: "say it".into(),
            request_id: id.map(str::to_owned),
            deadline_seconds: Some(60),
        };
        match self.command(n, Command::Ask(caller, command))? {
            Reply::Receipt(receipt) => Ok(receipt),
            other => panic!("{other:?}"),
        }
    }

    /// The runs a node was told to start since it was last asked.
    pub(crate) fn starts(&mut self, n: usize) -> Vec<(NodeId, FlightId, u32)> {
        let (starts, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.nodes[n].todo)
            .into_iter()
            .partition(|a| matches!(a, Action::StartRun { .. }));
        self.nodes[n].todo = rest;
        let one = |action| match action {
            Action::StartRun { origin, flight, attempt, .. } => (origin, flight, attempt),
            other => panic!("{other:?}"),
        };
        starts.into_iter().map(one).collect()
    }

    /// The agent answers the only run there is.
    pub(crate) fn answer(&mut self, n: usize, outcome: FlightOutcome) {
        let starts = self.starts(n);
        let [(origin, flight, attempt)] = starts[..] else { panic!("one run is expected: {starts:?}") };
        self.event(n, Event::RunEnded { origin, flight, attempt, outcome });
    }

    pub(crate) fn row<R: Record>(&self, n: usize, key: &R::Key) -> R {
        get(&self.nodes[n].store, key).unwrap().expect("the row is there")
    }

    pub(crate) fn count<R: Record>(&self, n: usize) -> usize {
        scan_last::<R>(&self.nodes[n].store, 1_000).unwrap().len()
    }

    pub(crate) fn random(&mut self) -> u64 {
        self.rng.next_u64()
    }
}

pub(crate) fn reply(text: &str) -> FlightOutcome {
    FlightOutcome::Completed { reply: text.into() }
}

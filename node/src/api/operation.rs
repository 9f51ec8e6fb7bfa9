//! The operations of the API in one table: the route of each, who may use it, which query parameters it has.
//!
//! The router is built from this table, and the client's tests read it, so a route cannot exist without its rule.
//! It says who may use an operation at all; that an agent sees only its own flights and jobs is the service's part.

use axum::http::Method;
use axum::routing::MethodFilter;

use crate::service::Principal;

/// Who may use an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everyone who reaches the socket.
    Anyone,
    /// The operator, and agents this node runs.
    Agents,
    /// The operator only: it changes trust, throws work away, or shows more than an agent needs.
    Operator,
}

/// One operation of [`crate::service::Service`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the method of the service with the same name")]
pub enum Operation {
    Status,
    Doctor,
    Whoami,
    Agents,
    Resolve,
    Send,
    SendBatch,
    Messages,
    Ask,
    Flights,
    Flight,
    CancelFlight,
    Run,
    Jobs,
    Job,
    JobResult,
    JobEvents,
    JobOutputs,
    JobCapabilities,
    CancelJob,
    Evidence,
    Attestation,
    ResultArtifact,
    Outboxes,
    DiscardOutbox,
    Invite,
    Grant,
    Revoke,
    Block,
    Unblock,
    Route,
    Ping,
    Shutdown,
}

/// The HTTP methods in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads; changes nothing.
    Get,
    /// Makes or changes something.
    Post,
    /// Takes something back or away.
    Delete,
}

impl Verb {
    /// As HTTP has it.
    #[must_use]
    pub const fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Delete => Method::DELETE,
        }
    }

    pub(crate) const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// A row of the table.
struct Rule {
    name: &'static str,
    verb: Verb,
    path: &'static str,
    access: Access,
    parameters: &'static [&'static str],
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 33] = [
        Self::Status,
        Self::Doctor,
        Self::Whoami,
        Self::Agents,
        Self::Resolve,
        Self::Send,
        Self::SendBatch,
        Self::Messages,
        Self::Ask,
        Self::Flights,
        Self::Flight,
        Self::CancelFlight,
        Self::Run,
        Self::Jobs,
        Self::Job,
        Self::JobResult,
        Self::JobEvents,
        Self::JobOutputs,
        Self::JobCapabilities,
        Self::CancelJob,
        Self::Evidence,
        Self::Attestation,
        Self::ResultArtifact,
        Self::Outboxes,
        Self::DiscardOutbox,
        Self::Invite,
        Self::Grant,
        Self::Revoke,
        Self::Block,
        Self::Unblock,
        Self::Route,
        Self::Ping,
        Self::Shutdown,
    ];

    #[rustfmt::skip]
    const fn rule(self) -> Rule {
        use Access::{Agents, Anyone, Operator};
        use Verb::{Delete, Get, Post};
        const NONE: &[&str] = &[];
        const JOBS: &[&str] = &["status", "language", "cursor", "limit"];
        const EVENTS: &[&str] = &["after", "limit", "wait_seconds"];
        const WAIT: &[&str] = &["wait_seconds"];
        const MESSAGES: &[&str] = &["conversation", "agent", "limit"];
        const FLIGHTS: &[&str] = &["state", "limit"];
        const fn row(
            name: &'static str, verb: Verb, path: &'static str, access: Access,
            parameters: &'static [&'static str],
        ) -> Rule {
            Rule { name, verb, path, access, parameters }
        }
        match self {
            Self::Status        => row("status",         Get,    "/v1/status",              Anyone,   NONE),
            Self::Doctor        => row("doctor",         Get,    "/v1/doctor",              Operator, NONE),
            Self::Whoami        => row("whoami",         Get,    "/v1/whoami",              Agents,   NONE),
            Self::Agents        => row("agents",         Get,    "/v1/agents",              Agents,   NONE),
            Self::Resolve       => row("resolve",        Post,   "/v1/resolve",             Agents,   NONE),
            Self::Send          => row("send",           Post,   "/v1/messages",            Agents,   WAIT),
            Self::SendBatch     => row("send_batch",     Post,   "/v1/messages/batch",      Agents,   WAIT),
            Self::Messages      => row("messages",       Get,    "/v1/messages",            Agents,   MESSAGES),
            Self::Ask           => row("ask",            Post,   "/v1/asks",                Agents,   NONE),
            Self::Flights       => row("flights",        Get,    "/v1/flights",             Agents,   FLIGHTS),
            Self::Flight        => row("flight",         Get,    "/v1/flights/{id}",        Agents,   WAIT),
            Self::CancelFlight  => row("cancel_flight",  Post,   "/v1/flights/{id}/cancel", Agents,   NONE),
            Self::Run           => row("run",            Post,   "/v1/jobs",                Agents,   NONE),
            Self::Jobs          => row("jobs",           Get,    "/v1/jobs",                Agents,   JOBS),
            Self::Job           => row("job",            Get,    "/v1/jobs/{id}",           Agents,   NONE),
            Self::JobResult     => row("job_result",     Get,    "/v1/jobs/{id}/result",    Agents,   WAIT),
            Self::JobEvents     => row("job_events",     Get,    "/v1/jobs/{id}/events",    Agents,   EVENTS),
            Self::JobOutputs    => row("job_outputs",    Get,    "/v1/jobs/{id}/outputs",   Agents,   NONE),
            Self::JobCapabilities => row("job_capabilities", Get, "/v1/capabilities",       Agents,   NONE),
            Self::CancelJob     => row("cancel_job",     Delete, "/v1/jobs/{id}",           Agents,   NONE),
            Self::Evidence      => row("evidence",       Get,    "/v1/jobs/{id}/evidence",  Agents,   NONE),
            Self::Attestation   => row("attestation",    Get,    "/v1/jobs/{id}/attestation", Agents, NONE),
            Self::ResultArtifact => row("result_artifact", Get,  "/v1/jobs/{id}/result-artifact", Agents, NONE),
            Self::Outboxes      => row("outboxes",       Get,    "/v1/outbox",              Operator, NONE),
            Self::DiscardOutbox => row("discard_outbox", Delete, "/v1/outbox/{peer}",       Operator, NONE),
            Self::Invite        => row("invite",         Post,   "/v1/tickets",             Operator, NONE),
            Self::Grant         => row("grant",          Post,   "/v1/grants",              Operator, NONE),
            Self::Revoke        => row("revoke",         Post,   "/v1/revocations",         Operator, NONE),
            Self::Block         => row("block",          Post,   "/v1/blocks",              Operator, NONE),
            Self::Unblock       => row("unblock",        Delete, "/v1/blocks/{peer}",       Operator, NONE),
            Self::Route         => row("route",          Get,    "/v1/peers/{peer}/route",  Operator, NONE),
            Self::Ping          => row("ping",           Post,   "/v1/peers/{peer}/ping",   Operator, NONE),
            Self::Shutdown      => row("shutdown",       Post,   "/v1/shutdown",            Operator, NONE),
        }
    }

    /// Its name in logs and in `whoami`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.rule().name
    }

    /// Its HTTP method.
    #[must_use]
    pub const fn verb(self) -> Verb {
        self.rule().verb
    }

    /// Its path, with `{...}` for what varies.
    #[must_use]
    pub const fn path(self) -> &'static str {
        self.rule().path
    }

    /// The query parameters it knows.
    #[must_use]
    pub const fn parameters(self) -> &'static [&'static str] {
        self.rule().parameters
    }

    /// Who may use it.
    #[must_use]
    pub const fn access(self) -> Access {
        self.rule().access
    }

    /// Whether `who` may use it.
    #[must_use]
    pub const fn allows(self, who: &Principal) -> bool {
        match self.access() {
            Access::Anyone => true,
            Access::Agents => matches!(who, Principal::Operator | Principal::Agent { .. }),
            Access::Operator => matches!(who, Principal::Operator),
        }
    }
}

impl Principal {
    /// The names of the operations it may use: what `whoami` shows.
    #[must_use]
    pub fn may(&self) -> Vec<String> {
        let allowed = Operation::ALL.into_iter().filter(|operation| operation.allows(self));
        allowed.map(|operation| operation.name().to_owned()).collect()
    }
}

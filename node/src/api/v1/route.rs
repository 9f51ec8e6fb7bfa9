//! The routes of the job API in one table: path, method, who may use it, query parameters, what it answers.
//!
//! The router is built from this table, so a route cannot exist without its rule.

use super::scope::Scope;
use crate::api::operation::Verb;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everyone who reaches the listener.
    Anyone,
    /// Who has a key with this scope.
    Key(Scope),
    /// Who has a key with this scope, or a ticket that was made with one.
    KeyOrTicket(Scope),
    /// Who has the metrics token.
    MetricsToken,
}

/// One route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each has its sentence in the table")]
pub enum Route {
    Submit,
    List,
    Show,
    Cancel,
    Result,
    Replay,
    Stream,
    StreamTicket,
    Attestation,
    ResultArtifact,
    PublicKey,
    Capabilities,
    Status,
    Whoami,
    WhoamiShort,
    TenantMetrics,
    Metrics,
    Health,
    Ready,
    OpenApi,
    OAuth,
}

/// A row of the table.
struct Rule {
    verb: Verb,
    path: &'static str,
    access: Access,
    parameters: &'static [&'static str],
    summary: &'static str,
}

impl Route {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::Submit,
        Self::List,
        Self::Show,
        Self::Cancel,
        Self::Result,
        Self::Replay,
        Self::Stream,
        Self::StreamTicket,
        Self::Attestation,
        Self::ResultArtifact,
        Self::PublicKey,
        Self::Capabilities,
        Self::Status,
        Self::Whoami,
        Self::WhoamiShort,
        Self::TenantMetrics,
        Self::Metrics,
        Self::Health,
        Self::Ready,
        Self::OpenApi,
        Self::OAuth,
    ];

    #[rustfmt::skip]
    const fn rule(self) -> Rule {
        use Access::{Anyone, Key, KeyOrTicket, MetricsToken};
        use Verb::{Delete, Get, Post};
        const NONE: &[&str] = &[];
        const LIST: &[&str] = &["limit", "cursor", "status", "language"];
        const WAIT: &[&str] = &["wait_seconds"];
        const STREAM: &[&str] = &["after", "ticket"];
        const REPLAY: &[&str] = &["after", "limit"];
        const fn row(
            verb: Verb, path: &'static str, access: Access,
            parameters: &'static [&'static str], summary: &'static str,
        ) -> Rule {
            Rule { verb, path, access, parameters, summary }
        }
        match self {
            Self::Submit => row(Post, "/v1/jobs", Key(Scope::Submit), NONE, "has a job run"),
            Self::List => row(Get, "/v1/jobs", Key(Scope::Read), LIST, "the tenant's jobs, newest first"),
            Self::Show => row(Get, "/v1/jobs/{id}", Key(Scope::Read), NONE, "one job, with its receipt once it has ended"),
            Self::Cancel => row(Delete, "/v1/jobs/{id}", Key(Scope::Cancel), NONE, "stops a job; repeating it is harmless"),
            Self::Result => row(Get, "/v1/jobs/{id}/result", Key(Scope::Read), WAIT, "what a job wrote and left, once it has ended (200) or the wait is over (202)"),
            Self::Replay => row(Get, "/v1/jobs/{id}/replay", Key(Scope::Read), REPLAY, "a job's events behind a place"),
            Self::Stream => row(Get, "/v1/jobs/{id}/stream", KeyOrTicket(Scope::Read), STREAM, "a job's events as they come, over a WebSocket"),
            Self::StreamTicket => row(Post, "/v1/jobs/{id}/stream-ticket", Key(Scope::Read), NONE, "a ticket that opens one stream, once, within 30 seconds"),
            Self::Attestation => row(Get, "/v1/jobs/{id}/attestation", Key(Scope::Read), NONE, "the signed envelope, byte for byte"),
            Self::ResultArtifact => row(Get, "/v1/jobs/{id}/result-artifact", Key(Scope::Read), NONE, "the result that the envelope is about, byte for byte"),
            Self::PublicKey => row(Get, "/v1/attestation/public-key", Key(Scope::Service), NONE, "the key that this node signs with"),
            Self::Capabilities => row(Get, "/v1/capabilities", Key(Scope::Service), NONE, "what jobs may be here"),
            Self::Status => row(Get, "/v1/status", Key(Scope::Service), NONE, "how the service is"),
            Self::Whoami => row(Get, "/v1/whoami", Key(Scope::Service), NONE, "whose key this is"),
            Self::WhoamiShort => row(Get, "/whoami", Key(Scope::Service), NONE, "the same"),
            Self::TenantMetrics => row(Get, "/v1/metrics", Key(Scope::Metrics), NONE, "the tenant's own figures"),
            Self::Metrics => row(Get, "/metrics", MetricsToken, NONE, "the figures of the whole API and the node"),
            Self::Health => row(Get, "/healthz", Anyone, NONE, "whether the process answers"),
            Self::Ready => row(Get, "/readyz", Anyone, NONE, "whether jobs can be taken in"),
            Self::OpenApi => row(Get, "/openapi.json", Anyone, NONE, "this API, described"),
            Self::OAuth => row(Get, "/.well-known/oauth-protected-resource", Anyone, NONE, "refused: no identity provider is configured"),
        }
    }

    /// Its HTTP method.
    #[must_use]
    pub const fn verb(self) -> Verb {
        self.rule().verb
    }

    /// Its path, with `{id}` for a job's id.
    #[must_use]
    pub const fn path(self) -> &'static str {
        self.rule().path
    }

    /// Who may use it.
    #[must_use]
    pub const fn access(self) -> Access {
        self.rule().access
    }

    /// The query parameters it knows.
    #[must_use]
    pub const fn parameters(self) -> &'static [&'static str] {
        self.rule().parameters
    }

    /// What it is for.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        self.rule().summary
    }
}

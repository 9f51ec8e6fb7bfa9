//! `http_fetch`: one request on behalf of a model, to the public internet and nowhere else.
//!
//! For every hop, in this order: the address parses, its host is not [inside](super::address), its scheme is allowed, its
//! host is among those the run may fetch from, its name resolves to addresses none of which is inside. Then the
//! connection goes to exactly the addresses that were checked, while the certificate is checked against the name.
//! Redirects are hops like the first one. Proxies of the host are not used: they would resolve the name again.
//! Downloads go the same way.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use reqwest::header::{
    AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue, LOCATION, PROXY_AUTHORIZATION,
};
use reqwest::{Client, Method, Response, StatusCode, redirect};
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use url::{Host, Url};

use super::address::{is_inside, is_inside_name};
use super::arguments;
use crate::host::HostEnv;
use crate::limits::{FETCH_BODY_BYTES, FETCH_ITEMS, FETCH_REDIRECTS, FETCH_TIMEOUT};
use crate::message::{JsonObject, ToolSpec};
use crate::stop::{Stop, StopReason};
use crate::tool::{Executing, Tool, ToolContext, ToolError, ToolOutput};

/// Headers that decide where a request goes or how it is framed; they are ours.
const OURS: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Methods a model may use.
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// Finds the addresses of a name.
pub trait Resolve: Send + Sync {
    /// Every address of `host`.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Asks the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            Ok(tokio::net::lookup_host((host, port))
                .await?
                .map(|address| address.ip())
                .take(FETCH_ITEMS)
                .collect())
        })
    }
}

/// Why something was not fetched.
#[derive(Debug, Error)]
pub enum FetchError {
    /// The address is none.
    #[error("the address is not valid")]
    Address(#[from] url::ParseError),
    /// It leads inside.
    #[error("{host} is internal, and only public hosts are fetched from")]
    Internal {
        /// As the address names it.
        host: String,
    },
    /// Its scheme is not allowed.
    #[error("the scheme {scheme} is not allowed; use https")]
    Scheme {
        /// Which.
        scheme: String,
    },
    /// The run may not fetch from there.
    #[error("{host} is not among the hosts this run may fetch from")]
    NotAllowed {
        /// Its host, with the port if the address has one.
        host: String,
    },
    /// It has no address.
    #[error("{host} does not resolve")]
    Unresolved {
        /// The name.
        host: String,
        /// What the resolver says, if it failed.
        #[source]
        source: Option<io::Error>,
    },
    /// The method is none of those that are allowed.
    #[error("the method {method:?} is not allowed")]
    Method {
        /// As given.
        method: String,
    },
    /// A header is not valid, or not for a model to set.
    #[error("the header {name:?} cannot be set")]
    Header {
        /// As given.
        name: String,
    },
    /// It leads on and on.
    #[error("more than {FETCH_REDIRECTS} redirects")]
    Redirects,
    /// It took too long.
    #[error("no whole answer after {limit:?}")]
    TimedOut {
        /// How long it had.
        limit: Duration,
    },
    /// The request or its answer failed on the way.
    #[error("the request failed")]
    Transport(#[source] reqwest::Error),
    /// It was stopped.
    #[error("the request was aborted")]
    Stopped(#[from] StopReason),
}

impl From<FetchError> for ToolError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Stopped(reason) => Self::Stopped(reason),
            other => Self::failed(other),
        }
    }
}

/// What to fetch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct FetchRequest {
    /// The address.
    pub url: String,
    /// The method; `GET` if absent.
    #[serde(default)]
    pub method: Option<String>,
    /// Headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(default)]
    pub body: Option<String>,
}

/// What was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The status of the last answer.
    pub status: u16,
    /// Its body as text, up to [`FETCH_BODY_BYTES`].
    pub body: String,
    /// Whether there was more.
    pub truncated: bool,
}

/// Fetches for a model.
#[derive(Clone)]
pub struct Fetcher {
    /// Hosts as addresses name them, with the port where it is not the scheme's own; None: all that are public.
    pub allow_hosts: Option<Vec<String>>,
    /// Settings: `RUNNER_ALLOW_INSECURE_URLS`, `RUNNER_HTTP_TIMEOUT_MS`, and those of [`download`](Self::download).
    pub host: HostEnv,
    /// Finds addresses.
    pub resolver: Arc<dyn Resolve>,
}

/// Where a request may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// To public hosts.
    Public,
    /// To any host.
    Everywhere,
}

/// One request of a chain of redirects.
pub(super) struct Hop {
    url: Url,
    method: Method,
    headers: HeaderMap,
    body: Option<String>,
}

impl Fetcher {
    /// Fetches, and follows redirects.
    ///
    /// # Errors
    /// A [`FetchError`]: a rule that is broken, or what went wrong on the way.
    pub async fn fetch(&self, request: FetchRequest, stop: &Stop) -> Result<Fetched, FetchError> {
        stop.check()?;
        let limit = self.host.millis("RUNNER_HTTP_TIMEOUT_MS").unwrap_or(FETCH_TIMEOUT);
        let mut hop = Hop::first(request)?;
        for _ in 0..=FETCH_REDIRECTS {
            // One limit for all of a hop: finding the addresses, the answer's head and its body.
            let one = async {
                match self.hop(hop, Reach::Public).await? {
                    Ended::Answered(response) => read(response).await.map(Ok),
                    Ended::Redirected(next) => Ok(Err(next)),
                }
            };
            let ended = stop.or_drop(tokio::time::timeout(limit, one)).await?;
            match ended.map_err(|_elapsed| FetchError::TimedOut { limit })?? {
                Ok(fetched) => return Ok(fetched),
                Err(next) => hop = next,
            }
        }
        Err(FetchError::Redirects)
    }

    /// Sends one request, if it may be sent.
    pub(super) async fn hop(&self, hop: Hop, reach: Reach) -> Result<Ended, FetchError> {
        let client = self.client_for(&hop.url, reach).await?;
        let mut request = client.request(hop.method.clone(), hop.url.clone()).headers(hop.headers.clone());
        if let Some(body) = &hop.body {
            request = request.body(body.clone());
        }
        let response = request.send().await.map_err(|error| FetchError::Transport(error.without_url()))?;
        let status = response.status();
        Ok(match location(&response, &hop.url)? {
            Some(location) => Ended::Redirected(hop.redirected(status, location)),
            None => Ended::Answered(response),
        })
    }

    /// A client that can connect to the checked addresses of this host and nowhere else.
    async fn client_for(&self, url: &Url, reach: Reach) -> Result<Client, FetchError> {
        let named = self.check(url, reach)?;
        let mut client = Client::builder().redirect(redirect::Policy::none()).no_proxy();
        if let Some(name) = named {
            client = client.resolve_to_addrs(&name, &self.addresses(&name, url, reach).await?);
        }
        client.build().map_err(FetchError::Transport)
    }

    /// Checks all that can be known without resolving. The name to resolve, unless the address has a number.
    fn check(&self, url: &Url, reach: Reach) -> Result<Option<String>, FetchError> {
        let public = reach == Reach::Public;
        let internal = || FetchError::Internal { host: url.host_str().unwrap_or_default().to_owned() };
        let scheme = || FetchError::Scheme { scheme: url.scheme().to_owned() };
        let named = match url.host() {
            Some(Host::Ipv4(address)) if public && is_inside(address.into()) => return Err(internal()),
            Some(Host::Ipv6(address)) if public && is_inside(address.into()) => return Err(internal()),
            Some(Host::Domain(name)) if public && is_inside_name(name) => return Err(internal()),
            Some(Host::Domain(name)) => Some(name.to_owned()),
            Some(_) => None,
            None => return Err(scheme()),
        };
        let insecure = url.scheme() == "http" && self.host.is_on("RUNNER_ALLOW_INSECURE_URLS");
        if url.scheme() != "https" && !insecure {
            return Err(scheme());
        }
        let host = url.host_str().unwrap_or_default();
        let with_port = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        match &self.allow_hosts {
            Some(allowed) if !allowed.iter().any(|it| it.eq_ignore_ascii_case(&with_port)) => {
                Err(FetchError::NotAllowed { host: with_port })
            }
            _ => Ok(named),
        }
    }

    async fn addresses(&self, name: &str, url: &Url, reach: Reach) -> Result<Vec<SocketAddr>, FetchError> {
        let port = url.port_or_known_default().unwrap_or(443);
        let unresolved = |source| FetchError::Unresolved { host: name.to_owned(), source };
        let found = self.resolver.resolve(name, port).await.map_err(|error| unresolved(Some(error)))?;
        if found.is_empty() {
            return Err(unresolved(None));
        }
        if reach == Reach::Public && found.iter().any(|address| is_inside(*address)) {
            return Err(FetchError::Internal { host: name.to_owned() });
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").field("allow_hosts", &self.allow_hosts).finish_non_exhaustive()
    }
}

/// How a hop ended.
pub(super) enum Ended {
    Answered(Response),
    /// The request that follows.
    Redirected(Hop),
}

impl Hop {
    pub(super) fn first(request: FetchRequest) -> Result<Self, FetchError> {
        let url = Url::parse(&request.url)?;
        let method = request.method.unwrap_or_else(|| "GET".into());
        let named = METHODS.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(&method));
        let method = named.ok_or(FetchError::Method { method })?;
        let mut headers = HeaderMap::new();
        for (name, value) in request.headers {
            let parsed = (name.parse::<HeaderName>().ok(), HeaderValue::try_from(value).ok());
            match parsed {
                (Some(header), Some(value))
                    if !OURS.contains(&header.as_str()) && headers.len() < FETCH_ITEMS =>
                {
                    headers.insert(header, value);
                }
                _ => return Err(FetchError::Header { name }),
            }
        }
        Ok(Self { url, method, headers, body: request.body })
    }

    /// The request that follows. What was meant for one origin is not shown to another.
    fn redirected(mut self, status: StatusCode, location: Url) -> Self {
        let becomes_get = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = None;
            let of_body = |name: &HeaderName| name.as_str().starts_with("content-");
            let names: Vec<HeaderName> = self.headers.keys().filter(|name| of_body(name)).cloned().collect();
            for name in names {
                self.headers.remove(name);
            }
        }
        if self.url.origin() != location.origin() {
            for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
                self.headers.remove(name);
            }
        }
        self.url = location;
        self
    }
}

/// Where an answer leads, if it leads on.
fn location(response: &Response, from: &Url) -> Result<Option<Url>, FetchError> {
    let leads_on = [301, 302, 303, 307, 308].contains(&response.status().as_u16());
    match response.headers().get(LOCATION) {
        Some(location) if leads_on => {
            let location = location.to_str().map_err(|_not_text| url::ParseError::InvalidDomainCharacter)?;
            Ok(Some(from.join(location)?))
        }
        _ => Ok(None),
    }
}

/// Reads a body as far as it is kept.
async fn read(response: Response) -> Result<Fetched, FetchError> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    let mut truncated = false;
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| FetchError::Transport(error.without_url()))?;
        let room = chunk.len().min(FETCH_BODY_BYTES - body.len());
        body.extend_from_slice(chunk.get(..room).unwrap_or_default());
        if room < chunk.len() {
            truncated = true;
            break;
        }
    }
    Ok(Fetched { status, body: String::from_utf8_lossy(&body).into_owned(), truncated })
}

/// The tool `http_fetch`.
pub(super) struct HttpFetch {
    spec: ToolSpec,
    fetcher: Fetcher,
}

impl HttpFetch {
    pub(super) fn new(fetcher: Fetcher) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "an https address of a public host"},
                "method": {"type": "string", "enum": METHODS.iter().map(Method::as_str).collect::<Vec<_>>()},
                "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                "body": {"type": "string"},
            },
            "required": ["url"],
        });
        Self {
            spec: ToolSpec::new("http_fetch", "Fetch an address. Answers with status and body.", schema),
            fetcher,
        }
    }
}

impl Tool for HttpFetch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execute<'a>(&'a self, input: JsonObject, context: &'a ToolContext) -> Executing<'a> {
        Box::pin(async move {
            let fetched = self.fetcher.fetch(arguments(input)?, &context.stop).await?;
            let mut answer = json!({"status": fetched.status, "body": fetched.body});
            if fetched.truncated
                && let Some(answer) = answer.as_object_mut()
            {
                answer.insert("truncated".into(), true.into());
            }
            Ok(ToolOutput::json(answer))
        })
    }
}

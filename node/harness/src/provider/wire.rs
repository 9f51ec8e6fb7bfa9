//! Sending one request to a provider: time limit, repeats, a bounded answer, and errors that show no key.
//!
//! A stop ends it in whatever it does, also while it waits to ask again. Redirects are not followed: they would carry
//! the key elsewhere. The host's proxy is used for HTTPS only, where it cannot read along.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use eventsource_stream::{Event, EventStreamError, Eventsource as _};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, redirect};
use serde::Deserialize;
use url::Url;

use super::{ProviderError, retry};
use crate::host::HostEnv;
use crate::limits::{
    PROVIDER_MAX_TOKENS, PROVIDER_RESPONSE_BYTES, PROVIDER_RETRIES, PROVIDER_TIMEOUT, SERVER_WORDS_BYTES,
};
use crate::secret::Secret;
use crate::stop::Stop;

/// The way to one provider.
#[derive(Debug)]
pub(super) struct Wire {
    provider: &'static str,
    /// Made when it is first needed: that reads every certificate this machine trusts.
    client: OnceLock<Client>,
    url: Url,
    headers: HeaderMap,
    key: Option<Secret>,
    host: HostEnv,
}

/// How often to ask and how long to wait.
struct Patience {
    repeats: u32,
    limit: Duration,
}

impl Wire {
    /// The way to `path` below `base`. Connects to nothing.
    pub(super) fn new(
        provider: &'static str,
        base: &Url,
        path: &str,
        key: Option<Secret>,
        host: HostEnv,
    ) -> Self {
        let mut url = base.clone();
        url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        Self { provider, client: OnceLock::new(), url, headers, key, host }
    }

    /// The same, with a header on every request; it is not shown.
    pub(super) fn with_header(mut self, name: &'static str, value: &str) -> Result<Self, ProviderError> {
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            ProviderError::Other(
                format!("the header {name} for {} has characters that cannot be sent", self.provider).into(),
            )
        })?;
        value.set_sensitive(true);
        self.headers.insert(HeaderName::from_static(name), value);
        Ok(self)
    }

    /// Tokens an answer may have, if the options do not say.
    pub(super) fn max_tokens(&self, asked: Option<u64>) -> u64 {
        let configured = || self.host.number("RUNNER_MAX_TOKENS").filter(|tokens| *tokens > 0);
        asked.or_else(configured).unwrap_or(PROVIDER_MAX_TOKENS)
    }

    /// Asks, and returns the whole answer.
    pub(super) async fn ask(
        &self,
        body: Vec<u8>,
        max_retries: Option<u32>,
        stop: &Stop,
    ) -> Result<Vec<u8>, ProviderError> {
        let patience = self.patience(max_retries);
        match self.repeated(&body, &patience, stop, true).await? {
            Answer::Whole(body) => Ok(body),
            Answer::Open(response) => self.whole(response).await,
        }
    }

    /// Asks, and returns the events of the answer. Repeats only what failed before the answer began.
    pub(super) async fn ask_for_events(
        &self,
        body: Vec<u8>,
        max_retries: Option<u32>,
        stop: &Stop,
    ) -> Result<Events, ProviderError> {
        let patience = self.patience(max_retries);
        let chunks = match self.repeated(&body, &patience, stop, false).await? {
            Answer::Whole(body) => futures_util::stream::iter([Ok(body.into())]).boxed(),
            Answer::Open(response) => response.bytes_stream().boxed(),
        };
        let provider = self.provider;
        let mut bytes = 0_usize;
        let bounded = chunks.map(move |chunk| {
            let chunk = chunk.map_err(|error| connection(provider, error))?;
            bytes = bytes.saturating_add(chunk.len());
            if bytes > PROVIDER_RESPONSE_BYTES {
                return Err(ProviderError::TooLong { provider: provider.into() });
            }
            Ok(chunk)
        });
        Ok(Events {
            provider,
            inner: bounded.eventsource().boxed(),
            limit: patience.limit,
            stop: stop.clone(),
        })
    }

    /// An answer that cannot be read.
    pub(super) fn unreadable(&self, error: serde_json::Error) -> ProviderError {
        ProviderError::Unreadable { provider: self.provider.into(), source: error.into() }
    }

    /// An answer in events that ends before it is whole.
    pub(super) fn broken_off(&self) -> ProviderError {
        ProviderError::Connection { provider: self.provider.into(), source: "the answer broke off".into() }
    }

    /// What a server said in place of an answer, without our key and not too much of it.
    pub(super) fn refused(&self, status: u16, body: &[u8]) -> ProviderError {
        let words = match serde_json::from_slice::<Refusal>(body) {
            Ok(Refusal { error: RefusalWords::Object { message } }) => message,
            Ok(Refusal { error: RefusalWords::Text(message) }) => message,
            Err(_) => String::from_utf8_lossy(body).into_owned(),
        };
        let mut message = match &self.key {
            Some(key) => key.removed_from(&words),
            None => words,
        };
        message.truncate(message.floor_char_boundary(SERVER_WORDS_BYTES));
        ProviderError::Status { provider: self.provider.into(), status, message }
    }

    fn patience(&self, max_retries: Option<u32>) -> Patience {
        let configured =
            || self.host.number("RUNNER_PROVIDER_MAX_RETRIES").and_then(|n| u32::try_from(n).ok());
        let limit = self.host.millis("RUNNER_PROVIDER_TIMEOUT_MS").filter(|limit| !limit.is_zero());
        Patience {
            repeats: max_retries.or_else(configured).unwrap_or(PROVIDER_RETRIES),
            limit: limit.unwrap_or(PROVIDER_TIMEOUT),
        }
    }

    async fn repeated(
        &self,
        body: &[u8],
        patience: &Patience,
        stop: &Stop,
        is_read: bool,
    ) -> Result<Answer, ProviderError> {
        let stopped = |reason| ProviderError::Stopped { provider: self.provider.into(), reason };
        let mut repeat = 0;
        loop {
            let once = tokio::time::timeout(patience.limit, self.once(body, is_read));
            let (error, headers) = match stop.or_drop(once).await.map_err(stopped)? {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failed)) => failed,
                Err(_elapsed) => {
                    let limit = patience.limit;
                    (ProviderError::Timeout { provider: self.provider.into(), limit }, None)
                }
            };
            let is_worth_it = match (&error, &headers) {
                (ProviderError::Status { status, .. }, Some(headers)) => retry::is_worth_it(*status, headers),
                (ProviderError::Connection { .. } | ProviderError::Timeout { .. }, _) => true,
                _ => false,
            };
            if !is_worth_it || repeat >= patience.repeats {
                return Err(error);
            }
            let wait = retry::wait(repeat, headers.as_ref(), SystemTime::now(), rand::random());
            stop.or_drop(tokio::time::sleep(wait)).await.map_err(stopped)?;
            repeat += 1;
        }
    }

    fn client(&self) -> Result<&Client, ProviderError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let mut builder = Client::builder().redirect(redirect::Policy::none());
        if self.url.scheme() == "http" {
            // A proxy would read the key and the prompt. Redirects are not followed, so there will be no TLS either.
            builder = builder.no_proxy().tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| connection(self.provider, error))?;
        Ok(self.client.get_or_init(|| client))
    }

    /// One request. A failure comes with the headers of the answer, if there was one.
    async fn once(&self, body: &[u8], is_read: bool) -> Result<Answer, (ProviderError, Option<HeaderMap>)> {
        let client = self.client().map_err(|error| (error, None))?;
        let request = client.post(self.url.clone()).headers(self.headers.clone()).body(body.to_vec());
        let response = request.send().await.map_err(|error| (connection(self.provider, error), None))?;
        let status = response.status();
        if status.is_success() {
            if !is_read {
                return Ok(Answer::Open(response));
            }
            return self.whole(response).await.map(Answer::Whole).map_err(|error| (error, None));
        }
        let headers = response.headers().clone();
        // What it says is only for the error; an answer that breaks off is an answer all the same.
        let words = self.whole(response).await.unwrap_or_default();
        Err((self.refused(status.as_u16(), &words), Some(headers)))
    }

    async fn whole(&self, mut response: Response) -> Result<Vec<u8>, ProviderError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| connection(self.provider, error))? {
            if body.len() + chunk.len() > PROVIDER_RESPONSE_BYTES {
                return Err(ProviderError::TooLong { provider: self.provider.into() });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// An answer, read or still to be read.
enum Answer {
    Whole(Vec<u8>),
    Open(Response),
}

/// The events of an answer as they come.
pub(super) struct Events {
    provider: &'static str,
    inner: BoxStream<'static, Result<Event, EventStreamError<ProviderError>>>,
    limit: Duration,
    stop: Stop,
}

impl Events {
    /// Events with these data.
    #[cfg(test)]
    pub(super) fn of(data: impl IntoIterator<Item = String>) -> Self {
        let event = |data| Ok(Event { data, ..Event::default() });
        let data: Vec<String> = data.into_iter().collect();
        let inner = futures_util::stream::iter(data.into_iter().map(event)).boxed();
        Self { provider: "test", inner, limit: PROVIDER_TIMEOUT, stop: Stop::new() }
    }

    /// The next one; None at the end. Waits no longer than a request may take.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, ProviderError> {
        let (provider, limit) = (|| self.provider.to_owned(), self.limit);
        match self.stop.or_drop(tokio::time::timeout(limit, self.inner.next())).await {
            Ok(Ok(event)) => event.transpose().map_err(|error| match error {
                EventStreamError::Transport(error) => error,
                other => ProviderError::Unreadable { provider: provider(), source: other.to_string().into() },
            }),
            Ok(Err(_elapsed)) => Err(ProviderError::Timeout { provider: provider(), limit }),
            Err(reason) => Err(ProviderError::Stopped { provider: provider(), reason }),
        }
    }
}

/// How servers put an error.
#[derive(Deserialize)]
struct Refusal {
    error: RefusalWords,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RefusalWords {
    Object { message: String },
    Text(String),
}

/// The address is left out: it may hold a credential.
fn connection(provider: &str, error: reqwest::Error) -> ProviderError {
    ProviderError::Connection { provider: provider.into(), source: error.without_url().into() }
}

//! What both HTTP transports share: the address, the client, and the headers of a connector.

use std::collections::HashMap;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, redirect};
use url::Url;

use super::{ConnectorAuth, ConnectorConfig, ConnectorError};
use crate::limits::{CONNECT_TIME, FETCH_REDIRECTS};

/// The address of a connector, which has to be one of HTTP.
pub(super) fn endpoint(config: &ConnectorConfig) -> Result<Url, ConnectorError> {
    let problem = |problem: &str| ConnectorError::Configuration {
        connector: config.name.clone(),
        problem: problem.into(),
    };
    let endpoint = config.endpoint.as_deref().filter(|endpoint| !endpoint.is_empty());
    let endpoint = endpoint.ok_or_else(|| problem("has no endpoint"))?;
    match Url::parse(endpoint) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        _ => Err(problem("has an endpoint that is not an http or https address")),
    }
}

/// A client that shows a connector's credentials to its own origin only: other redirects are not followed.
pub(super) fn client(config: &ConnectorConfig) -> Result<Client, ConnectorError> {
    let policy = redirect::Policy::custom(|attempt| {
        let stays = attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
        if stays && attempt.previous().len() <= FETCH_REDIRECTS { attempt.follow() } else { attempt.stop() }
    });
    let mut client = Client::builder().redirect(policy).connect_timeout(CONNECT_TIME);
    if config.endpoint.as_deref().is_some_and(|endpoint| !endpoint.starts_with("https:")) {
        // A proxy would read the token.
        client = client.no_proxy();
    }
    client
        .build()
        .map_err(|source| ConnectorError::Connect { connector: config.name.clone(), source: source.into() })
}

/// The connector's own headers.
pub(super) fn headers(config: &ConnectorConfig) -> Result<HashMap<HeaderName, HeaderValue>, ConnectorError> {
    let mut headers = HashMap::new();
    for (name, value) in &config.headers {
        let (Ok(header), Ok(mut value)) = (name.parse::<HeaderName>(), HeaderValue::try_from(value.expose()))
        else {
            let problem = format!("has a header {name:?} that cannot be sent");
            return Err(ConnectorError::Configuration { connector: config.name.clone(), problem });
        };
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Those headers, with the token.
pub(super) fn all_headers(config: &ConnectorConfig) -> Result<HeaderMap, ConnectorError> {
    let mut headers: HeaderMap = headers(config)?.into_iter().collect();
    if let ConnectorAuth::Bearer(token) = &config.auth {
        let Ok(mut value) = HeaderValue::try_from(format!("Bearer {}", token.expose())) else {
            let problem = "has a token that cannot be sent".into();
            return Err(ConnectorError::Configuration { connector: config.name.clone(), problem });
        };
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

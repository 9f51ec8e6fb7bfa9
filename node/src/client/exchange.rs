//! One request and its answer, within the client's time and size limits.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};
use mesh_protocol::api::SCHEMA_VERSION;
use tokio::net::UnixStream;

use super::connections::{Connection, Connections};
use super::error::ClientError;
use super::target::Target;
use super::{Endpoint, error};
use crate::api::limits::BODY_BYTES_MAX;
use crate::api::{ErrorBody, SCHEMA_HEADER, UNIX_HOST};

/// How long the socket may take to accept: it is on this machine.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How long the answer may take beyond the wait that was asked for. A little more than the node takes to give up, so
/// that its reason arrives.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Bytes of an answer: the outputs of a job, 1 MiB each, escaped as JSON at its worst, with room.
pub(crate) const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Sends a request and gives the body of a successful answer.
pub(crate) async fn exchange(
    endpoint: &Endpoint,
    connections: &Connections,
    (method, target): (Method, Target),
    body: Bytes,
    wait: Duration,
) -> Result<Bytes, ClientError> {
    if body.len() > BODY_BYTES_MAX {
        return Err(ClientError::RequestTooLarge { bytes: body.len() });
    }
    let request = compose(endpoint, method, &target, body)?;
    let conversation = converse(endpoint, connections, request);
    let answer = tokio::time::timeout(wait + ANSWER_WITHIN, conversation).await;
    answer.map_err(|_| ClientError::TimedOut { after: wait + ANSWER_WITHIN })?
}

fn compose(
    endpoint: &Endpoint,
    method: Method,
    target: &Target,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, ClientError> {
    let mut request = Request::builder().method(method).uri(target.as_str()).header(HOST, UNIX_HOST);
    request = request.header(ACCEPT, "application/json");
    if let Some(token) = &endpoint.token {
        let mut credential =
            HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| ClientError::Compose)?;
        credential.set_sensitive(true);
        request = request.header(AUTHORIZATION, credential);
    }
    if !body.is_empty() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    request.body(Full::new(body)).map_err(|_| ClientError::Compose)
}

async fn connect(endpoint: &Endpoint) -> Result<UnixStream, ClientError> {
    match tokio::time::timeout(CONNECT_WITHIN, UnixStream::connect(&endpoint.socket)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(source)) => Err(error::diagnose(endpoint, source)),
        Err(_) => Err(error::diagnose(endpoint, io::ErrorKind::TimedOut.into())),
    }
}

/// Sends the request over a connection that rests, or over a new one, and gives the body of its answer.
async fn converse(
    endpoint: &Endpoint,
    connections: &Connections,
    mut request: Request<Full<Bytes>>,
) -> Result<Bytes, ClientError> {
    while let Some(mut connection) = connections.take() {
        match connection.send(request).await? {
            Ok(response) => return read(response, connections, connection).await,
            Err(unsent) => request = unsent,
        }
    }
    let mut connection = Connection::over(connect(endpoint).await?).await?;
    match connection.send(request).await? {
        Ok(response) => read(response, connections, connection).await,
        Err(_) => Err(error::diagnose(endpoint, io::ErrorKind::ConnectionReset.into())),
    }
}

async fn read(
    response: Response<Incoming>,
    connections: &Connections,
    connection: Connection,
) -> Result<Bytes, ClientError> {
    let (head, body) = check(response)?.into_parts();
    let body = match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(ClientError::AnswerTooLarge),
        Err(error) => return Err(ClientError::CutShort(error)),
    };
    connections.keep(connection);
    if head.status.is_success() {
        return Ok(body);
    }
    match serde_json::from_slice::<ErrorBody>(&body) {
        Ok(ErrorBody { error }) => Err(ClientError::Refused(error)),
        Err(_) => Err(ClientError::Unexplained { status: head.status.as_u16() }),
    }
}

/// The answer, if it is of a node that speaks our version.
fn check(response: Response<Incoming>) -> Result<Response<Incoming>, ClientError> {
    let schema = response.headers().get(SCHEMA_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
    if schema == Some(SCHEMA_VERSION) {
        return Ok(response);
    }
    // A request HTTP itself could not make sense of is answered below the API, without its headers.
    match schema {
        None if response.status().is_client_error() => {
            Err(ClientError::Unexplained { status: response.status().as_u16() })
        }
        node => Err(ClientError::Schema { node }),
    }
}

//! Downloads: an address into a file that is not there yet, beneath a directory, in bounded size and time.
//!
//! No tool of a model: for whoever prepares a run. The rules are those of [`fetch`](Fetcher::fetch), and the host may
//! lift two of them by its settings. What is not downloaded as a whole leaves no file.

use std::io;
use std::time::Duration;

use futures_util::StreamExt as _;
use thiserror::Error;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use url::Url;

use super::fetch::{Ended, FetchError, FetchRequest, Fetcher, Hop, Reach};
use crate::beneath::{PathBeneath, Tree};
use crate::limits::{DOWNLOAD_BYTES, DOWNLOAD_TIMEOUT, FETCH_REDIRECTS, PIPE_CHUNK_BYTES};
use crate::stop::{Stop, StopReason};

/// Why nothing was downloaded.
#[derive(Debug, Error)]
pub enum DownloadError {
    /// A rule is broken, or the way there failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The server has no such thing.
    #[error("the server answered {status}")]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// There is more than the host allows (`RUNNER_BUNDLE_MAX_BYTES`).
    #[error("it has more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The file cannot be read or written.
    #[error("cannot copy it into {path}")]
    File {
        /// Where it was to go.
        path: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// A file that is removed again unless it is kept.
struct Partial<'a> {
    tree: &'a Tree,
    path: &'a PathBeneath,
    file: File,
    room: u64,
    limit: u64,
    is_whole: bool,
}

impl Partial<'_> {
    async fn take(&mut self, chunk: &[u8]) -> Result<(), DownloadError> {
        let bytes = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        self.room = self.room.checked_sub(bytes).ok_or(DownloadError::TooLarge { limit: self.limit })?;
        self.file.write_all(chunk).await.map_err(|source| failed(self.path, source))
    }

    /// Says how large it is.
    async fn keep(mut self) -> Result<u64, DownloadError> {
        self.file.flush().await.map_err(|source| failed(self.path, source))?;
        self.is_whole = true;
        Ok(self.limit - self.room)
    }
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        if !self.is_whole
            && let Err(error) = self.tree.remove_file(self.path)
        {
            tracing::warn!(%error, "a part of a download is left");
        }
    }
}

fn failed(path: &PathBeneath, source: io::Error) -> DownloadError {
    DownloadError::File { path: path.to_string(), source }
}

impl Fetcher {
    /// Copies what is at `address` into the new file `path`, whose directory is there, and says how many bytes that are.
    ///
    /// Settings of the host: `RUNNER_BUNDLE_MAX_BYTES`, `RUNNER_BUNDLE_TIMEOUT_MS`; `RUNNER_ALLOW_FILE_URLS` lets a
    /// `file:` address be copied, `RUNNER_ALLOW_PRIVATE_BUNDLE_HOSTS` lets hosts be internal, but no scheme be insecure.
    ///
    /// # Errors
    /// A [`DownloadError`]; there is no file then that was not there before.
    pub async fn download(
        &self,
        address: &str,
        tree: &Tree,
        path: &PathBeneath,
        stop: &Stop,
    ) -> Result<u64, DownloadError> {
        stop.check().map_err(FetchError::from)?;
        let limit = self.host.number("RUNNER_BUNDLE_MAX_BYTES").unwrap_or(DOWNLOAD_BYTES);
        let time = self.host.millis("RUNNER_BUNDLE_TIMEOUT_MS").unwrap_or(DOWNLOAD_TIMEOUT);
        let url = Url::parse(address).map_err(FetchError::from)?;
        let file = tree.make(path).map_err(|source| failed(path, source))?;
        let file = File::from_std(file);
        let mut partial = Partial { tree, path, file, room: limit, limit, is_whole: false };
        let copying = async {
            if url.scheme() == "file" && self.host.is_on("RUNNER_ALLOW_FILE_URLS") {
                copy(&url, &mut partial).await
            } else {
                self.transfer(address, &mut partial).await
            }
        };
        let ended = stop.or_drop(tokio::time::timeout(time, copying)).await;
        ended
            .map_err(|reason: StopReason| FetchError::from(reason))?
            .map_err(|_elapsed| timed_out(time))??;
        partial.keep().await
    }

    async fn transfer(&self, address: &str, partial: &mut Partial<'_>) -> Result<(), DownloadError> {
        let lifted = self.host.is_on("RUNNER_ALLOW_PRIVATE_BUNDLE_HOSTS");
        let reach = if lifted { Reach::Everywhere } else { Reach::Public };
        let mut hop = Hop::first(FetchRequest { url: address.into(), ..FetchRequest::default() })?;
        for _ in 0..=FETCH_REDIRECTS {
            let response = match self.hop(hop, reach).await? {
                Ended::Redirected(next) => {
                    hop = next;
                    continue;
                }
                Ended::Answered(response) => response,
            };
            if !response.status().is_success() {
                return Err(DownloadError::Status { status: response.status().as_u16() });
            }
            let mut chunks = response.bytes_stream();
            while let Some(chunk) = chunks.next().await {
                partial.take(&chunk.map_err(|error| FetchError::Transport(error.without_url()))?).await?;
            }
            return Ok(());
        }
        Err(FetchError::Redirects.into())
    }
}

/// Copies a file of this host. Only a regular one: another might never end.
async fn copy(url: &Url, partial: &mut Partial<'_>) -> Result<(), DownloadError> {
    let path = partial.path;
    let failed = |source| failed(path, source);
    let from = url.to_file_path().map_err(|()| FetchError::Scheme { scheme: "file".into() })?;
    if !tokio::fs::metadata(&from).await.map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")));
    }
    let mut from = File::open(&from).await.map_err(failed)?;
    let mut chunk = vec![0; PIPE_CHUNK_BYTES];
    loop {
        match from.read(&mut chunk).await.map_err(failed)? {
            0 => return Ok(()),
            read => partial.take(chunk.get(..read).unwrap_or_default()).await?,
        }
    }
}

fn timed_out(limit: Duration) -> DownloadError {
    FetchError::TimedOut { limit }.into()
}

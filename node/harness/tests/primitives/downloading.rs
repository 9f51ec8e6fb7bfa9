//! Downloads arrive as a whole or not at all, from where the host allows it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use mesh_harness::beneath::{PathBeneath, Tree};
use mesh_harness::host::HostEnv;
use mesh_harness::primitive::{DownloadError, FetchError, Fetcher};
use mesh_harness::stop::Stop;

use crate::fetching::{Scripted, fetcher};

/// A server on loopback that does what the path says.
async fn server() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    format!("http://{address}")
}

async fn answer(uri: Uri) -> Response {
    let part = || stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"part"))]);
    match uri.path() {
        "/bundle" => vec![b'x'; 300_000].into_response(),
        "/stalls" => Body::from_stream(part().chain(stream::pending())).into_response(),
        "/breaks" => {
            let broken = stream::iter([Err(std::io::Error::other("broken"))]);
            Body::from_stream(part().chain(broken)).into_response()
        }
        "/moved" => (StatusCode::FOUND, [("location", "/bundle")]).into_response(),
        "/to-a-file" => (StatusCode::FOUND, [("location", "file:///etc/hostname")]).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A fetcher on a host that may reach this machine over plain HTTP, and has these settings.
fn lifted(more: &[(&str, &str)]) -> Fetcher {
    let settings = [("RUNNER_ALLOW_PRIVATE_BUNDLE_HOSTS", "1"), ("RUNNER_ALLOW_INSECURE_URLS", "1")];
    Fetcher {
        host: HostEnv::fixed(settings.into_iter().chain(more.iter().copied())),
        ..fetcher(Scripted::new(&[&["127.0.0.1"]]))
    }
}

async fn download(fetcher: &Fetcher, address: &str, folder: &Path) -> Result<u64, DownloadError> {
    let (tree, path) = (Tree::open(folder).unwrap(), PathBeneath::parse("bundle").unwrap());
    fetcher.download(address, &tree, &path, &Stop::new()).await
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[tokio::test]
async fn what_is_downloaded_is_there_as_a_whole_also_behind_a_redirect() {
    let server = server().await;
    for path in ["bundle", "moved"] {
        let folder = tempfile::tempdir().unwrap();
        let bytes = download(&lifted(&[]), &format!("{server}/{path}"), folder.path()).await.unwrap();
        assert_eq!(bytes, 300_000);
        assert_eq!(std::fs::read(folder.path().join("bundle")).unwrap(), vec![b'x'; 300_000]);
    }
}

/// Settings, a path, and whether an error is the one to expect.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, fn(&DownloadError) -> bool);

#[tokio::test]
async fn what_is_not_downloaded_as_a_whole_leaves_no_file() {
    let server = server().await;
    let large = [("RUNNER_BUNDLE_MAX_BYTES", "299999")];
    let hasty = [("RUNNER_BUNDLE_TIMEOUT_MS", "200")];
    let cases: [Case<'_>; 5] = [
        (&large, "/bundle", |error| matches!(error, DownloadError::TooLarge { limit: 299_999 })),
        (&hasty, "/stalls", |error| matches!(error, DownloadError::Fetch(FetchError::TimedOut { .. }))),
        (&[], "/breaks", |error| matches!(error, DownloadError::Fetch(FetchError::Transport(_)))),
        (&[], "/missing", |error| matches!(error, DownloadError::Status { status: 404 })),
        (&[], "/to-a-file", |error| matches!(error, DownloadError::Fetch(FetchError::Scheme { .. }))),
    ];
    for (settings, path, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let error = download(&lifted(settings), &format!("{server}{path}"), folder.path()).await.unwrap_err();
        assert!(expected(&error), "{path}: {error:?}");
        assert!(is_empty(folder.path()), "{path}");
    }
    let exact = [("RUNNER_BUNDLE_MAX_BYTES", "300000")];
    let folder = tempfile::tempdir().unwrap();
    download(&lifted(&exact), &format!("{server}/bundle"), folder.path()).await.unwrap();
}

#[tokio::test]
async fn a_stop_or_a_caller_who_leaves_ends_a_download() {
    let server = server().await;
    let folder = tempfile::tempdir().unwrap();
    let (tree, path) = (Tree::open(folder.path()).unwrap(), PathBeneath::parse("bundle").unwrap());
    let (fetcher, stop, address) = (lifted(&[]), Stop::new(), format!("{server}/stalls"));
    let arrives = async {
        while std::fs::read(folder.path().join("bundle")).unwrap_or_default().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let stopping = async {
        arrives.await;
        stop.cancel("enough");
        Instant::now()
    };
    let (ended, stopped) = tokio::join!(fetcher.download(&address, &tree, &path, &stop), stopping);
    assert!(matches!(ended, Err(DownloadError::Fetch(FetchError::Stopped(_)))), "{ended:?}");
    assert!(stopped.elapsed() < Duration::from_secs(5) && is_empty(folder.path()));

    let stop = Stop::new();
    let leaving =
        tokio::time::timeout(Duration::from_millis(200), fetcher.download(&address, &tree, &path, &stop));
    assert!(leaving.await.is_err());
    assert!(is_empty(folder.path()), "a future that is dropped leaves nothing either");
}

#[tokio::test]
async fn a_file_that_is_there_is_not_touched_and_no_link_is_followed() {
    let server = server().await;
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("bundle"), "mine").unwrap();
    let address = format!("{server}/bundle");
    let error = download(&lifted(&[]), &address, folder.path()).await.unwrap_err();
    assert!(matches!(error, DownloadError::File { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("bundle")).unwrap(), "mine");
    std::fs::remove_file(folder.path().join("bundle")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("target"), folder.path().join("bundle")).unwrap();
    assert!(download(&lifted(&[]), &address, folder.path()).await.is_err());
    assert!(is_empty(outside.path()));
}

#[tokio::test]
async fn a_host_lifts_the_rule_on_hosts_and_never_the_one_on_schemes() {
    let server = server().await;
    let folder = tempfile::tempdir().unwrap();
    let resolver = || -> Arc<Scripted> { Scripted::new(&[&["127.0.0.1"]]) };
    let with = |settings: &[(&str, &str)]| Fetcher {
        host: HostEnv::fixed(settings.iter().copied()),
        ..fetcher(resolver())
    };
    let address = format!("{server}/bundle");
    let insecure = with(&[("RUNNER_ALLOW_INSECURE_URLS", "1")]);
    let error = download(&insecure, &address, folder.path()).await.unwrap_err();
    assert!(matches!(error, DownloadError::Fetch(FetchError::Internal { .. })), "{error:?}");
    let private = with(&[("RUNNER_ALLOW_PRIVATE_BUNDLE_HOSTS", "1")]);
    let error = download(&private, &address, folder.path()).await.unwrap_err();
    assert!(matches!(error, DownloadError::Fetch(FetchError::Scheme { .. })), "{error:?}");
    let error = download(&lifted(&[]), "not an address", folder.path()).await.unwrap_err();
    assert!(matches!(error, DownloadError::Fetch(FetchError::Address(_))), "{error:?}");
    assert!(is_empty(folder.path()));
}

#[tokio::test]
async fn a_file_of_this_host_is_copied_only_where_the_host_allows_it() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = other.path().join("source");
    std::fs::write(&source, "content").unwrap();
    let address = url::Url::from_file_path(&source).unwrap().to_string();
    let error = download(&lifted(&[]), &address, folder.path()).await.unwrap_err();
    assert!(matches!(error, DownloadError::Fetch(FetchError::Scheme { .. })), "{error:?}");

    let allowed = [("RUNNER_ALLOW_FILE_URLS", "1")];
    for bad in [other.path().to_owned(), other.path().join("missing"), "/dev/zero".into()] {
        let address = url::Url::from_file_path(&bad).unwrap().to_string();
        let error = download(&lifted(&allowed), &address, folder.path()).await.unwrap_err();
        assert!(matches!(error, DownloadError::File { .. }), "{address}: {error:?}");
    }
    let small = [("RUNNER_ALLOW_FILE_URLS", "1"), ("RUNNER_BUNDLE_MAX_BYTES", "6")];
    let error = download(&lifted(&small), &address, folder.path()).await.unwrap_err();
    assert!(matches!(error, DownloadError::TooLarge { .. }), "{error:?}");
    assert!(is_empty(folder.path()));
    assert_eq!(download(&lifted(&allowed), &address, folder.path()).await.unwrap(), 7);
    assert_eq!(std::fs::read_to_string(folder.path().join("bundle")).unwrap(), "content");
}

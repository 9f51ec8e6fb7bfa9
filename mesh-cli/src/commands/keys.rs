//! `keys`: who may use the job API of this machine's node. Works on its files, whether the node is running or not.

use mesh_node::api::v1::keys::Credential;
use mesh_node::api::v1::keys::book::{BookError, KeyBook, NewKey};
use mesh_node::api::v1::scope::Scope;
use mesh_node::client::ClientError;
use mesh_node::home::{Config, Home};
use mesh_node::node::NodeError;
use serde::Serialize;

use crate::args::{KeyAddArgs, KeysArgs, KeysCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::render;

/// A key that was made, as `--json` prints it. It has no `Debug`: it holds the secret.
#[derive(Serialize)]
struct Made<'a> {
    key: &'a str,
    key_id: &'a str,
    tenant_id: &'a str,
    principal_id: &'a str,
    scopes: &'a [Scope],
    expires_at_ms: Option<u64>,
}

/// A key as it is listed: nothing that could be guessed from.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    pub(crate) key_id: String,
    pub(crate) tenant_id: String,
    pub(crate) principal_id: String,
    pub(crate) scopes: Vec<Scope>,
    /// `good`, `expired` or `revoked`.
    pub(crate) state: &'static str,
    pub(crate) created_at_ms: u64,
    pub(crate) expires_at_ms: Option<u64>,
    pub(crate) revoked_at_ms: Option<u64>,
}

impl Listed {
    fn of(key: &Credential, now_ms: u64) -> Self {
        let state = match key.revoked_at_ms {
            Some(_) => "revoked",
            None if key.is_good(now_ms) => "good",
            None => "expired",
        };
        Self {
            key_id: key.key_id.clone(),
            tenant_id: key.tenant_id.clone(),
            principal_id: key.principal_id.clone(),
            scopes: key.scopes.clone(),
            state,
            created_at_ms: key.created_at_ms,
            expires_at_ms: key.expires_at_ms,
            revoked_at_ms: key.revoked_at_ms,
        }
    }
}

/// Makes, lists or ends keys.
pub(crate) async fn keys(invocation: &Invocation, args: KeysArgs) -> Result<Exit, Failure> {
    let root = invocation.home()?;
    if !root.exists() {
        return Err(ClientError::NoHome { home: root }.into());
    }
    let home = Home::open(&root)?;
    let config = Config::read(&home.config_file()).map_err(NodeError::Config)?;
    let (credentials, pepper) = config.http.key_files(&home);
    let now_ms = invocation.wall_ms();
    let on_the_book = tokio::task::spawn_blocking(move || {
        let mut book = KeyBook::open(&credentials, &pepper)?;
        worked(&mut book, args.what, now_ms)
    });
    match on_the_book.await.map_err(|gone| Failure::Runtime(std::io::Error::other(gone)))?? {
        Done::Made(key) => {
            let Credential { key_id, tenant_id, principal_id, scopes, expires_at_ms, .. } = &key.credential;
            let (scopes, expires_at_ms) = (scopes.as_slice(), *expires_at_ms);
            let made = Made { key: key.expose(), key_id, tenant_id, principal_id, scopes, expires_at_ms };
            invocation.printer.answer(&made, |made| format!("{}\n", made.key));
            invocation.printer.note(&render::key::made(&Listed::of(&key.credential, now_ms), now_ms));
            if config.http.listen.is_none() {
                invocation.printer.hint(
                    "it is good on the Unix socket; `listen` under `[http]` in config.toml opens a port",
                );
            }
        }
        Done::Listed(keys) => invocation.printer.answer(&keys, |keys| render::key::keys(keys, now_ms)),
        Done::Revoked(key) => invocation.printer.answer(&key, render::key::revoked),
    }
    Ok(Exit::Done)
}

/// What was done.
enum Done {
    Made(mesh_node::api::v1::keys::book::Key),
    Listed(Vec<Listed>),
    Revoked(Listed),
}

fn worked(book: &mut KeyBook, what: KeysCommand, now_ms: u64) -> Result<Done, BookError> {
    Ok(match what {
        KeysCommand::Add(args) => Done::Made(book.add(wanted(args, now_ms), now_ms)?),
        KeysCommand::List => {
            Done::Listed(book.credentials().iter().map(|key| Listed::of(key, now_ms)).collect())
        }
        KeysCommand::Revoke { key_id } => Done::Revoked(Listed::of(&book.revoke(&key_id, now_ms)?, now_ms)),
    })
}

fn wanted(args: KeyAddArgs, now_ms: u64) -> NewKey {
    let KeyAddArgs { tenant, scopes, expires, id, principal } = args;
    NewKey {
        tenant,
        principal,
        id,
        scopes: if scopes.is_empty() { Scope::ALL.to_vec() } else { scopes },
        expires_at_ms: expires.map(|seconds| now_ms.saturating_add(seconds.saturating_mul(1_000))),
    }
}

//! Arguments of `keys`: who may use the job API.

use clap::{Args, Subcommand};
use mesh_node::api::v1::scope::Scope;

use super::duration;

/// `keys`
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    /// What to do with keys.
    #[command(subcommand)]
    pub(crate) what: KeysCommand,
}

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key for a tenant and print it, this once.
    Add(KeyAddArgs),
    /// List the keys, without their secrets.
    List,
    /// End a key: from the next request on it is good for nothing.
    Revoke {
        /// The key's id, as `keys list` shows it.
        #[arg(value_name = "KEY_ID")]
        key_id: String,
    },
}

/// `keys add`
#[derive(Debug, Args)]
#[command(after_help = "\
The key alone is on standard output, and nowhere else: the file has a digest of it. A node that is \
running knows it from the next request on. All keys of a tenant see its jobs, and nobody else's.

Scopes: jobs:submit, jobs:read, jobs:cancel, service:read, metrics:read.

  mesh-cli keys add acme --id ci --expires 90d
  mesh-cli keys add acme --scopes jobs:read,service:read")]
pub(crate) struct KeyAddArgs {
    /// The tenant: letters, digits, `-`, `_` and `.`.
    pub(crate) tenant: String,
    /// What it may be used for, separated by commas; everything when not given.
    #[arg(long, value_name = "SCOPES", value_delimiter = ',')]
    pub(crate) scopes: Vec<Scope>,
    /// How long it is good: `90d`, `12h`; for ever when not given.
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    pub(crate) expires: Option<u64>,
    /// What to call the key; made up when not given.
    #[arg(long, value_name = "KEY_ID")]
    pub(crate) id: Option<String>,
    /// Who has it, as the tenant's jobs will say; the key's id when not given.
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: Option<String>,
}

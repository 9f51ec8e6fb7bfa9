//! The schema version and what brings an older database up to it.
//!
//! `meta` holds three numbers: `schema`, `commits`, the count of committed batches, and `opens`, how often the database
//! was opened. Migrations run at open, each in its own transaction with the version it leads to, so a crash between two
//! of them repeats none.

use std::path::Path;

use redb::{ReadableDatabase, TableDefinition, WriteTransaction};

use super::rows::ROWS;
use super::{DatabaseError, failed};

/// Numbers about the database itself, by name.
pub(super) const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");

/// The name under which `meta` counts committed batches.
pub(super) const COMMITS: &str = "commits";

/// The name under which `meta` counts openings.
pub(super) const OPENS: &str = "opens";

const SCHEMA: &str = "schema";

/// The schema this release writes. The release before it is read and migrated.
pub const SCHEMA_VERSION: u64 = 1;

/// Rewrites rows of the version before.
type Migration = fn(&WriteTransaction) -> Result<(), redb::Error>;

/// The migration at position `n` leads from version `n + 1` to `n + 2`. Empty: version 1 is the first.
const MIGRATIONS: [Migration; 0] = [];

/// Both tables, empty, and the current version.
pub(super) fn initialise(database: &redb::Database) -> Result<(), redb::Error> {
    let transaction = begin(database)?;
    transaction.open_table(ROWS)?;
    transaction.open_table(META)?.insert(SCHEMA, SCHEMA_VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// A write transaction that survives a crash with a quick reopen. Quick repair implies two-phase commit, which a peer
/// that chooses our payloads cannot trick into a half commit.
pub(super) fn begin(database: &redb::Database) -> Result<WriteTransaction, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// Refuses what this release cannot read; otherwise the version that is there.
pub(super) fn check(database: &redb::Database, path: &Path) -> Result<u64, DatabaseError> {
    match number(database, SCHEMA).map_err(failed)? {
        Some(found) if found <= SCHEMA_VERSION => Ok(found),
        Some(found) => {
            let path = path.to_owned();
            Err(DatabaseError::NewerSchema { path, found, known: SCHEMA_VERSION })
        }
        None => Err(DatabaseError::Foreign { path: path.to_owned() }),
    }
}

/// Brings what an older release wrote up to date.
pub(super) fn migrate(database: &redb::Database, found: u64) -> Result<(), DatabaseError> {
    for (version, migrate) in (2..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        migrate_to(database, version, migrate).map_err(failed)?;
    }
    Ok(())
}

fn migrate_to(database: &redb::Database, version: u64, migrate: Migration) -> Result<(), redb::Error> {
    let transaction = begin(database)?;
    migrate(&transaction)?;
    transaction.open_table(META)?.insert(SCHEMA, version)?;
    transaction.commit()?;
    Ok(())
}

/// A number of `meta`; `None` when it, or the table, is not there.
pub(super) fn number(database: &redb::Database, name: &str) -> Result<Option<u64>, redb::Error> {
    let meta = match database.begin_read()?.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(meta.get(name)?.map(|value| value.value()))
}

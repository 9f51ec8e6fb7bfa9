//! Typed rows: a value that knows its table, its version and its key.

use mesh_protocol::codec;
use serde::{Serialize, de::DeserializeOwned};

use super::{Key, Scan, Store, StoreError, Table};

/// A value kept in a table. On disk: one version byte, then postcard.
pub trait Record: Serialize + DeserializeOwned {
    /// Its table. One record type a table.
    const TABLE: Table;
    /// Raised when the layout changes; a migration rewrites older rows at start.
    const VERSION: u8 = 1;
    /// What it is found by.
    type Key: Key;
}

pub(super) fn to_bytes<R: Record>(value: &R) -> Vec<u8> {
    codec::encode_versioned(R::VERSION, value)
}

fn from_bytes<R: Record>(bytes: &[u8]) -> Result<R, StoreError> {
    codec::decode_versioned(R::VERSION, bytes).map_err(|source| StoreError::Row { table: R::TABLE, source })
}

/// The record at a key.
///
/// # Errors
/// [`StoreError`] when the database fails or the row is not readable.
pub fn get<R: Record>(store: &dyn Store, key: &R::Key) -> Result<Option<R>, StoreError> {
    store.get(R::TABLE, &key.to_bytes())?.as_deref().map(from_bytes).transpose()
}

/// The records whose key begins with this part, in key order, at most `limit`.
///
/// # Errors
/// [`StoreError`] when the database fails or a row is not readable.
pub fn scan_prefix<R: Record>(
    store: &dyn Store,
    prefix: &impl Key,
    limit: usize,
) -> Result<Vec<(R::Key, R)>, StoreError> {
    read_all(store, &Scan::prefix(&prefix.to_bytes(), limit))
}

/// The records whose key begins with `prefix` and is `from` or later, in key order, at most `limit`.
///
/// # Errors
/// [`StoreError`] when the database fails or a row is not readable.
pub fn scan_from<R: Record>(
    store: &dyn Store,
    prefix: &impl Key,
    from: &R::Key,
    limit: usize,
) -> Result<Vec<(R::Key, R)>, StoreError> {
    read_all(store, &Scan { from: from.to_bytes(), ..Scan::prefix(&prefix.to_bytes(), limit) })
}

/// The records with the greatest keys, greatest first, at most `limit`.
///
/// # Errors
/// [`StoreError`] when the database fails or a row is not readable.
pub fn scan_last<R: Record>(store: &dyn Store, limit: usize) -> Result<Vec<(R::Key, R)>, StoreError> {
    read_all(store, &Scan::prefix(&[], limit).backwards())
}

/// The records whose key begins with `prefix`, greatest first, at most `limit`.
///
/// # Errors
/// [`StoreError`] when the database fails or a row is not readable.
pub fn scan_last_of<R: Record>(
    store: &dyn Store,
    prefix: &impl Key,
    limit: usize,
) -> Result<Vec<(R::Key, R)>, StoreError> {
    read_all(store, &Scan::prefix(&prefix.to_bytes(), limit).backwards())
}

/// The records whose key is less than `before`, greatest first, at most `limit`.
///
/// # Errors
/// [`StoreError`] when the database fails or a row is not readable.
pub fn scan_before<R: Record>(
    store: &dyn Store,
    before: &R::Key,
    limit: usize,
) -> Result<Vec<(R::Key, R)>, StoreError> {
    let scan = Scan { to: Some(before.to_bytes()), ..Scan::prefix(&[], limit) };
    read_all(store, &scan.backwards())
}

fn read_all<R: Record>(store: &dyn Store, scan: &Scan) -> Result<Vec<(R::Key, R)>, StoreError> {
    let typed = |(key, value): super::Row| {
        let key = R::Key::from_bytes(&key).map_err(|source| StoreError::Key { table: R::TABLE, source })?;
        Ok((key, from_bytes(&value)?))
    };
    store.scan(R::TABLE, scan)?.into_iter().map(typed).collect()
}

//! Files that jobs left, as rows at their origin.

use mesh_protocol::id::JobId;
use mesh_protocol::job::{FILES_MAX, OutputFile};
use serde::{Deserialize, Serialize};

use crate::store::{Overlay, Record, Store, StoreError, Table, scan_prefix};

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredOutput(OutputFile);

impl Record for StoredOutput {
    const TABLE: Table = Table::JobOutputs;
    /// The job, and the place in what was asked for.
    type Key = (JobId, u64);
}

/// Keeps what a job left.
pub(crate) fn put(tx: &mut Overlay<'_>, job: JobId, files: Vec<OutputFile>) {
    for (place, file) in (0_u64..).zip(files) {
        tx.put(&(job, place), &StoredOutput(file));
    }
}

/// What a job left, in the order it was asked for.
///
/// # Errors
/// [`StoreError`].
pub fn of(store: &dyn Store, job: JobId) -> Result<Vec<OutputFile>, StoreError> {
    let rows = scan_prefix::<StoredOutput>(store, &job, FILES_MAX)?;
    Ok(rows.into_iter().map(|(_, StoredOutput(file))| file).collect())
}

/// Removes what a job left.
pub(crate) fn forget(tx: &mut Overlay<'_>, job: JobId) -> Result<(), StoreError> {
    for (key, _) in scan_prefix::<StoredOutput>(tx, &job, FILES_MAX)? {
        tx.delete::<StoredOutput>(&key);
    }
    Ok(())
}

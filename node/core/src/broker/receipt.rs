//! Commands that carry the caller's own id: the same id again gives the first receipt again, and never a second effect.
//!
//! The receipt and the effect are one commit. The same id with another content is a conflict, not a replay.

use mesh_protocol::api::error::{ApiError, ErrorKind};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::deadline::{self, Deadline};
use crate::store::{Record, Store, StoreError, Table, get};
use crate::turn::Turn;

/// Longest id a caller may choose, in bytes of visible ASCII.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// A receipt that was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Given {
    /// SHA-256 of the request it answers.
    fingerprint: [u8; 32],
    /// The receipt, as JSON: its type is the API's and grows with it.
    receipt: String,
}

impl Record for Given {
    const TABLE: Table = Table::Receipts;
    /// The kind of command, the caller and its id.
    type Key = String;
}

/// A place for a receipt, once the effect is decided.
#[derive(Debug)]
pub(crate) struct Slot {
    key: String,
    fingerprint: [u8; 32],
}

/// What an id leads to.
pub(crate) enum Lookup<T> {
    /// No id was given, or it is new: go on, and keep the receipt in the slot.
    New(Option<Slot>),
    /// This was done before.
    Replay(T),
    /// The id is taken, or is not one.
    Refused(ApiError),
}

/// Looks an id up before anything is decided.
pub(crate) fn look_up<T: DeserializeOwned>(
    turn: &Turn<'_, '_>,
    scope: (&'static str, &str),
    request_id: Option<&str>,
    fingerprint: impl FnOnce() -> [u8; 32],
) -> Result<Lookup<T>, StoreError> {
    let Some(id) = request_id else { return Ok(Lookup::New(None)) };
    if id.is_empty() || id.len() > REQUEST_ID_BYTES_MAX || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!("a request id is 1 to {REQUEST_ID_BYTES_MAX} visible ASCII characters");
        let error = ApiError::new(ErrorKind::Invalid, "invalid_idempotency_key", message);
        return Ok(Lookup::Refused(error.hint("leave it out, or make it of letters and digits")));
    }
    let key = key_of(scope, id);
    let fingerprint = fingerprint();
    let Some(given) = get::<Given>(turn.tx, &key)? else {
        return Ok(Lookup::New(Some(Slot { key, fingerprint })));
    };
    if given.fingerprint != fingerprint {
        return Ok(Lookup::Refused(reused(id)));
    }
    match serde_json::from_str(&given.receipt) {
        Ok(receipt) => Ok(Lookup::Replay(receipt)),
        Err(_) => Ok(Lookup::Refused(ApiError::new(
            ErrorKind::Internal,
            "receipt_unreadable",
            "the first receipt cannot be read",
        ))),
    }
}

fn key_of((kind, caller): (&str, &str), id: &str) -> String {
    format!("{kind}\n{caller}\n{id}")
}

/// Whether a caller has used an id, whatever for.
pub(crate) fn is_used(store: &dyn Store, scope: (&str, &str), id: &str) -> Result<bool, StoreError> {
    Ok(get::<Given>(store, &key_of(scope, id))?.is_some())
}

/// The refusal of an id that was used for something else.
pub(crate) fn reused(id: &str) -> ApiError {
    let message = format!("request id `{id}` was used for another request");
    let error = ApiError::new(ErrorKind::Conflict, "idempotency_key_reused", message);
    error.hint("use a new id for a new request")
}

/// What two requests with the same content have in common, where nothing better is known.
pub(crate) fn fingerprint(request: &impl Serialize) -> [u8; 32] {
    Sha256::digest(mesh_protocol::codec::encode(request)).into()
}

/// Keeps a receipt, in the commit of its effect.
pub(crate) fn keep(turn: &mut Turn<'_, '_>, slot: Option<Slot>, receipt: &impl Serialize) {
    if let Some(key) = keep_with(turn, slot, receipt) {
        deadline::retain(turn, Deadline::ForgetReceipt(key));
    }
}

/// The same for something that forgets the receipt itself, when it is forgotten: by the key that this returns.
pub(crate) fn keep_with(
    turn: &mut Turn<'_, '_>,
    slot: Option<Slot>,
    receipt: &impl Serialize,
) -> Option<String> {
    let Slot { key, fingerprint } = slot?;
    let receipt = serde_json::to_string(receipt).ok()?;
    turn.tx.put(&key, &Given { fingerprint, receipt });
    Some(key)
}

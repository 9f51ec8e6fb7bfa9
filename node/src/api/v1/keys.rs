//! Whose key it is: the authorities that know credentials.
//!
//! An [`Authority`] says of a bearer token that it is good, that it is one of its kind and not good, or that it is of
//! another kind. Tenants' keys come from a file ([`file::KeyFile`]); the operator's token is good where the operator reaches the
//! listener, on the Unix socket. Signed tokens of an identity provider would be a third authority; none is built.

pub mod book;
mod credential;
pub mod file;
mod private;

pub use credential::Credential;
pub use private::KeysError;
pub(super) use private::read as read_private;

use std::fmt::Debug;
use std::sync::Arc;

use super::scope::Scope;
use crate::api::tokens::Tokens;
use crate::service::Principal;

/// What an authority says of a token.
#[derive(Debug)]
pub enum Known {
    /// It is good.
    Tenancy(Tenancy),
    /// It is of this authority's kind, and not good: unknown, revoked, expired.
    Refused,
    /// Somebody else may know it.
    NotOurs,
}

/// On whose behalf a request is made, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenancy {
    /// The tenant.
    pub tenant: String,
    /// Who in particular.
    pub principal_id: String,
    /// The credential, by its public name.
    pub credential_id: String,
    /// How it was proven: `api_key` or `operator_token`.
    pub method: &'static str,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// When it ends, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
    /// Whether the tenant's rate applies.
    pub rated: bool,
    /// As the service knows it.
    pub who: Principal,
}

/// Somebody who knows credentials.
pub trait Authority: Debug + Send + Sync {
    /// Whose token this is at this time. Takes as long for a token it does not know as for one it does. It is called on
    /// a thread that may wait for a disk.
    fn look_up(&self, token: &str, now_ms: u64) -> Known;
}

/// Knows the operator's token: for listeners that only the operator reaches.
#[derive(Debug)]
pub struct Operator(pub Arc<Tokens>);

impl Authority for Operator {
    fn look_up(&self, token: &str, _: u64) -> Known {
        if self.0.principal(token) != Some(Principal::Operator) {
            return Known::NotOurs;
        }
        Known::Tenancy(Tenancy {
            tenant: "operator".to_owned(),
            principal_id: "operator".to_owned(),
            credential_id: "operator".to_owned(),
            method: "operator_token",
            scopes: Scope::ALL.to_vec(),
            expires_at_ms: None,
            rated: false,
            who: Principal::Operator,
        })
    }
}

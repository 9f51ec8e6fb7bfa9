//! What the adapter is started with: all of it the operator's, none of it a model's.

use std::ffi::OsString;

use thiserror::Error;

use super::daemon::Daemon;
use super::policy::{Policy, PolicyError};
use crate::api::tokens::{Token, TokenError};
use crate::home::{Home, HomeError};

/// The credential of an agent's run.
const MESH_TOKEN: &str = "MESH_TOKEN";

/// The node it speaks to, and the rules it holds every job to.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node.
    pub daemon: Daemon,
    /// The rules.
    pub policy: Policy,
}

/// Why the adapter does not start. No message repeats a value.
#[derive(Debug, Error)]
pub enum OptionsError {
    /// No variable says where the node's home is.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// `MESH_TOKEN` holds no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A setting is wrong, or two contradict each other.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl OptionsError {
    /// What to do about it, most likely first.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Home(error) => vec![error.hint()],
            Self::Token(error) => error.hints(),
            Self::Policy(error) => vec![error.hint()],
        }
    }
}

impl Options {
    /// Reads `MESH_HOME` (or where a home is by default), `XDG_RUNTIME_DIR`, `MESH_TOKEN` and the settings of
    /// [`Policy::from_environment`] by `variable`, such as [`std::env::var_os`]. Looks at no file.
    ///
    /// # Errors
    /// [`OptionsError`].
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, OptionsError> {
        let home = Home::locate(&variable)?;
        let given = variable(MESH_TOKEN).filter(|value| !value.is_empty());
        let token = match given {
            None => None,
            Some(text) => Some(Token::parse(text.to_str().ok_or(TokenError::NotAToken)?)?),
        };
        let daemon = Daemon { home, runtime_directory: variable("XDG_RUNTIME_DIR"), token };
        Ok(Self { daemon, policy: Policy::from_environment(&variable)? })
    }
}

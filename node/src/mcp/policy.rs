//! What the operator decides about jobs, and the model cannot: isolation, languages, executor.
//!
//! Read once at start from the environment of the adapter. Each setting has a `MESH_` name and the older `ROOKHOLD_`
//! one; both may be set to the same value, and different values are an error that names the variables and shows
//! neither value.

use std::collections::BTreeSet;
use std::ffi::OsString;

use mesh_protocol::isolation::IsolationClass;
use mesh_protocol::job::Language;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;
use thiserror::Error;

const MINIMUM_ISOLATION: Setting =
    Setting::named("MESH_MCP_MINIMUM_ISOLATION", "ROOKHOLD_MCP_MINIMUM_ISOLATION");
const ALLOWED_LANGUAGES: Setting =
    Setting::named("MESH_MCP_ALLOWED_LANGUAGES", "ROOKHOLD_MCP_ALLOWED_LANGUAGES");
const EXECUTOR: Setting = Setting::named("MESH_MCP_EXECUTOR", "ROOKHOLD_MCP_EXECUTOR");

/// Bytes of one setting: the longest is a list of three languages or a node's id.
const SETTING_BYTES_MAX: usize = 256;

/// What holds for every job of this adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The weakest isolation any job may run under.
    pub minimum_isolation: IsolationClass,
    /// The languages jobs may be written in.
    pub allowed_languages: BTreeSet<Language>,
    /// The node jobs go to, by name or id; the node decides when absent.
    pub executor: Option<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            minimum_isolation: IsolationClass::default(),
            allowed_languages: Language::ALL.into(),
            executor: None,
        }
    }
}

/// Why the adapter does not start.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum PolicyError {
    /// Two spellings of one setting, with different values.
    #[error("{first} and {second} are both set and differ")]
    Conflict {
        /// The one to keep.
        first: &'static str,
        /// The older one.
        second: &'static str,
    },
    /// A value that says nothing we know.
    #[error("{variable} is not {expected}")]
    Invalid {
        /// The variable.
        variable: &'static str,
        /// What it should be.
        expected: &'static str,
    },
}

impl PolicyError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Conflict { first, second } => format!("unset {second}, or set it to what {first} says"),
            Self::Invalid { variable, .. } => format!("unset {variable} to get the default"),
        }
    }
}

impl Policy {
    /// The policy that `variable` (such as [`std::env::var_os`]) describes.
    ///
    /// # Errors
    /// When two spellings contradict each other, or a value is not understood.
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, PolicyError> {
        let mut policy = Self::default();
        if let Some((name, text)) = MINIMUM_ISOLATION.read(&variable)? {
            policy.minimum_isolation = isolation(name, &text)?;
        }
        if let Some((name, text)) = ALLOWED_LANGUAGES.read(&variable)? {
            policy.allowed_languages = languages(name, &text)?;
        }
        policy.executor = EXECUTOR.read(&variable)?.map(|(_, text)| text);
        Ok(policy)
    }
}

fn isolation(variable: &'static str, text: &str) -> Result<IsolationClass, PolicyError> {
    let class: Result<_, ValueError> = IsolationClass::deserialize(text.into_deserializer());
    class.map_err(|_| PolicyError::Invalid { variable, expected: "an isolation class" })
}

fn languages(variable: &'static str, text: &str) -> Result<BTreeSet<Language>, PolicyError> {
    let languages: Result<_, _> = text.split(',').map(|word| word.trim().parse()).collect();
    languages.map_err(|_| PolicyError::Invalid { variable, expected: "a list such as `python,node,bash`" })
}

/// One setting and its two names.
struct Setting {
    first: &'static str,
    second: &'static str,
}

impl Setting {
    const fn named(first: &'static str, second: &'static str) -> Self {
        Self { first, second }
    }

    /// The value and the name it was found under. Empty is the same as unset.
    fn read(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<(&'static str, String)>, PolicyError> {
        let value = |name: &'static str| match variable(name) {
            None => Ok(None),
            Some(text) => match text.into_string() {
                Ok(text) if text.len() <= SETTING_BYTES_MAX => {
                    Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
                }
                _ => Err(PolicyError::Invalid { variable: name, expected: "a short text" }),
            },
        };
        match (value(self.first)?, value(self.second)?) {
            (Some(first), Some(second)) if first != second => {
                Err(PolicyError::Conflict { first: self.first, second: self.second })
            }
            (Some(text), _) => Ok(Some((self.first, text))),
            (None, Some(text)) => Ok(Some((self.second, text))),
            (None, None) => Ok(None),
        }
    }
}

//! Which provider a run gets: the one it asks for, or an error that says what is missing. Never another one.
//!
//! | asked for | needs |
//! |---|---|
//! | `anthropic`, `openai`, `openrouter` | a key of the caller, or of the host if that is allowed |
//! | `local` | `LOCAL_MODEL_BASE_URL` of the host |
//! | `mock` | nothing |
//! | nothing | the first cloud provider with a key; never `local` |
//!
//! The decision is made once and used twice: to say whether a run could start, and to start it.

use std::collections::BTreeMap;
use std::sync::Arc;

use url::Url;

use super::anthropic::Anthropic;
use super::openai::{Flavor, OpenAi};
use super::{Attribution, MockProvider, Provider, ProviderCredentialsError, ProviderError};
use crate::host::HostEnv;
use crate::secret::Secret;

/// Which provider and model, and with whose credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSelection {
    /// The provider by name; None: the first with a credential.
    pub preferred: Option<String>,
    /// The model; None: what the host says, or the provider's default.
    pub model: Option<String>,
    /// The caller's own keys.
    pub credentials: Credentials,
    /// Addresses in place of the providers' own, by provider.
    pub base_urls: BTreeMap<String, String>,
    /// Whether the host's keys may be used where the caller has none.
    pub env_fallback: bool,
    /// Whether a run without any key may get the offline mock.
    pub allow_mock_fallback: bool,
    /// What OpenRouter shows as the origin of the calls.
    pub attribution: Attribution,
}

impl Default for ProviderSelection {
    fn default() -> Self {
        Self {
            preferred: None,
            model: None,
            credentials: Credentials::default(),
            base_urls: BTreeMap::new(),
            env_fallback: true,
            allow_mock_fallback: false,
            attribution: Attribution::default(),
        }
    }
}

impl ProviderSelection {
    /// This provider, with whatever credential there is.
    pub fn of(provider: impl Into<String>) -> Self {
        Self { preferred: Some(provider.into()), ..Self::default() }
    }
}

/// A caller's own keys. An empty one counts as none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// For Anthropic.
    pub anthropic: Option<Secret>,
    /// For OpenAI.
    pub openai: Option<Secret>,
    /// For OpenRouter.
    pub openrouter: Option<Secret>,
}

impl Credentials {
    /// The key for a provider, if there is one that is not empty.
    #[must_use]
    pub fn of(&self, provider: &str) -> Option<&Secret> {
        let key = match provider {
            "anthropic" => self.anthropic.as_ref(),
            "openai" => self.openai.as_ref(),
            "openrouter" => self.openrouter.as_ref(),
            _ => None,
        };
        key.filter(|key| !key.is_empty())
    }

    /// The first provider with a key, in the order Anthropic, OpenAI, OpenRouter.
    #[must_use]
    pub fn first(&self) -> Option<&'static str> {
        CLOUDS.iter().map(|cloud| cloud.name).find(|provider| self.of(provider).is_some())
    }
}

/// A provider that needs a key.
struct Cloud {
    name: &'static str,
    key_variable: &'static str,
    slot: &'static str,
    model_variable: &'static str,
    /// The model when nobody says. These ids age.
    model: &'static str,
    base_url: &'static str,
}

/// In the order in which they are tried when none is asked for.
const CLOUDS: [Cloud; 3] = [
    Cloud {
        name: "anthropic",
        key_variable: "ANTHROPIC_API_KEY",
        slot: "credentials.anthropic",
        model_variable: "ANTHROPIC_MODEL",
        model: "claude-sonnet-4-6",
        base_url: "https://api.anthropic.com",
    },
    Cloud {
        name: "openai",
        key_variable: "OPENAI_API_KEY",
        slot: "credentials.openai",
        model_variable: "OPENAI_MODEL",
        model: "gpt-4.1",
        base_url: "https://api.openai.com/v1",
    },
    Cloud {
        name: "openrouter",
        key_variable: "OPENROUTER_API_KEY",
        slot: "credentials.openrouter",
        model_variable: "OPENROUTER_MODEL",
        model: "anthropic/claude-sonnet-4.5",
        base_url: "https://openrouter.ai/api/v1",
    },
];

/// The model a local server is asked for when nobody says; most serve only one.
const LOCAL_MODEL: &str = "local";

impl Cloud {
    fn key(&self, selection: &ProviderSelection, host: &HostEnv) -> Option<Secret> {
        let own = selection.credentials.of(self.name).cloned();
        own.or_else(|| host.get(self.key_variable).filter(|_| selection.env_fallback).map(Secret::new))
    }

    fn missing(&self) -> ProviderCredentialsError {
        ProviderCredentialsError {
            provider: Some(self.name.into()),
            env_var: Some(self.key_variable),
            slot: Some(self.slot),
        }
    }
}

/// What was decided.
enum Decided {
    Cloud { cloud: &'static Cloud, key: Secret, base: Url, model: String },
    Local { key: Option<Secret>, base: Url, model: String },
    Mock,
}

fn decide(selection: &ProviderSelection, host: &HostEnv) -> Result<Decided, ProviderError> {
    let missing = match selection.preferred.as_deref() {
        Some("mock") => return Ok(Decided::Mock),
        Some("local") => return local(selection, host),
        Some(name) => {
            let Some(cloud) = CLOUDS.iter().find(|cloud| cloud.name == name) else {
                let provider = Some(name.to_owned());
                return Err(ProviderCredentialsError { provider, env_var: None, slot: None }.into());
            };
            match cloud.key(selection, host) {
                Some(key) => return of_cloud(cloud, key, selection, host),
                None => cloud.missing(),
            }
        }
        None => {
            if let Some((cloud, key)) =
                CLOUDS.iter().find_map(|cloud| Some((cloud, cloud.key(selection, host)?)))
            {
                return of_cloud(cloud, key, selection, host);
            }
            ProviderCredentialsError { provider: None, env_var: None, slot: None }
        }
    };
    if selection.allow_mock_fallback { Ok(Decided::Mock) } else { Err(missing.into()) }
}

fn of_cloud(
    cloud: &'static Cloud,
    key: Secret,
    selection: &ProviderSelection,
    host: &HostEnv,
) -> Result<Decided, ProviderError> {
    let base = selection.base_urls.get(cloud.name).map_or(cloud.base_url, String::as_str);
    let base = address(cloud.name, base)?;
    let asked = selection.model.clone().filter(|model| !model.is_empty());
    let model = asked.or_else(|| host.get(cloud.model_variable)).unwrap_or_else(|| cloud.model.into());
    Ok(Decided::Cloud { cloud, key, base, model })
}

fn local(selection: &ProviderSelection, host: &HostEnv) -> Result<Decided, ProviderError> {
    let Some(base) = host.get("LOCAL_MODEL_BASE_URL") else {
        let (provider, env_var) = (Some("local".into()), Some("LOCAL_MODEL_BASE_URL"));
        return Err(ProviderCredentialsError { provider, env_var, slot: None }.into());
    };
    let asked = selection.model.clone().filter(|model| !model.is_empty());
    Ok(Decided::Local {
        key: host.get("LOCAL_MODEL_API_KEY").map(Secret::new),
        base: address("local", &base)?,
        model: asked.or_else(|| host.get("LOCAL_MODEL")).unwrap_or_else(|| LOCAL_MODEL.into()),
    })
}

/// An address that requests can be sent to. The text is not repeated: it may hold a credential.
fn address(provider: &str, text: &str) -> Result<Url, ProviderError> {
    let wrong = |why: String| ProviderError::BaseUrl { provider: provider.to_owned(), why };
    let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        Ok(url)
    } else {
        Err(wrong("it is neither http nor https".into()))
    }
}

/// The provider that this selection means on this host.
///
/// # Errors
/// [`ProviderError::Credentials`] when there is no such provider or no credential for it, [`ProviderError::BaseUrl`]
/// when its address is none.
pub fn select_provider(
    selection: &ProviderSelection,
    host: &HostEnv,
) -> Result<Arc<dyn Provider>, ProviderError> {
    Ok(match decide(selection, host)? {
        Decided::Mock => Arc::new(MockProvider::new(selection, host)),
        Decided::Local { key, base, model } => {
            Arc::new(OpenAi::adapter(Flavor::Local, &base, key, model, host.clone())?)
        }
        Decided::Cloud { cloud, key, base, model } => match cloud.name {
            "anthropic" => Arc::new(Anthropic::adapter(&base, key, model, host.clone())?),
            "openai" => Arc::new(OpenAi::adapter(Flavor::OpenAi, &base, Some(key), model, host.clone())?),
            _ => {
                let flavor = Flavor::OpenRouter(selection.attribution.clone());
                Arc::new(OpenAi::adapter(flavor, &base, Some(key), model, host.clone())?)
            }
        },
    })
}

/// Whether [`select_provider`] would find one.
///
/// # Errors
/// The error it would give.
pub fn provider_availability(selection: &ProviderSelection, host: &HostEnv) -> Result<(), ProviderError> {
    decide(selection, host).map(|_decided| ())
}

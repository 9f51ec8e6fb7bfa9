//! A host-side server that holds the real keys and forwards a run's model calls.
//!
//! Through a gateway no credential of the caller or the host reaches a run: it gets the run's token and the gateway's
//! address.

use std::collections::BTreeMap;

use super::Refusal;
use crate::secret::Secret;

/// Where a run's model calls go, and what it shows there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// Its address; a provider's is `/p/<provider>` below it.
    pub base_url: String,
    /// The run's token, which stands in for every key.
    pub run_token: Secret,
    /// Addresses of single providers.
    pub routes: BTreeMap<String, String>,
}

/// Providers that a gateway can stand in for.
pub(crate) const ROUTED: [&str; 3] = ["anthropic", "openai", "openrouter"];

impl Gateway {
    /// The address for a provider's calls.
    #[must_use]
    pub fn endpoint(&self, provider: &str) -> String {
        match self.routes.get(provider) {
            Some(route) => route.clone(),
            None => format!("{}/p/{provider}", self.base_url.trim_end_matches('/')),
        }
    }

    /// # Errors
    /// What is wrong with it. A gateway that is wrong is never ignored: the run would go elsewhere.
    pub fn check(&self) -> Result<(), Refusal> {
        let is_address =
            |text: &str| url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if !is_address(&self.base_url) {
            return Err(Refusal::because("the gateway's base_url is not an http or https address"));
        }
        let token = self.run_token.expose();
        if token.is_empty() || token.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            return Err(Refusal::because(
                "the gateway's run_token is empty or has spaces or control characters",
            ));
        }
        for (provider, route) in &self.routes {
            if !ROUTED.contains(&provider.as_str()) {
                return Err(Refusal::because(format!(
                    "the gateway has a route for {provider:?}, which is none of {ROUTED:?}"
                )));
            }
            if !is_address(route) {
                return Err(Refusal::because(format!(
                    "the gateway's route for {provider} is not an http or https address"
                )));
            }
        }
        Ok(())
    }
}

//! The ACP agents this kernel knows: eve, OpenCode and Gemini CLI.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde_json::{Map, Value};

use super::AcpAgentSpec;
use crate::agent::{Refusal, RunSpec};
use crate::host::HostEnv;
use crate::secret::Secret;

/// Where OpenCode takes configuration from a variable.
const OPENCODE_CONFIG: &str = "OPENCODE_CONFIG_CONTENT";

impl AcpAgentSpec {
    /// eve. The working directory is an application of eve, which has its own model and tools: of a run it takes the
    /// prompt, and refuses every session with servers (0.80).
    #[must_use]
    pub fn eve() -> Self {
        Self {
            takes_gateway: true,
            takes_servers: false,
            ..Self::new("eve", "RUNNER_ENABLE_EVE", "eve", ["acp"])
        }
    }

    /// OpenCode. Its providers' addresses are in its own configuration, so a gateway is refused: the run's token would go
    /// to the public address.
    #[must_use]
    pub fn opencode() -> Self {
        Self {
            env: Arc::new(opencode_variables),
            inherit_env_prefixes: vec!["OPENCODE_".into()],
            ..Self::new("opencode", "RUNNER_ENABLE_OPENCODE", "opencode", ["acp"])
        }
    }

    /// Gemini CLI. It knows one key, the host's; and of a directory it does not trust it ignores the servers of a run.
    #[must_use]
    pub fn gemini() -> Self {
        Self {
            args: Arc::new(gemini_arguments),
            inherit_env_prefixes: vec!["GEMINI_".into(), "GOOGLE_".into()],
            takes_keys: false,
            host_key: Some("GEMINI_API_KEY".into()),
            reads_agents_md: false,
            ..Self::new("gemini", "RUNNER_ENABLE_GEMINI", "gemini", [""; 0])
        }
    }
}

fn gemini_arguments(run: &RunSpec) -> Vec<String> {
    let model = run.provider.model.iter().flat_map(|model| ["--model".to_owned(), model.clone()]);
    ["--acp", "--skip-trust"].map(str::to_owned).into_iter().chain(model).collect()
}

fn opencode_variables(run: &RunSpec, host: &HostEnv) -> Result<BTreeMap<String, Secret>, Refusal> {
    let mut variables = BTreeMap::from([("OPENCODE_DISABLE_AUTOUPDATE".to_owned(), Secret::from("1"))]);
    let Some(model) = &run.provider.model else { return Ok(variables) };
    let mut config = match host.get(OPENCODE_CONFIG) {
        Some(text) => {
            parse_to_serde_value::<Map<String, Value>>(&text, &ParseOptions::default()).map_err(|_| {
                Refusal::because(format!(
                    "the host's {OPENCODE_CONFIG} is no JSON object, so no model can be added"
                ))
            })?
        }
        None => Map::new(),
    };
    config.insert("model".into(), opencode_model(run, model)?.into());
    variables.insert(OPENCODE_CONFIG.into(), Secret::new(Value::Object(config).to_string()));
    Ok(variables)
}

/// A model as OpenCode names it: `provider/model`.
fn opencode_model(run: &RunSpec, model: &str) -> Result<String, Refusal> {
    let preferred = run.provider.preferred.as_deref().filter(|name| !name.is_empty());
    match preferred.or_else(|| run.provider.credentials.first()) {
        Some(provider) if model.starts_with(&format!("{provider}/")) => Ok(model.to_owned()),
        Some(provider) => Ok(format!("{provider}/{model}")),
        None if model.contains('/') => Ok(model.to_owned()),
        None => Err(Refusal::because(format!(
            "OpenCode needs a provider for the model {model:?}; name one as preferred, or write provider/model"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{Credentials, ProviderSelection};

    fn run(preferred: Option<&str>, key: Option<&str>, model: &str) -> RunSpec {
        let key = |name: &str| (key == Some(name)).then(|| Secret::from("k"));
        let credentials =
            Credentials { anthropic: key("anthropic"), openai: key("openai"), openrouter: key("openrouter") };
        let provider = ProviderSelection {
            preferred: preferred.map(Into::into),
            model: Some(model.into()),
            credentials,
            ..ProviderSelection::default()
        };
        RunSpec { provider, ..RunSpec::default() }
    }

    fn config(run: &RunSpec, host: &str) -> Result<Value, Refusal> {
        let variables = opencode_variables(run, &HostEnv::fixed([(OPENCODE_CONFIG, host)]))?;
        Ok(serde_json::from_str(variables[OPENCODE_CONFIG].expose()).unwrap())
    }

    #[test]
    fn a_model_of_opencode_has_its_provider_once() {
        let cases = [
            (run(Some("anthropic"), None, "claude"), "anthropic/claude"),
            (run(Some("anthropic"), None, "anthropic/claude"), "anthropic/claude"),
            (run(Some("openrouter"), None, "openai/gpt-4.1"), "openrouter/openai/gpt-4.1"),
            (run(None, Some("openrouter"), "openai/gpt-4.1"), "openrouter/openai/gpt-4.1"),
            (run(None, Some("openai"), "gpt-4.1"), "openai/gpt-4.1"),
            (run(Some("anthropic"), Some("openai"), "m"), "anthropic/m"),
            (run(None, None, "vertex/gemini"), "vertex/gemini"),
        ];
        for (run, model) in cases {
            assert_eq!(config(&run, "").unwrap()["model"], model);
        }
        assert!(config(&run(None, None, "claude"), "").is_err());
    }

    #[test]
    fn a_host_s_own_configuration_of_opencode_is_kept() {
        let run = run(Some("anthropic"), None, "claude");
        let merged = config(&run, "{ // mine\n \"share\": \"disabled\", \"model\": \"old\", }").unwrap();
        assert_eq!(merged, serde_json::json!({"share": "disabled", "model": "anthropic/claude"}));
        for broken in ["{", "[]", "\"text\"", "{} {}", "nonsense"] {
            assert!(config(&run, broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn gemini_is_told_to_trust_its_directory_and_which_model() {
        assert_eq!(gemini_arguments(&run(None, None, "g")), ["--acp", "--skip-trust", "--model", "g"]);
        assert_eq!(gemini_arguments(&RunSpec::default()), ["--acp", "--skip-trust"]);
    }
}

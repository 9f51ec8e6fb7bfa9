//! The environment of a program that does a run: an allow-list, never this process's whole one, which holds credentials.
//!
//! Variables that every program needs pass by their exact names. A harness's own settings pass by their prefix, except
//! those that look like a credential, or that would send the run elsewhere. Keys are set one by one by the engine that
//! knows it needs them. This is a filter by names and no more: prefixes have to be kept narrow.

use std::collections::BTreeMap;
use std::fmt;

use super::RunSpec;
use crate::host::HostEnv;
use crate::secret::Secret;

/// Variables that pass by name: where things are, in which language, whom to trust, and by which proxy.
const PASSED: [&str; 22] = [
    "PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "TMPDIR",
    "TMP",
    "TEMP",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "TZ",
    "USER",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
];

/// The locale's own variables.
const LOCALE_PREFIX: &str = "LC_";

/// What makes a name that passes by its prefix look like a credential.
const CREDENTIAL_MARKS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH"];

/// Settings that may carry a credential or lead elsewhere although their name does not say so.
const NEVER_BY_PREFIX: [&str; 4] =
    ["ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLAUDE_CODE_EXTRA_BODY"];

/// Settings that send every model call to another service (Bedrock, Vertex, Foundry), past the run's keys, addresses and
/// gateway, with credentials that a machine in their cloud has without any variable.
const ELSEWHERE_PREFIXES: [&str; 2] = ["CLAUDE_CODE_USE_", "GOOGLE_GENAI_USE_"];

/// Settings of providers, which a gateway stands in for.
const PROVIDER_PREFIXES: [&str; 3] = ["ANTHROPIC_", "OPENAI_", "OPENROUTER_"];

/// The environment of one program.
#[derive(Clone, Default)]
pub(super) struct ChildEnv {
    variables: BTreeMap<String, String>,
    secrets: Vec<Secret>,
}

impl ChildEnv {
    /// What a program of this run inherits, and the run's own secrets.
    pub(super) fn of_run(spec: &RunSpec, host: &HostEnv, prefixes: &[&str]) -> Self {
        let has_gateway = spec.gateway.is_some();
        let passes = |name: &str| {
            PASSED.contains(&name)
                || name.starts_with(LOCALE_PREFIX)
                || prefixes.iter().any(|prefix| passes_by_prefix(name, prefix, has_gateway))
        };
        let variables = host.all().into_iter().filter(|(name, _)| passes(name)).collect();
        let mut env = Self { variables, secrets: Vec::new() };
        env.spare_loopback();
        for (name, value) in &spec.secrets {
            env.set_secret(name, value);
        }
        env
    }

    /// Keeps a proxy from what is served to the program on this machine.
    fn spare_loopback(&mut self) {
        let has_proxy = self.variables.keys().any(|name| name.to_ascii_lowercase().ends_with("_proxy"));
        for name in ["NO_PROXY", "no_proxy"].into_iter().filter(|_| has_proxy) {
            let value = self.variables.entry(name.to_owned()).or_default();
            let separator = if value.is_empty() { "" } else { "," };
            value.push_str(&format!("{separator}127.0.0.1,localhost"));
        }
    }

    /// Sets a variable.
    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.insert(name.to_owned(), value.into());
    }

    /// Sets a variable whose value must not be shown.
    pub(super) fn set_secret(&mut self, name: &str, value: &Secret) {
        self.set(name, value.expose());
        self.secrets.push(value.clone());
    }

    /// What must not be shown of it.
    pub(super) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// All of it.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    #[cfg(test)]
    fn names(&self) -> Vec<&str> {
        self.variables.keys().map(String::as_str).collect()
    }
}

impl fmt::Debug for ChildEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

fn passes_by_prefix(name: &str, prefix: &str, has_gateway: bool) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_of_a_provider = PROVIDER_PREFIXES.iter().any(|provider| name.starts_with(provider));
    let is_held_back = CREDENTIAL_MARKS.iter().any(|mark| upper.contains(mark))
        || NEVER_BY_PREFIX.contains(&name)
        || ELSEWHERE_PREFIXES.iter().any(|elsewhere| name.starts_with(elsewhere))
        || (has_gateway && is_of_a_provider);
    name.starts_with(prefix) && !is_held_back
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Gateway;

    /// A host with a canary in everything that must not pass.
    fn host() -> HostEnv {
        let canaries = [
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_PROFILE",
            "GITHUB_TOKEN",
            "GOOGLE_API_KEY",
            "GOOGLE_CLOUD_PROJECT",
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_CUSTOM_HEADERS",
            "OPENROUTER_API_KEY",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "CODEX_API_KEY",
            "codex_secret",
            "NPM_TOKEN",
            "SSH_AUTH_SOCK",
            "DATABASE_URL",
            "KUBECONFIG",
            "LD_PRELOAD",
            "NODE_OPTIONS",
            "PYTHONPATH",
            "RUNNER_ISOLATION",
            "LOCAL_MODEL_API_KEY",
            "MCP_AUTH_TOKEN",
            "GIT_ASKPASS",
            "HISTFILE",
            "PATHS",
            "XLC_ALL",
            "ANTHROPIC_Password",
            "CLAUDE_credential_file",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ];
        let plain = [
            "PATH",
            "HOME",
            "LC_ALL",
            "LC_TIME",
            "TMPDIR",
            "SSL_CERT_FILE",
            "ANTHROPIC_MODEL",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_MAX_TURNS",
            "OPENAI_ORG_ID",
        ];
        let canaries = canaries.map(|name| (name, "canary")).into_iter();
        HostEnv::fixed(canaries.chain(plain.map(|name| (name, "plain"))))
    }

    #[test]
    fn a_program_gets_what_is_listed_and_its_own_settings_and_no_credential() {
        let env = ChildEnv::of_run(&RunSpec::default(), &host(), &["ANTHROPIC_", "CLAUDE_"]);
        let expected = [
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_MODEL",
            "CLAUDE_CODE_MAX_TURNS",
            "HOME",
            "LC_ALL",
            "LC_TIME",
            "PATH",
            "SSL_CERT_FILE",
            "TMPDIR",
        ];
        assert_eq!(env.names(), expected);
        assert!(env.variables().all(|(_, value)| value == "plain"));
        let env = ChildEnv::of_run(&RunSpec::default(), &host(), &["OPENAI_", "CODEX_", "GOOGLE_GENAI_"]);
        assert!(env.names().contains(&"OPENAI_ORG_ID") && env.variables().all(|(_, value)| value == "plain"));
    }

    #[test]
    fn a_gateway_keeps_out_every_setting_of_a_provider() {
        let gateway = Gateway { base_url: "http://g".into(), run_token: "t".into(), routes: BTreeMap::new() };
        let spec = RunSpec { gateway: Some(gateway), ..RunSpec::default() };
        let env = ChildEnv::of_run(&spec, &host(), &["ANTHROPIC_", "CLAUDE_", "OPENAI_"]);
        assert_eq!(
            env.names(),
            ["CLAUDE_CODE_MAX_TURNS", "HOME", "LC_ALL", "LC_TIME", "PATH", "SSL_CERT_FILE", "TMPDIR"]
        );
    }

    #[test]
    fn a_proxy_does_not_stand_between_a_program_and_this_machine() {
        let host = HostEnv::fixed([("https_proxy", "http://proxy"), ("NO_PROXY", "example.com")]);
        let env = ChildEnv::of_run(&RunSpec::default(), &host, &[]);
        let value =
            |name: &str| env.variables().find(|(it, _)| *it == name).map(|(_, value)| value.to_owned());
        assert_eq!(value("NO_PROXY").as_deref(), Some("example.com,127.0.0.1,localhost"));
        assert_eq!(value("no_proxy").as_deref(), Some("127.0.0.1,localhost"));
        assert!(
            ChildEnv::of_run(&RunSpec::default(), &HostEnv::fixed([("PATH", "/")]), &[]).names() == ["PATH"]
        );
    }

    #[test]
    fn showing_it_shows_no_value() {
        let mut env = ChildEnv::default();
        env.set_secret("NAME", &Secret::from("canary"));
        assert_eq!(format!("{env:?}"), "{\"NAME\"}");
    }
}

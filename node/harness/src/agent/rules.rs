//! What no engine runs, whichever it is: rules about credentials, isolation and privacy, each with its reason in words.

use super::{ExposedCredentials, Isolation, Refusal, RunSpec};
use crate::connector::{ConnectorAuth, ConnectorConfig};
use crate::host::HostEnv;
use crate::secret::Secret;

/// The profile that an engine with a shell of its own asks for: a box that is thrown away.
const EPHEMERAL: &str = "ephemeral";

/// Whether a run may take a key from the host's own variables: not beside a gateway, and only if it says so.
pub(crate) fn may_use_host_key(spec: &RunSpec) -> bool {
    spec.gateway.is_none() && spec.provider.env_fallback
}

/// Whether the gateway of a run, if it has one, is whole, and a run in a virtual machine holds no credential it should
/// not. `host_keys` are the variables of the host that the engine would take a key from.
///
/// # Errors
/// The rule that is broken.
pub(crate) fn check_credentials(spec: &RunSpec, host: &HostEnv, host_keys: &[&str]) -> Result<(), Refusal> {
    if let Some(gateway) = &spec.gateway {
        gateway.check()?;
    }
    if spec.isolation != Some(Isolation::Vm) {
        return Ok(());
    }
    let own = spec.gateway.is_none().then(|| spec.provider.credentials.first()).flatten();
    if let Some(provider) = own {
        return Err(Refusal::because(format!(
            "a run in a virtual machine holds no raw key, and credentials.{provider} is one; use a gateway"
        )));
    }
    if let Some(variable) = host_keys.iter().find(|name| host.get(name).is_some()) {
        return Err(Refusal::because(format!(
            "a run in a virtual machine holds no raw key, and the host's {variable} is one; use a gateway"
        )));
    }
    if spec.exposed_credentials == ExposedCredentials::Allowed {
        return Ok(());
    }
    if !spec.secrets.is_empty() {
        return Err(Refusal::because(
            "a run in a virtual machine holds no credential in the clear, and secrets are; allow exposed_credentials",
        ));
    }
    match spec.connectors.iter().find(|connector| exposes(connector, spec)) {
        Some(connector) => Err(Refusal::because(format!(
            "a run in a virtual machine holds no credential in the clear, and those of the connector {} are; allow \
             exposed_credentials",
            connector.name
        ))),
        None => Ok(()),
    }
}

/// Whether a connector carries a credential that is not merely the run's own token.
fn exposes(connector: &ConnectorConfig, spec: &RunSpec) -> bool {
    let is_run_token =
        |token: &Secret| spec.gateway.as_ref().is_some_and(|gateway| gateway.run_token == *token);
    let has_token = match &connector.auth {
        ConnectorAuth::Bearer(token) => !token.is_empty() && !is_run_token(token),
        ConnectorAuth::None => false,
    };
    has_token || connector.headers.values().chain(connector.env.values()).any(|value| !value.is_empty())
}

/// Whether an engine that has a shell of its own, and approves its own actions, may run here: it is switched on, the run
/// asks for a box that is thrown away, and both the caller and the host say that there is one. `enable` is the variable
/// that switches it on.
///
/// # Errors
/// The condition that is not met.
pub(crate) fn check_isolation(spec: &RunSpec, host: &HostEnv, enable: &str) -> Result<(), Refusal> {
    if spec.private {
        return Err(Refusal::because("a private run is done by the native engine only"));
    }
    if !host.is_on(enable) {
        return Err(Refusal::because(format!("it is not enabled on this host; set {enable}=1")));
    }
    if spec.workflow.profile.as_deref() != Some(EPHEMERAL) {
        return Err(Refusal::because("the workflow does not ask for the ephemeral runner profile"));
    }
    if spec.isolation.unwrap_or_default() < Isolation::Container {
        return Err(Refusal::because("the run's isolation is less than a container"));
    }
    if Isolation::effective(spec.isolation, host) < Isolation::Container {
        return Err(Refusal::because(
            "the host does not claim at least container isolation; its entrypoint sets RUNNER_ISOLATION",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENABLE: &str = "RUNNER_ENABLE_CODEX";

    fn host(isolation: &str) -> HostEnv {
        HostEnv::fixed([(ENABLE, "1"), ("RUNNER_ISOLATION", isolation)])
    }

    fn spec(isolation: Option<Isolation>) -> RunSpec {
        let mut spec = RunSpec { isolation, ..RunSpec::default() };
        spec.workflow.profile = Some(EPHEMERAL.into());
        spec
    }

    #[test]
    fn both_the_caller_and_the_host_have_to_claim_a_container() {
        let claims = [None, Some(Isolation::None), Some(Isolation::Container), Some(Isolation::Vm)];
        for claim in claims {
            for at_home in ["", "none", "nonsense", "Container", "container", "vm"] {
                let passes = claim >= Some(Isolation::Container) && ["container", "vm"].contains(&at_home);
                let checked = check_isolation(&spec(claim), &host(at_home), ENABLE);
                assert_eq!(checked.is_ok(), passes, "{claim:?} {at_home}");
            }
        }
    }

    #[test]
    fn what_the_payload_says_of_the_host_has_no_effect() {
        let mut spec = spec(Some(Isolation::Vm));
        spec.inputs.insert("RUNNER_ISOLATION".into(), "vm".into());
        spec.secrets.insert("RUNNER_ISOLATION".into(), "vm".into());
        assert!(check_isolation(&spec, &host("none"), ENABLE).is_err());
    }

    #[test]
    fn a_refusal_names_the_condition() {
        let good = spec(Some(Isolation::Container));
        let reason =
            |spec: &RunSpec, host: &HostEnv| check_isolation(spec, host, ENABLE).unwrap_err().to_string();
        let off = HostEnv::fixed([(ENABLE, "true"), ("RUNNER_ISOLATION", "vm")]);
        assert!(reason(&good, &off).contains(ENABLE));
        let lasting = RunSpec { workflow: Default::default(), ..good.clone() };
        assert!(reason(&lasting, &host("vm")).contains("ephemeral"));
        assert!(reason(&good, &host("none")).contains("RUNNER_ISOLATION"));
        assert!(reason(&spec(None), &host("vm")).contains("less than a container"));
        assert!(reason(&RunSpec { private: true, ..good.clone() }, &host("vm")).contains("private"));
        assert!(check_isolation(&good, &host("container"), ENABLE).is_ok());
    }
}

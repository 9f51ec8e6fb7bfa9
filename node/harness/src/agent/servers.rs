//! The MCP servers that a program is told about: the run's own capabilities, and its connectors.
//!
//! The name of the capability surface is [`SURFACE`]. It is not `workspace`: Claude Code reserves that name and leaves
//! out a server that has it without a word.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Refusal, RunSpec};
use crate::capability::{CapabilityContract, CapabilityProgram, CapabilityServer};
use crate::connector::{ConnectorAuth, ConnectorConfig, ConnectorKind};
use crate::secret::Secret;

/// What the capability surface is called.
pub(super) const SURFACE: &str = "runcaps";

/// Names that a harness leaves out without a word.
const RESERVED: [&str; 1] = ["workspace"];

/// A server that a program connects to by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) way: Way,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    Program {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, Secret>,
    },
    Http {
        url: String,
        headers: BTreeMap<String, Secret>,
    },
    /// By the older HTTP.
    Sse {
        url: String,
        headers: BTreeMap<String, Secret>,
    },
}

/// The servers of a run: its connectors that speak MCP.
///
/// # Errors
/// A connector that could not be handed over as it is.
pub(super) fn connectors(spec: &RunSpec) -> Result<Vec<Server>, Refusal> {
    let connectors = spec.connectors.iter().filter(|connector| connector.kind == ConnectorKind::Mcp);
    let servers: Vec<Server> = connectors.map(server).collect::<Result<_, _>>()?;
    for (at, server) in servers.iter().enumerate() {
        let name = &server.name;
        if name == SURFACE || RESERVED.contains(&name.as_str()) {
            return Err(Refusal::because(format!(
                "a connector cannot be called {name}: the name is reserved"
            )));
        }
        if servers.iter().take(at).any(|other| other.name == *name) {
            return Err(Refusal::because(format!("two connectors are called {name}")));
        }
    }
    Ok(servers)
}

fn server(connector: &ConnectorConfig) -> Result<Server, Refusal> {
    let name = connector.name.clone();
    let is_word =
        |name: &str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    if name.is_empty() || !is_word(&name) {
        return Err(Refusal::because(format!(
            "the connector {name:?} needs a name of letters, digits, - and _"
        )));
    }
    let needed = |value: &Option<String>, what: &str| {
        let value = value.clone().filter(|value| !value.is_empty());
        value.ok_or_else(|| Refusal::because(format!("the connector {name} has no {what}")))
    };
    let token = match &connector.auth {
        ConnectorAuth::Bearer(token) => Some(token),
        ConnectorAuth::None => None,
    };
    let mut headers = connector.headers.clone();
    if let Some(token) = token {
        headers.insert("Authorization".into(), format!("Bearer {}", token.expose()).into());
    }
    let way = match connector.transport.as_str() {
        "stdio" => {
            let token = token.map(|token| ("MCP_AUTH_TOKEN".to_owned(), token.clone()));
            let env = token.into_iter().chain(connector.env.clone()).collect();
            Way::Program {
                command: needed(&connector.command, "command")?,
                args: connector.args.clone(),
                env,
            }
        }
        "streamable_http" => Way::Http { url: needed(&connector.endpoint, "endpoint")?, headers },
        "sse" => Way::Sse { url: needed(&connector.endpoint, "endpoint")?, headers },
        other => {
            return Err(Refusal::because(format!(
                "the connector {name} has the unknown transport {other:?}"
            )));
        }
    };
    Ok(Server { name, way })
}

/// The capability surface as a server.
pub(super) fn surface(server: &CapabilityServer) -> Server {
    let bearer = Secret::new(format!("Bearer {}", server.token().expose()));
    let headers = BTreeMap::from([("Authorization".to_owned(), bearer)]);
    Server { name: SURFACE.into(), way: Way::Http { url: server.url(), headers } }
}

/// The same, served by a program.
pub(super) fn surface_program(program: &CapabilityProgram, contract: &CapabilityContract) -> Server {
    let told = contract.variables().into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    let way =
        Way::Program { command: program.command.clone(), args: program.args.clone(), env: told.collect() };
    Server { name: SURFACE.into(), way }
}

/// Values in the clear, for the configuration that only the program reads.
pub(super) fn in_the_clear(values: &BTreeMap<String, Secret>) -> BTreeMap<&str, &str> {
    values.iter().map(|(name, value)| (name.as_str(), value.expose())).collect()
}

impl Server {
    /// In the form that most harnesses read: `mcpServers` of a JSON file.
    pub(super) fn to_json(&self) -> Value {
        match &self.way {
            Way::Program { command, args, env } => {
                json!({"type": "stdio", "command": command, "args": args, "env": in_the_clear(env)})
            }
            Way::Http { url, headers } => {
                json!({"type": "http", "url": url, "headers": in_the_clear(headers)})
            }
            Way::Sse { url, headers } => json!({"type": "sse", "url": url, "headers": in_the_clear(headers)}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(connectors: impl IntoIterator<Item = ConnectorConfig>) -> RunSpec {
        RunSpec { connectors: connectors.into_iter().collect(), ..RunSpec::default() }
    }

    fn connector(name: &str, transport: &str) -> ConnectorConfig {
        ConnectorConfig {
            name: name.into(),
            transport: transport.into(),
            endpoint: Some("http://s/mcp".into()),
            command: Some("server".into()),
            auth: ConnectorAuth::Bearer("t".into()),
            ..ConnectorConfig::default()
        }
    }

    #[test]
    fn a_token_goes_where_its_transport_has_it() {
        let all =
            connectors(&spec(["stdio", "streamable_http", "sse"].map(|way| connector(way, way)))).unwrap();
        let shown: Vec<Value> = all.iter().map(Server::to_json).collect();
        assert_eq!(
            shown,
            [
                json!({"type": "stdio", "command": "server", "args": [], "env": {"MCP_AUTH_TOKEN": "t"}}),
                json!({"type": "http", "url": "http://s/mcp", "headers": {"Authorization": "Bearer t"}}),
                json!({"type": "sse", "url": "http://s/mcp", "headers": {"Authorization": "Bearer t"}}),
            ]
        );
        assert!(!format!("{all:?}").contains("Bearer"));
    }

    #[test]
    fn a_connector_that_could_not_be_handed_over_is_refused() {
        let twice = [connector("a", "sse"), connector("a", "sse")];
        let bare = ConnectorConfig { endpoint: None, command: None, ..connector("a", "sse") };
        let cases = [
            spec([connector("workspace", "sse")]),
            spec([connector("runcaps", "sse")]),
            spec([connector("a.b", "sse")]),
            spec([connector("", "sse")]),
            spec([connector("a", "pigeon")]),
            spec(twice),
            spec([bare.clone()]),
            spec([ConnectorConfig { transport: "stdio".into(), ..bare }]),
        ];
        for case in cases {
            assert!(connectors(&case).is_err(), "{:?}", case.connectors);
        }
        let plain = ConnectorConfig { kind: ConnectorKind::Http, ..connector("workspace", "pigeon") };
        assert_eq!(connectors(&spec([plain])), Ok(Vec::new()));
    }
}

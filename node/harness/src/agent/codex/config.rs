//! The configuration file of one run of Codex. Every value is quoted by the TOML library, whatever is in it.

use toml::{Table, Value};

use crate::agent::servers::{Server, Way, in_the_clear};

/// Its name for a place that model calls go to.
const PROVIDER: &str = "gw";

/// How long it waits for a server, seconds.
const STARTUP_SECONDS: i64 = 30;

/// How often it repeats a request, and goes on with a stream that broke.
const RETRIES: i64 = 2;

/// The whole file.
pub(super) fn render(servers: &[Server], base_url: Option<&str>) -> String {
    let mut config = Table::new();
    if let Some(base_url) = base_url {
        config.insert("model_provider".into(), PROVIDER.into());
        let provider = table([
            ("name", PROVIDER.into()),
            ("base_url", base_url.into()),
            ("env_key", "CODEX_API_KEY".into()),
            ("wire_api", "responses".into()),
            ("request_max_retries", RETRIES.into()),
            ("stream_max_retries", RETRIES.into()),
        ]);
        config.insert("model_providers".into(), table([(PROVIDER, provider)]));
    }
    config.insert("check_for_update_on_startup".into(), false.into());
    config.insert("analytics".into(), table([("enabled", false.into())]));
    let servers: Table = servers.iter().map(|server| (server.name.clone(), entry(server))).collect();
    if !servers.is_empty() {
        config.insert("mcp_servers".into(), servers.into());
    }
    config.to_string()
}

fn table<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Table>().into()
}

fn entry(server: &Server) -> Value {
    let map = |values| table(in_the_clear(values).into_iter().map(|(name, value)| (name, value.into())));
    let way = match &server.way {
        Way::Program { command, args, env } => {
            let args = args.iter().map(|arg| arg.as_str().into()).collect::<Vec<Value>>();
            vec![("command", command.as_str().into()), ("args", args.into()), ("env", map(env))]
        }
        // It has one kind of HTTP, and finds out by itself what the server speaks.
        Way::Http { url, headers } | Way::Sse { url, headers } => {
            vec![("url", url.as_str().into()), ("http_headers", map(headers))]
        }
    };
    let ours = [("required", true.into()), ("startup_timeout_sec", STARTUP_SECONDS.into())];
    table(way.into_iter().chain(ours))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::secret::Secret;

    #[test]
    fn whatever_is_in_a_value_it_is_read_back_the_same() {
        let odd = "quote\" back\\slash\nnew line\u{1}\u{7f} = [table] é";
        let env: BTreeMap<String, Secret> = [("A.B \"C\"".to_owned(), Secret::from(odd))].into();
        let servers = [
            Server { name: "runcaps".into(), way: Way::Http { url: odd.into(), headers: env.clone() } },
            Server {
                name: "older".into(),
                way: Way::Sse { url: "http://s".into(), headers: BTreeMap::new() },
            },
            Server {
                name: "program".into(),
                way: Way::Program { command: odd.into(), args: vec![odd.into()], env },
            },
        ];
        let text = render(&servers, Some(odd));
        insta::assert_snapshot!(text);
        let read: Table = toml::from_str(&text).unwrap();
        assert_eq!(read["model_providers"]["gw"]["base_url"].as_str(), Some(odd));
        let servers = &read["mcp_servers"];
        assert_eq!(servers["runcaps"]["url"].as_str(), Some(odd));
        assert_eq!(servers["runcaps"]["http_headers"]["A.B \"C\""].as_str(), Some(odd));
        assert_eq!(servers["program"]["args"][0].as_str(), Some(odd));
        assert!(
            servers.as_table().unwrap().values().all(|server| server["required"].as_bool() == Some(true))
        );
    }

    #[test]
    fn without_an_address_of_its_own_a_run_uses_the_provider_itself() {
        let read: Table = toml::from_str(&render(&[], None)).unwrap();
        assert_eq!(read.keys().collect::<Vec<_>>(), ["analytics", "check_for_update_on_startup"]);
    }
}

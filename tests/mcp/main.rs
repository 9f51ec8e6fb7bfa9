//! The MCP adapter as a process: what hosts rely on when they start, use and end it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails where it unwraps")]

mod process;
mod real_node;
mod scripted_node;
mod sdk;

use real_node::RealNode;
use scripted_node::{AGENT, ScriptedNode};

/// How a host starts the adapter.
const ADAPTER: [&str; 2] = [env!("CARGO_BIN_EXE_mesh-under-test"), "mcp-server"];

#[test]
fn the_official_client_gets_a_list_and_a_way_out_where_there_is_no_node() {
    let Some(python) = sdk::python() else { return };
    for mode in sdk::MODES {
        let folder = tempfile::tempdir().unwrap();
        sdk::judge(&python, mode, &folder.path().join("nowhere"), None, &ADAPTER);
        sdk::judge(&python, mode, folder.path(), None, &ADAPTER);
    }
}

#[test]
fn the_official_client_validates_every_result_and_a_cancelled_call_stops_its_job() {
    let Some(python) = sdk::python() else { return };
    for mode in sdk::MODES {
        let folder = tempfile::tempdir().unwrap();
        let node = ScriptedNode::start(folder.path());
        sdk::judge(&python, mode, folder.path(), Some(AGENT), &ADAPTER);
        assert_eq!(node.unfinished_jobs(), 0, "{mode}");
    }
}

#[test]
fn the_official_client_uses_a_real_node_with_a_real_agent_and_a_real_sandbox() {
    let Some(python) = sdk::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(node) = RealNode::start(folder.path()) else { return };
    for mode in sdk::MODES {
        sdk::judge(&python, mode, node.home(), Some("@echo"), &ADAPTER);
    }
}

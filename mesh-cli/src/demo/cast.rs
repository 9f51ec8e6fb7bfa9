//! The three nodes of the demo, each a process with a home of its own in one temporary folder, on loopback.
//!
//! ```text
//!   atlas   founds the mesh and asks
//!   nova    runs jobs, in gVisor or, where that does not work, in namespaces of this machine's kernel
//!   vega    has the agent
//! ```
//! Invariant: however this value goes away (the end, a failed step, Ctrl-C, a panic), no process of it is left and
//! the folder is gone, unless [`Cast::leave`] was called.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mesh_node::identity::RootCertificate;
use tempfile::TempDir;

use crate::commands::root_in;

use super::node::Node;
use super::report::NodeLog;
use super::setback::Setback;

/// The agent's name.
pub(crate) const AGENT: &str = "counter";
/// Its full address.
pub(crate) const AGENT_ADDRESS: &str = "@counter.node:vega";
/// How long the nodes may take to stop by themselves: runs and jobs end, what is left of sandboxes is cleared away.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// The three.
#[derive(Debug)]
pub(crate) struct Cast {
    /// Founds the mesh and asks.
    pub(crate) atlas: Node,
    /// Runs jobs.
    pub(crate) nova: Node,
    /// Has the agent.
    pub(crate) vega: Node,
    // Last, so that it goes when nothing runs in it any more.
    folder: TempDir,
}

impl Cast {
    /// Makes the folder and three homes in it. Nothing runs yet.
    pub(crate) fn gather() -> Result<Self, Setback> {
        let place = std::env::temp_dir();
        let folder = tempfile::Builder::new()
            .prefix("mesh-demo-")
            .tempdir_in(&place)
            .map_err(|source| Setback::File { path: place, source })?;
        let path = folder.path().to_owned();
        let node = |name, rest: &str| {
            Node::prepare(
                &path,
                name,
                &format!("[node]\nname = \"{name}\"\nlisten = \"127.0.0.1:0\"\n{rest}"),
            )
        };
        Ok(Self {
            atlas: node("atlas", NO_JOBS)?,
            nova: node("nova", JOBS)?,
            vega: node("vega", &format!("{NO_JOBS}{}", agent(&journal(&path))?))?,
            folder,
        })
    }

    /// Where the agent notes its runs, one a line.
    pub(crate) fn journal(&self) -> PathBuf {
        journal(self.folder.path())
    }

    /// The mesh's root certificate, as its founder keeps it for everyone to read.
    pub(crate) fn root(&self) -> Result<RootCertificate, Setback> {
        let path = self.atlas.home.join("root.crt");
        let file = std::fs::read(&path).map_err(|source| Setback::File { path, source })?;
        Ok(root_in(file)?)
    }

    /// All of them.
    pub(crate) fn nodes(&self) -> [&Node; 3] {
        [&self.atlas, &self.nova, &self.vega]
    }

    /// What each of them said last.
    pub(crate) fn last_words(&mut self) -> Vec<NodeLog> {
        [&mut self.atlas, &mut self.nova, &mut self.vega].map(Node::last_words).into()
    }

    /// Leaves everything as it is: the nodes go on running, the folder stays.
    pub(crate) fn leave(mut self) -> PathBuf {
        self.each(Node::leave);
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    fn each(&mut self, act: impl FnMut(&mut Node)) {
        [&mut self.atlas, &mut self.nova, &mut self.vega].into_iter().for_each(act);
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        self.each(|node| node.ask_to_stop());
        let deadline = Instant::now() + STOP_WITHIN;
        self.each(|node| node.stopped_by(deadline));
    }
}

/// `[executor]` of the node that runs them: where gVisor does not work the demo still shows a job, in the weaker class,
/// which a node offers only if its operator wrote so. The demo is the operator of its own three.
const JOBS: &str = "[executor]\nallow_classes = [\"gvisor-application-kernel\", \"linux-shared-kernel\"]\n";

/// `[executor]` of a node that runs no jobs.
const NO_JOBS: &str = "[executor]\nenabled = false\n";

fn journal(folder: &Path) -> PathBuf {
    folder.join("runs")
}

/// `[[agent]]`: this same program, in another role.
fn agent(journal: &Path) -> Result<String, Setback> {
    let command = "demo-agent";
    let program =
        std::env::current_exe().map_err(|source| Setback::Spawn { command: command.to_owned(), source })?;
    let command =
        [quoted(&program), quoted(Path::new(command)), quoted(Path::new("--journal")), quoted(journal)];
    Ok(format!(
        "[[agent]]\nname = \"{AGENT}\"\ncommand = [{}, \"--on\", \"nova\"]\ndescription = \"counts a text\"\n\
         env = [\"XDG_RUNTIME_DIR\"]\n",
        command.join(", ")
    ))
}

/// A basic string of TOML 1.0, whose escapes include those of JSON.
fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.display().to_string()).to_string()
}

#[cfg(test)]
mod tests {
    use mesh_node::home::Config;

    use super::*;

    #[test]
    fn the_configurations_are_ones_a_node_reads() {
        let cast = Cast::gather().unwrap();
        for node in cast.nodes() {
            let config = Config::read(&node.home.join("config.toml")).unwrap();
            assert_eq!(config.node.name.unwrap().as_str(), node.name);
            assert!(config.node.listen.unwrap().ip().is_loopback());
            assert_eq!(config.executor.enabled, node.name == "nova");
            assert_eq!(config.agents.len(), usize::from(node.name == "vega"));
        }
    }

    #[test]
    fn the_folder_goes_with_the_nodes() {
        let cast = Cast::gather().unwrap();
        let folder = cast.folder.path().to_owned();
        assert!(folder.join("vega/config.toml").exists());
        drop(cast);
        assert!(!folder.exists());
    }
}

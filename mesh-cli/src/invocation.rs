//! One call of this program: what every command gets besides its own arguments.
//!
//! It knows where the node's home is and with which credential to speak to it. It does not speak: a client is made
//! only by the command that needs one, so that commands that work without a node never touch a home.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use mesh_node::api::tokens::{Token, TokenError};
use mesh_node::client::{Client, Endpoint};
use mesh_node::home::Home;

use crate::args::Global;
use crate::environment::{MESH_HOME, MESH_TOKEN};
use crate::failure::Failure;
use crate::printer::Printer;

/// One call of this program.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// Its voice.
    pub(crate) printer: Printer,
    home: Option<PathBuf>,
    no_input: bool,
    left_running: RefCell<Option<String>>,
}

impl Invocation {
    /// The invocation these arguments describe.
    pub(crate) fn new(global: &Global) -> Self {
        Self {
            printer: global.printer(),
            home: global.home.clone(),
            no_input: global.no_input,
            left_running: RefCell::new(None),
        }
    }

    /// Whether someone can be asked.
    pub(crate) fn interactive(&self) -> bool {
        !self.no_input && !self.printer.json() && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Where the home is or would be.
    pub(crate) fn home(&self) -> Result<PathBuf, Failure> {
        Ok(Home::locate(|name| self.variable(name))?)
    }

    /// A client of the node of this home.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let root = self.home()?;
        // A home that is not there is not made by looking for it.
        let socket = if root.exists() {
            let home = Home::open(&root)?;
            home.socket(|name| self.variable(name))?
        } else {
            root.join("run/mesh.sock")
        };
        let token = token(&root)?;
        Ok(Client::new(Endpoint { lock: root.join("mesh.lock"), home: root, socket, token }))
    }

    /// Milliseconds since 1970 by this machine's clock, for ages.
    #[expect(clippy::unused_self, reason = "what a command knows of the world, it knows from here")]
    pub(crate) fn wall_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// Says, should Ctrl-C come now, what goes on without this program.
    pub(crate) fn leaves_running(&self, what: String) {
        self.left_running.replace(Some(what));
    }

    /// What goes on without this program.
    pub(crate) fn left_running(&self) -> Option<String> {
        self.left_running.borrow().clone()
    }

    /// A variable of the environment, or the flag that stands for it.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        let flag = self.home.as_ref().filter(|_| name == MESH_HOME);
        flag.map(|home| home.clone().into_os_string()).or_else(|| std::env::var_os(name))
    }
}

/// The token of an agent's run where there is one, otherwise the operator's. None is no error: `status` needs none.
fn token(root: &Path) -> Result<Option<Token>, TokenError> {
    if let Some(text) = std::env::var_os(MESH_TOKEN).filter(|text| !text.is_empty()) {
        return Token::parse(&text.to_string_lossy()).map(Some);
    }
    match Token::read(&root.join("tokens/operator")) {
        Ok(token) => Ok(Some(token)),
        Err(TokenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

//! What the types of a configuration cannot say: bounds, uniqueness, and values that could never work.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use mesh_protocol::limits::ADDRESSES_MAX;
use mesh_protocol::record::DESCRIPTION_BYTES_MAX;
use thiserror::Error;

use super::{AgentSection, Config, ExecutorSection, HttpSection};
use crate::limits::{
    AGENT_TIME_LIMIT_SECONDS_MAX, AGENTS_MAX, COMMAND_BYTES_MAX, COMMAND_WORDS_MAX, CONFIG_BYTES_MAX,
    ENVIRONMENT_NAMES_MAX, EXECUTOR_READY_MAX, EXECUTOR_SLOTS_MAX,
};

/// Why a configuration is not used. The node does not start with half of one.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read, or is not text.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file is too long to be a configuration.
    #[error("{path} is longer than {CONFIG_BYTES_MAX} bytes")]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// Not TOML, a key that does not exist, or a value of the wrong type. The source has line and key.
    #[error("{path} is not a valid configuration")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A value that cannot be used.
    #[error("{path}: {key} {problem}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The key, as `agent.reviewer.command`.
        key: String,
        /// What is wrong with it.
        problem: Problem,
    },
}

impl ConfigError {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Read { .. } => "check that it is a text file in UTF-8 which this user may read".to_owned(),
            Self::TooLong { .. } => "is this the right file? a configuration is a page or two".to_owned(),
            Self::Syntax { .. } => {
                "mend the line that is named; every key has to be one that exists".to_owned()
            }
            Self::Invalid { path, key, .. } => format!("change `{key}` in {}", path.display()),
        }
    }
}

/// What is wrong with a value.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// Nothing where something is needed.
    #[error("is empty")]
    Empty,
    /// More entries than allowed.
    #[error("has more than {limit} entries")]
    TooMany {
        /// How many are allowed.
        limit: usize,
    },
    /// More bytes than allowed.
    #[error("has more than {limit} bytes")]
    TooLong {
        /// How many are allowed.
        limit: usize,
    },
    /// A number that is too large.
    #[error("must be at most {limit}")]
    TooLarge {
        /// The largest allowed.
        limit: u32,
    },
    /// A number outside its range.
    #[error("must be from 1 to {limit}")]
    OutOfRange {
        /// The largest allowed.
        limit: u32,
    },
    /// The same name as another's.
    #[error("is there twice")]
    Twice,
    /// A relative path: a service has no directory it could be relative to.
    #[error("must be an absolute path")]
    NotAbsolute,
    /// An address nobody could dial.
    #[error("has an address without a host or port")]
    NotDialable,
    /// Not a name of an environment variable.
    #[error("has a name that is not letters, digits and underscores")]
    NotAVariable,
    /// An address of another interface than the loopback.
    #[error("must be an address of the loopback interface, such as 127.0.0.1:7300")]
    NotLoopback,
    /// One of two files that belong together.
    #[error("needs both `http.credentials` and `http.pepper`, or neither")]
    NeedsKeys,
    /// A zero byte, which no argument can carry.
    #[error("has a zero byte")]
    ZeroByte,
}

/// A key and what is wrong with it.
type Found = (String, Problem);

/// The first problem in the order of the file.
pub(super) fn first_problem(config: &Config) -> Option<Found> {
    node(&config.node.advertise)
        .or_else(|| executor(&config.executor))
        .or_else(|| http(&config.http))
        .or_else(|| too_many("agent", config.agents.len(), AGENTS_MAX))
        .or_else(|| duplicate(&config.agents))
        .or_else(|| config.agents.iter().find_map(agent))
}

fn node(advertise: &[SocketAddr]) -> Option<Found> {
    let dialable = |address: &SocketAddr| !address.ip().is_unspecified() && address.port() != 0;
    too_many("node.advertise", advertise.len(), ADDRESSES_MAX)
        .or_else(|| found("node.advertise", Problem::NotDialable, !advertise.iter().all(dialable)))
}

fn executor(section: &ExecutorSection) -> Option<Found> {
    let slots = section.slots.unwrap_or(1);
    let range = Problem::OutOfRange { limit: EXECUTOR_SLOTS_MAX.into() };
    let relative = section.runsc.as_ref().is_some_and(|path| !path.is_absolute());
    let relative_pack = section.packs.values().any(|path| !path.is_absolute());
    let no_class = section.enabled && section.allow_classes.is_empty();
    let too_many_ready = section.ready.is_some_and(|ready| ready > EXECUTOR_READY_MAX);
    found("executor.slots", range, slots == 0 || slots > EXECUTOR_SLOTS_MAX)
        .or_else(|| {
            let limit = Problem::TooLarge { limit: EXECUTOR_READY_MAX.into() };
            found("executor.ready", limit, too_many_ready)
        })
        .or_else(|| found("executor.runsc", Problem::NotAbsolute, relative))
        .or_else(|| found("executor.packs", Problem::NotAbsolute, relative_pack))
        .or_else(|| found("executor.allow_classes", Problem::Empty, no_class))
}

fn http(section: &HttpSection) -> Option<Found> {
    let HttpSection { listen, credentials, pepper, metrics_token, requests_per_minute } = section;
    let relative = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| !path.is_absolute());
    let files = [credentials, pepper].into_iter().flatten().count();
    let range = Problem::OutOfRange { limit: u32::MAX };
    found("http.listen", Problem::NotLoopback, listen.is_some_and(|address| !address.ip().is_loopback()))
        .or_else(|| found("http.credentials", Problem::NotAbsolute, relative(credentials)))
        .or_else(|| found("http.pepper", Problem::NotAbsolute, relative(pepper)))
        .or_else(|| found("http.metrics_token", Problem::NotAbsolute, relative(metrics_token)))
        .or_else(|| found("http", Problem::NeedsKeys, files == 1))
        .or_else(|| found("http.requests_per_minute", range, *requests_per_minute == Some(0)))
}

fn duplicate(agents: &[AgentSection]) -> Option<Found> {
    let mut names = BTreeSet::new();
    let twice = agents.iter().find(|agent| !names.insert(&agent.name))?;
    Some((format!("agent.{}", twice.name), Problem::Twice))
}

fn agent(agent: &AgentSection) -> Option<Found> {
    let bytes = agent.command.iter().map(String::len).sum::<usize>();
    let program = agent.command.first().map_or("", String::as_str);
    let seconds = agent.time_limit_seconds;
    let range = Problem::OutOfRange { limit: AGENT_TIME_LIMIT_SECONDS_MAX };
    let relative = agent.working_directory.as_ref().is_some_and(|path| !path.is_absolute());
    let checks = [
        ("command", Problem::Empty, program.is_empty()),
        ("command", Problem::TooMany { limit: COMMAND_WORDS_MAX }, agent.command.len() > COMMAND_WORDS_MAX),
        ("command", Problem::TooLong { limit: COMMAND_BYTES_MAX }, bytes > COMMAND_BYTES_MAX),
        ("command", Problem::ZeroByte, agent.command.iter().any(|word| word.contains('\0'))),
        (
            "description",
            Problem::TooLong { limit: DESCRIPTION_BYTES_MAX },
            agent.description.len() > DESCRIPTION_BYTES_MAX,
        ),
        ("time_limit_seconds", range, seconds == 0 || seconds > AGENT_TIME_LIMIT_SECONDS_MAX),
        ("working_directory", Problem::NotAbsolute, relative),
        ("env", Problem::TooMany { limit: ENVIRONMENT_NAMES_MAX }, agent.env.len() > ENVIRONMENT_NAMES_MAX),
        ("env", Problem::NotAVariable, !agent.env.iter().all(|name| mesh_harness::is_variable_name(name))),
    ];
    let (key, problem, _) = checks.into_iter().find(|(_, _, wrong)| *wrong)?;
    Some((format!("agent.{}.{key}", agent.name), problem))
}

fn too_many(key: &str, entries: usize, limit: usize) -> Option<Found> {
    found(key, Problem::TooMany { limit }, entries > limit)
}

fn found(key: &str, problem: Problem, wrong: bool) -> Option<Found> {
    wrong.then(|| (key.to_owned(), problem))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn problem(text: &str) -> Found {
        match Config::parse(text, Path::new("config.toml")) {
            Err(ConfigError::Invalid { key, problem, .. }) => (key, problem),
            other => panic!("{other:?} has no problem"),
        }
    }

    fn agent_with(line: &str) -> Found {
        problem(&format!("[[agent]]\nname = \"a\"\ncommand = [\"x\"]\n{line}\n"))
    }

    #[test]
    fn values_that_could_never_work_are_refused_by_key() {
        let key = |key: &str| key.to_owned();
        assert_eq!(
            problem("[node]\nadvertise = [\"0.0.0.0:1\"]"),
            (key("node.advertise"), Problem::NotDialable)
        );
        assert_eq!(
            problem("[node]\nadvertise = [\"192.0.2.1:0\"]"),
            (key("node.advertise"), Problem::NotDialable)
        );
        assert_eq!(
            problem("[executor]\nslots = 0"),
            (key("executor.slots"), Problem::OutOfRange { limit: EXECUTOR_SLOTS_MAX.into() })
        );
        let limit = EXECUTOR_READY_MAX.into();
        assert_eq!(problem("[executor]\nready = 257"), (key("executor.ready"), Problem::TooLarge { limit }));
        assert_eq!(problem("[executor]\nrunsc = \"runsc\""), (key("executor.runsc"), Problem::NotAbsolute));
        let pack = "[executor.packs]\nscience = \"science.tar\"";
        assert_eq!(problem(pack), (key("executor.packs"), Problem::NotAbsolute));
        assert_eq!(
            problem("[executor]\nallow_classes = []"),
            (key("executor.allow_classes"), Problem::Empty)
        );
        assert_eq!(
            problem("[[agent]]\nname = \"a\"\ncommand = []"),
            (key("agent.a.command"), Problem::Empty)
        );
        assert_eq!(agent_with("working_directory = \"here\"").1, Problem::NotAbsolute);
        assert_eq!(agent_with("env = [\"A=B\"]"), (key("agent.a.env"), Problem::NotAVariable));
        assert_eq!(agent_with("time_limit_seconds = 0").0, "agent.a.time_limit_seconds");
        assert_eq!(agent_with(&format!("description = \"{}\"", "d".repeat(10_000))).0, "agent.a.description");
    }

    #[test]
    fn a_port_for_other_machines_or_with_half_of_the_keys_is_refused() {
        let key = |key: &str| key.to_owned();
        for address in ["0.0.0.0:7300", "192.0.2.1:7300", "[::]:7300"] {
            let text = format!("[http]\nlisten = \"{address}\"\ncredentials = \"/c\"\npepper = \"/p\"");
            assert_eq!(problem(&text), (key("http.listen"), Problem::NotLoopback));
        }
        let own = Config::parse("[http]\nlisten = \"127.0.0.1:1\"", Path::new("config.toml"));
        assert!(own.is_ok(), "the keys are in the home then");
        assert_eq!(problem("[http]\npepper = \"/p\""), (key("http"), Problem::NeedsKeys));
        assert_eq!(problem("[http]\npepper = \"p\"").0, "http.pepper");
    }

    #[test]
    fn two_agents_of_one_name_are_refused() {
        let agent = "[[agent]]\nname = \"a\"\ncommand = [\"x\"]\n";
        assert_eq!(problem(&agent.repeat(2)), ("agent.a".to_owned(), Problem::Twice));
    }

    #[test]
    fn an_error_says_file_key_and_problem() {
        let error = Config::parse("[executor]\nslots = 0", Path::new("config.toml")).unwrap_err();
        assert_eq!(error.to_string(), "config.toml: executor.slots must be from 1 to 256");
    }
}

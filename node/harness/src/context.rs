//! What a run knows beforehand: fragments from several sources, put into its prompt.
//!
//! Sources are asked at the same time. One that fails or panics is told to the log and left out: a run is not lost for
//! want of a hint.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use serde_json::Value;

use crate::agent::RunSpec;
use crate::log::Log;
use crate::model::BoxError;

/// A source of context.
pub trait ContextProvider: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// What it knows about this run.
    fn assemble<'a>(&'a self, spec: &'a RunSpec) -> BoxFuture<'a, Result<Vec<ContextFragment>, BoxError>>;
}

/// A piece of context.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContextFragment {
    /// Where it is from: the title of its section.
    pub source: String,
    /// What it says.
    pub text: String,
    /// Higher comes first.
    pub priority: i32,
    /// Anything else.
    pub meta: Option<Value>,
}

/// The run's own context, then what the providers know: by priority, and else in the order of the providers.
pub async fn assemble_context(providers: &[Arc<dyn ContextProvider>], spec: &RunSpec, log: &Log) -> String {
    let asked = providers.iter().map(|provider| async move {
        // A provider may panic before its future is there, or in it.
        let answer = AssertUnwindSafe(async { provider.assemble(spec).await }).catch_unwind().await;
        (provider.name(), answer)
    });
    let mut fragments = Vec::new();
    for (name, answer) in join_all(asked).await {
        match answer {
            Ok(Ok(some)) => fragments.extend(some),
            Ok(Err(error)) => log.line(&format!("no context from {name}: {error}")),
            Err(_panic) => log.line(&format!("no context from {name}: it panicked")),
        }
    }
    fragments.sort_by_key(|fragment| std::cmp::Reverse(fragment.priority));
    let sections = fragments.iter().map(|fragment| format!("## {}\n\n{}", fragment.source, fragment.text));
    let own = (!spec.context.is_empty()).then(|| spec.context.clone());
    own.into_iter().chain(sections).collect::<Vec<_>>().join("\n\n")
}

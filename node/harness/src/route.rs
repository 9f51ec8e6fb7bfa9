//! Which model, prompt and tools serve a capability that is asked for by name.
//!
//! A resolver picks and a registry binds: what comes out names a model, and does not hold one.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use serde_json::Value;
use thiserror::Error;

use crate::agent_loop::RequestedLimits;
use crate::model::{BoxError, ModelRef};
use crate::tool::InvocationMode;

/// Finds what serves a capability.
pub trait RouteResolver: Send + Sync {
    /// What serves `capability` in this context.
    fn resolve<'a>(
        &'a self,
        capability: &'a str,
        context: &'a RouteContext,
    ) -> BoxFuture<'a, Result<ResolvedRoute, RouteError>>;
}

/// For whom a capability is resolved.
#[derive(Debug, Clone, Default)]
pub struct RouteContext {
    /// Who causes it.
    pub mode: Option<InvocationMode>,
    /// What ties this to other calls.
    pub correlation_id: Option<String>,
}

/// What serves a capability.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedRoute {
    /// The capability.
    pub capability: String,
    /// The model, by name.
    pub model: ModelRef,
    /// The system prompt.
    pub prompt: String,
    /// The tools, by name.
    pub tools: Vec<String>,
    /// How far a run may go.
    pub limits: RequestedLimits,
    /// Anything else.
    pub meta: Option<Value>,
}

impl ResolvedRoute {
    /// A capability that a model serves without prompt, tools or limits of its own.
    pub fn new(capability: impl Into<String>, model: ModelRef) -> Self {
        Self {
            capability: capability.into(),
            model,
            prompt: String::new(),
            tools: Vec::new(),
            limits: RequestedLimits::default(),
            meta: None,
        }
    }

    /// The same with a system prompt.
    #[must_use]
    pub fn with_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = prompt.into();
        self
    }
}

/// Routes that are known beforehand. The last of one name counts.
#[derive(Debug, Clone, Default)]
pub struct StaticRouteResolver {
    routes: BTreeMap<String, ResolvedRoute>,
}

impl StaticRouteResolver {
    /// Exactly these routes.
    pub fn new(routes: impl IntoIterator<Item = ResolvedRoute>) -> Self {
        Self { routes: routes.into_iter().map(|route| (route.capability.clone(), route)).collect() }
    }
}

impl RouteResolver for StaticRouteResolver {
    fn resolve<'a>(
        &'a self,
        capability: &'a str,
        _context: &'a RouteContext,
    ) -> BoxFuture<'a, Result<ResolvedRoute, RouteError>> {
        let found = self.routes.get(capability).cloned().ok_or_else(|| RouteError::Unknown {
            capability: capability.to_owned(),
            known: self.routes.keys().cloned().collect(),
        });
        Box::pin(std::future::ready(found))
    }
}

/// Why there is no route.
#[derive(Debug, Error)]
pub enum RouteError {
    /// Nothing serves it.
    #[error("no route for the capability {capability:?}; there are {known:?}")]
    Unknown {
        /// What was asked for.
        capability: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A resolver's own failure.
    #[error(transparent)]
    Other(BoxError),
}

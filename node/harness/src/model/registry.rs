//! Which models there are, by kind and id.
//!
//! A registered factory does not run before its model is asked for, and runs once if it succeeds. Requests and results
//! stay typed: resolving with other types than those registered is an error, as is a name that is not registered.

use std::any::{Any, type_name};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use thiserror::Error;

use super::{BoxError, Middleware, SharedModel, with_middleware};

/// The name of a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelRef {
    /// Its kind.
    pub kind: String,
    /// Which one of its kind.
    pub id: String,
}

impl ModelRef {
    /// The name of a model.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.id)
    }
}

/// Models by name.
#[derive(Default)]
pub struct ModelRegistry {
    /// In the order they were registered.
    entries: Vec<Entry>,
    middleware: Vec<Arc<dyn Middleware>>,
}

struct Entry {
    name: ModelRef,
    /// A [`Lazy`] of the types that were registered.
    model: Box<dyn Any + Send + Sync>,
    types: &'static str,
}

type Factory<Req, Res> = Box<dyn Fn() -> Result<SharedModel<Req, Res>, BoxError> + Send + Sync>;

struct Lazy<Req, Res> {
    factory: Factory<Req, Res>,
    made: OnceLock<SharedModel<Req, Res>>,
}

impl ModelRegistry {
    /// A registry without models.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers what makes a model; it is made when it is first asked for.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] when the name is taken.
    pub fn register<Req: Send + 'static, Res: Send + 'static>(
        &mut self,
        name: ModelRef,
        factory: impl Fn() -> Result<SharedModel<Req, Res>, BoxError> + Send + Sync + 'static,
    ) -> Result<&mut Self, RegistryError> {
        if self.has(&name) {
            return Err(RegistryError::Duplicate { name });
        }
        let model = Lazy { factory: Box::new(factory), made: OnceLock::new() };
        self.entries.push(Entry { name, model: Box::new(model), types: type_name::<(Req, Res)>() });
        Ok(self)
    }

    /// Registers a model under its own kind and id.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] when the name is taken.
    pub fn register_instance<Req: Send + 'static, Res: Send + 'static>(
        &mut self,
        model: SharedModel<Req, Res>,
    ) -> Result<&mut Self, RegistryError> {
        self.register(ModelRef::new(model.kind(), model.id()), move || Ok(model.clone()))
    }

    /// Wraps every model handed out from now on; what is added first is outermost.
    pub fn wrap_all(&mut self, middleware: impl IntoIterator<Item = Arc<dyn Middleware>>) -> &mut Self {
        self.middleware.extend(middleware);
        self
    }

    /// The model of this name.
    ///
    /// # Errors
    /// A [`RegistryError`] when there is none, it has other types, or it cannot be made.
    pub fn resolve<Req: Send + 'static, Res: Send + 'static>(
        &self,
        name: &ModelRef,
    ) -> Result<SharedModel<Req, Res>, RegistryError> {
        let entry = self.entries.iter().find(|entry| entry.name == *name);
        let entry = entry.ok_or_else(|| self.unknown(name))?;
        let Some(lazy) = entry.model.downcast_ref::<Lazy<Req, Res>>() else {
            return Err(RegistryError::TypeMismatch {
                name: name.clone(),
                registered: entry.types,
                asked: type_name::<(Req, Res)>(),
            });
        };
        let model = match lazy.made.get() {
            Some(model) => model.clone(),
            None => {
                let made = (lazy.factory)()
                    .map_err(|source| RegistryError::Factory { name: name.clone(), source })?;
                lazy.made.get_or_init(|| made).clone()
            }
        };
        Ok(with_middleware(model, self.middleware.clone()))
    }

    /// Whether a model of this name can be resolved.
    ///
    /// # Errors
    /// The error that [`resolve`](Self::resolve) would give for a name that is not registered.
    pub fn supports(&self, name: &ModelRef) -> Result<(), RegistryError> {
        if self.has(name) { Ok(()) } else { Err(self.unknown(name)) }
    }

    /// Whether a model of this name is registered.
    #[must_use]
    pub fn has(&self, name: &ModelRef) -> bool {
        self.entries.iter().any(|entry| entry.name == *name)
    }

    /// The kinds there are, each once, in the order they first came.
    #[must_use]
    pub fn kinds(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let kinds = self.entries.iter().map(|entry| entry.name.kind.as_str());
        kinds.filter(|kind| seen.insert(*kind)).collect()
    }

    /// The ids of one kind, in order.
    #[must_use]
    pub fn ids(&self, kind: &str) -> Vec<&str> {
        let names = self.entries.iter().map(|entry| &entry.name);
        names.filter(|name| name.kind == kind).map(|name| name.id.as_str()).collect()
    }

    /// Every name, in order.
    #[must_use]
    pub fn registered(&self) -> Vec<&ModelRef> {
        self.entries.iter().map(|entry| &entry.name).collect()
    }

    fn unknown(&self, name: &ModelRef) -> RegistryError {
        let known = self.entries.iter().map(|entry| entry.name.clone()).collect();
        RegistryError::Unknown { name: name.clone(), known }
    }
}

impl fmt::Debug for ModelRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRegistry").field("registered", &self.registered()).finish_non_exhaustive()
    }
}

/// Why there is no model.
#[derive(Debug, Error)]
pub enum RegistryError {
    /// Nothing is registered under this name.
    #[error("no model {name}; {}", list(.known))]
    Unknown {
        /// What was asked for.
        name: ModelRef,
        /// What there is.
        known: Vec<ModelRef>,
    },
    /// Something is registered under this name already.
    #[error("a model {name} is registered already")]
    Duplicate {
        /// The name.
        name: ModelRef,
    },
    /// The model takes and gives other types.
    #[error("the model {name} has the types {registered}, not {asked}")]
    TypeMismatch {
        /// The model.
        name: ModelRef,
        /// Its types of request and result.
        registered: &'static str,
        /// Those that were asked for.
        asked: &'static str,
    },
    /// The model could not be made.
    #[error("the model {name} cannot be made")]
    Factory {
        /// The model.
        name: ModelRef,
        /// Why.
        #[source]
        source: BoxError,
    },
}

fn list(known: &[ModelRef]) -> String {
    if known.is_empty() {
        return "none is registered".into();
    }
    let names: Vec<String> = known.iter().map(ModelRef::to_string).collect();
    format!("registered are {}", names.join(", "))
}

//! What is done around every call of a model, whatever its kind.
//!
//! A middleware sees the call's label and context and how it ended, never the request or the answer, so one
//! implementation serves all kinds. The first of a list is outermost.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::future::BoxFuture;

use super::{
    Health, InvokeContext, Invoked, ModelCaps, ModelError, ModelInvocation, ModelRef, SharedModel, Status,
    StreamSink,
};

/// Does something around calls.
pub trait Middleware: Send + Sync {
    /// Around one call: `next` makes it.
    fn around<'a>(&'a self, call: Call<'a>, next: Next<'a>) -> BoxFuture<'a, Result<(), ModelError>>;
}

/// What a middleware sees of a call.
#[derive(Debug)]
pub struct Call<'a> {
    /// The model's name.
    pub model: &'a ModelRef,
    /// The context; what is changed here reaches the model.
    pub context: InvokeContext,
}

/// The rest of the way to the model.
pub struct Next<'a> {
    rest: &'a [Arc<dyn Middleware>],
    model: &'a ModelRef,
    last: Last<'a>,
}

type Last<'a> = Box<dyn FnOnce(InvokeContext) -> BoxFuture<'a, Result<(), ModelError>> + Send + 'a>;

impl<'a> Next<'a> {
    /// Makes the call in this context.
    ///
    /// # Errors
    /// What the model, or a middleware further in, failed with.
    pub fn run(self, context: InvokeContext) -> BoxFuture<'a, Result<(), ModelError>> {
        match self.rest.split_first() {
            Some((first, rest)) => {
                let next = Next { rest, model: self.model, last: self.last };
                first.around(Call { model: self.model, context }, next)
            }
            None => (self.last)(context),
        }
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("model", self.model).field("left", &self.rest.len()).finish()
    }
}

/// The same model with these middlewares around it; the same object if there are none.
pub fn with_middleware<Req: Send + 'static, Res: Send + 'static>(
    model: SharedModel<Req, Res>,
    middleware: Vec<Arc<dyn Middleware>>,
) -> SharedModel<Req, Res> {
    if middleware.is_empty() {
        return model;
    }
    let name = ModelRef::new(model.kind(), model.id());
    Arc::new(Wrapped { model, name, middleware })
}

struct Wrapped<Req, Res> {
    model: SharedModel<Req, Res>,
    name: ModelRef,
    middleware: Vec<Arc<dyn Middleware>>,
}

impl<Req: Send + 'static, Res: Send + 'static> Wrapped<Req, Res> {
    /// Sends `ask` through the middlewares and takes the answer out behind their backs.
    fn call<'a>(
        &'a self,
        context: &InvokeContext,
        ask: impl FnOnce(InvokeContext) -> Invoked<'a, Res> + Send + 'a,
    ) -> Invoked<'a, Res> {
        let context = context.clone();
        Box::pin(async move {
            let answer = Arc::new(Mutex::new(None));
            let slot = answer.clone();
            let last: Last<'a> = Box::new(move |context| {
                Box::pin(async move {
                    let result = ask(context).await?;
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                    Ok(())
                })
            });
            let next = Next { rest: &self.middleware, model: &self.name, last };
            next.run(context).await?;
            let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
            answer.ok_or(ModelError::NoAnswer)
        })
    }
}

impl<Req: Send + 'static, Res: Send + 'static> ModelInvocation<Req, Res> for Wrapped<Req, Res> {
    fn id(&self) -> &str {
        self.model.id()
    }

    fn kind(&self) -> &str {
        self.model.kind()
    }

    fn caps(&self) -> ModelCaps {
        self.model.caps()
    }

    fn invoke<'a>(&'a self, request: Req, context: &'a InvokeContext) -> Invoked<'a, Res> {
        self.call(context, move |context| Box::pin(async move { self.model.invoke(request, &context).await }))
    }

    fn invoke_stream<'a>(
        &'a self,
        request: Req,
        sink: &'a dyn StreamSink,
        context: &'a InvokeContext,
    ) -> Option<Invoked<'a, Res>> {
        if !self.caps().streaming {
            return None;
        }
        Some(self.call(context, move |context| {
            Box::pin(async move { super::invoke_streaming(&*self.model, request, sink, &context).await })
        }))
    }

    fn probe(&self) -> BoxFuture<'_, Health> {
        self.model.probe()
    }
}

/// Gives every call a correlation id, unless its caller did.
pub struct Correlation {
    mint: Box<dyn Fn() -> String + Send + Sync>,
}

impl Correlation {
    /// Ids made by `mint`.
    pub fn with(mint: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self { mint: Box::new(mint) }
    }
}

impl Default for Correlation {
    fn default() -> Self {
        Self::with(|| uuid::Uuid::now_v7().to_string())
    }
}

impl fmt::Debug for Correlation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Correlation")
    }
}

impl Middleware for Correlation {
    fn around<'a>(&'a self, call: Call<'a>, next: Next<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        let mut context = call.context;
        context.correlation_id.get_or_insert_with(&self.mint);
        next.run(context)
    }
}

/// Says of every call, through the context's log, how it ended and how long it took.
#[derive(Debug, Default)]
pub struct Logging;

impl Middleware for Logging {
    fn around<'a>(&'a self, call: Call<'a>, next: Next<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            let started = Instant::now();
            let log = call.context.log.clone();
            let ended = next.run(call.context).await;
            let took = started.elapsed().as_millis();
            match &ended {
                Ok(()) => log.line(&format!("{} ok in {took} ms", call.model)),
                Err(error) => log.line(&format!("{} failed in {took} ms: {error}", call.model)),
            }
            ended
        })
    }
}

/// Remembers how the last call of each model ended.
#[derive(Debug, Default)]
pub struct HealthTracking {
    seen: Mutex<BTreeMap<ModelRef, Health>>,
}

impl HealthTracking {
    /// How a model was at its last call; unknown before any.
    #[must_use]
    pub fn of(&self, model: &ModelRef) -> Health {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(model).cloned().unwrap_or_else(|| Health::unknown("not called yet"))
    }

    /// How every model that was called is, by `kind:id`.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<String, Health> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().map(|(model, health)| (model.to_string(), health.clone())).collect()
    }
}

impl Middleware for HealthTracking {
    fn around<'a>(&'a self, call: Call<'a>, next: Next<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            let ended = next.run(call.context).await;
            let health = match &ended {
                Ok(()) => Health { status: Status::Up, detail: None, meta: None },
                Err(error) => Health { status: Status::Down, detail: Some(error.to_string()), meta: None },
            };
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(call.model.clone(), health);
            ended
        })
    }
}

/// Passes every error through the caller's own function, to take out what must not be shown.
pub struct ErrorMapping {
    map: Box<dyn Fn(ModelError) -> ModelError + Send + Sync>,
}

impl ErrorMapping {
    /// Errors as `map` makes them.
    pub fn new(map: impl Fn(ModelError) -> ModelError + Send + Sync + 'static) -> Self {
        Self { map: Box::new(map) }
    }
}

impl fmt::Debug for ErrorMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErrorMapping")
    }
}

impl Middleware for ErrorMapping {
    fn around<'a>(&'a self, call: Call<'a>, next: Next<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move { next.run(call.context).await.map_err(&self.map) })
    }
}

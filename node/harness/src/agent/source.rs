//! Where a run's tools come from, apart from those the application makes itself.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::RunSpec;
use crate::model::BoxError;
use crate::stop::Stop;
use crate::tool::SharedTool;

/// A source as it is handed around.
pub type SharedToolSource = Arc<dyn ToolSource>;

/// Brings tools into a run: by opening a directory, or by connecting to servers.
pub trait ToolSource: Send + Sync {
    /// What it brings, for people.
    fn name(&self) -> &str;

    /// Opens it for one run. When the stop fires, or the future is dropped, what was opened until then is closed again.
    fn open<'a>(&'a self, spec: &'a RunSpec, stop: &'a Stop) -> BoxFuture<'a, Result<OpenTools, BoxError>>;
}

/// The tools of a source, open until [`close`](Self::close). Dropping them ends what they hold as well, without asking it.
#[derive(Default)]
pub struct OpenTools {
    /// The tools.
    pub tools: Vec<SharedTool>,
    closing: Option<BoxFuture<'static, ()>>,
}

impl OpenTools {
    /// Tools that need no closing.
    #[must_use]
    pub fn of(tools: Vec<SharedTool>) -> Self {
        Self { tools, closing: None }
    }

    /// Tools that are closed by `closing`, however their run ends.
    pub fn closed_by(tools: Vec<SharedTool>, closing: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { tools, closing: Some(Box::pin(closing)) }
    }

    /// Closes them.
    pub async fn close(self) {
        if let Some(closing) = self.closing {
            closing.await;
        }
    }
}

impl std::fmt::Debug for OpenTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        f.debug_struct("OpenTools").field("tools", &names).finish_non_exhaustive()
    }
}

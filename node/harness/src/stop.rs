//! Ending work early: one signal, and which of its causes came first.
//!
//! A [`Stop`] is held by whoever may end work and by whoever does it. Work that is stopped returns at once; it is never
//! waited for longer than [`IN_FLIGHT_GRACE`]. A stop is not an error: it becomes the
//! outcome of the run.
//!
//! Invariant: the first cause wins and never changes afterwards. A child fires with its parent, and never the other way
//! round.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::limits::{IN_FLIGHT_GRACE, TIMER_MAX};

/// Why work was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StopReason {
    /// Somebody who may do so ended it.
    #[error("canceled: {0}")]
    Canceled(String),
    /// Its time was over.
    #[error("the time limit of {0:?} was reached")]
    Deadline(Duration),
}

/// A signal that fires at most once. Clones are the same signal.
#[derive(Clone, Default)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    token: CancellationToken,
    reason: OnceLock<StopReason>,
    parent: Option<Stop>,
}

impl Stop {
    /// A signal of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A signal that fires when `token` is cancelled. Firing it does not cancel the token.
    #[must_use]
    pub fn from_token(token: &CancellationToken) -> Self {
        Self { shared: Arc::new(Shared { token: token.child_token(), ..Shared::default() }) }
    }

    /// A signal that fires with this one, for the same reason, and that may fire alone.
    #[must_use]
    pub fn child(&self) -> Self {
        let token = self.shared.token.child_token();
        Self { shared: Arc::new(Shared { token, reason: OnceLock::new(), parent: Some(self.clone()) }) }
    }

    /// Ends the work, in the caller's words. Does nothing if the signal has fired.
    pub fn cancel(&self, why: impl Into<String>) {
        self.fire(StopReason::Canceled(why.into()));
    }

    /// Ends the work for this reason. Does nothing if the signal has fired.
    pub fn fire(&self, reason: StopReason) {
        if !self.is_fired() {
            self.shared.reason.get_or_init(|| reason);
        }
        self.shared.token.cancel();
    }

    /// Whether the work is to end.
    #[must_use]
    pub fn is_fired(&self) -> bool {
        self.shared.token.is_cancelled()
    }

    /// Why the work is to end, once it is.
    #[must_use]
    pub fn reason(&self) -> Option<&StopReason> {
        if !self.is_fired() {
            return None;
        }
        let inherited = || match self.shared.parent.as_ref().and_then(|parent| parent.reason()) {
            Some(reason) => reason.clone(),
            None => StopReason::Canceled("by the caller".into()),
        };
        Some(self.shared.reason.get_or_init(inherited))
    }

    /// # Errors
    /// The reason, if the signal has fired.
    pub fn check(&self) -> Result<(), StopReason> {
        self.reason().map_or(Ok(()), |reason| Err(reason.clone()))
    }

    /// Waits for the signal.
    pub async fn fired(&self) -> StopReason {
        self.shared.token.cancelled().await;
        self.reason().cloned().unwrap_or_else(|| StopReason::Canceled("by the caller".into()))
    }

    /// Does work unless the signal fires: then the work is dropped where it stands. Work that is done counts, even when
    /// the signal fires in the same moment.
    ///
    /// # Errors
    /// The reason, when the work was dropped.
    pub async fn or_drop<T>(&self, work: impl Future<Output = T>) -> Result<T, StopReason> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            reason = self.fired() => Err(reason),
        }
    }

    /// Like [`or_drop`](Self::or_drop), for work that watches the signal itself: it gets
    /// [`IN_FLIGHT_GRACE`] to end in its own way before it is dropped.
    ///
    /// # Errors
    /// The reason, when the work was dropped.
    pub async fn or_give_up<T>(&self, work: impl Future<Output = T>) -> Result<T, StopReason> {
        let mut work = pin!(work);
        match self.or_drop(work.as_mut()).await {
            Ok(done) => Ok(done),
            Err(reason) => tokio::time::timeout(IN_FLIGHT_GRACE, work).await.map_err(|_elapsed| reason),
        }
    }

    /// Does work and fires [`StopReason::Deadline`] when it takes longer than `limit`. The work is not dropped: it has
    /// to watch the signal.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let limit = limit.min(TIMER_MAX);
        tokio::select! {
            biased;
            () = tokio::time::sleep(limit), if !limit.is_zero() => self.fire(StopReason::Deadline(limit)),
            () = std::future::ready(()), if limit.is_zero() => self.fire(StopReason::Deadline(limit)),
            done = &mut work => return done,
        }
        work.await
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("reason", &self.reason()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_wins_and_stays() {
        let caller = Stop::new();
        let run = caller.child();
        assert_eq!(run.reason(), None);

        caller.cancel("enough");
        run.fire(StopReason::Deadline(Duration::from_secs(1)));
        assert_eq!(run.reason(), Some(&StopReason::Canceled("enough".into())));
        caller.cancel("again");
        assert_eq!(caller.reason(), Some(&StopReason::Canceled("enough".into())));
    }

    #[test]
    fn a_child_that_fires_leaves_its_parent_alone() {
        let caller = Stop::new();
        caller.child().cancel("only this");
        assert!(!caller.is_fired());
    }

    #[test]
    fn a_plain_token_is_a_cause_too() {
        let token = CancellationToken::new();
        let stop = Stop::from_token(&token);
        token.cancel();
        assert!(matches!(stop.reason(), Some(StopReason::Canceled(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_ignores_the_signal_is_dropped_after_its_grace() {
        let stop = Stop::new();
        let started = tokio::time::Instant::now();
        let limit = Duration::from_secs(3);
        let ended = stop.within(limit, stop.or_give_up(std::future::pending::<()>())).await;
        assert_eq!(ended, Err(StopReason::Deadline(limit)));
        assert_eq!(started.elapsed(), limit + IN_FLIGHT_GRACE);
    }

    #[tokio::test]
    async fn no_time_at_all_fires_before_the_work_is_looked_at() {
        let stop = Stop::new();
        assert!(stop.within(Duration::ZERO, async { stop.is_fired() }).await);
    }
}

//! How a routine learns that exclusivity is over.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use thiserror::Error;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Deadline,
    fence::Fence,
    outcome::Outcomes,
    progress::{Progress, Step},
};

/// How long before the end of validity the signal fires: timers are late by up to a millisecond,
/// and the notice must not be.
pub(crate) const MARGIN: Duration = Duration::from_millis(2);

/// Tells the routine of [`using`](crate::Redlock::using) whether the lock is still its own.
///
/// It fires no later than the end of validity, measured on this process's clock, whatever the
/// network does. Every look at it compares the clock, so it is right even after the runtime was
/// blocked and no timer could run. Once fired it stays so.
///
/// Cheap to clone, and to hand to other tasks. After `using` has returned, every clone has fired.
///
/// [`check`](Self::check) before a write; or stop whatever is running:
///
/// ```no_run
/// # async fn export() {}
/// # async fn example(redlock: fredlock::Redlock) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// redlock
///     .using(["export"], Duration::from_secs(5), async |signal| {
///         tokio::select! {
///             () = export() => println!("done"),
///             reason = signal.aborted() => println!("stopped: {reason}"),
///         }
///     })
///     .await?;
/// # Ok(()) }
/// ```
///
/// On Linux and Android, time in which the machine was suspended counts: the first look after it says
/// lost, and who waits for the signal is told within a second. Elsewhere it counts where Rust's
/// `Instant` does (on Windows, but not on macOS).
#[derive(Debug, Clone)]
pub struct Signal(Arc<Lease>);

/// How exclusivity ended.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum LostReason {
    /// The validity ended before a quorum of masters extended it.
    #[error("the validity ended before a quorum extended it; the last answers: {outcomes}")]
    #[non_exhaustive]
    Expired {
        /// What every master answered last.
        outcomes: Outcomes,
    },
    /// So many masters said that it is not ours any more that no quorum can hold it.
    #[error("too many masters have no key of ours: {outcomes}")]
    #[non_exhaustive]
    Gone {
        /// What every master answered.
        outcomes: Outcomes,
    },
    /// It was held as long as [`Settings::hold_limit`](crate::Settings::hold_limit) allows.
    #[error("the hold limit is reached")]
    HoldLimit,
    /// [`Redlock::shutdown`](crate::Redlock::shutdown) was called, or the runtime on which the
    /// [`Redlock`](crate::Redlock) was built is gone: nothing extends the lock any more.
    #[error("shutting down")]
    ShutDown,
    /// The routine has ended, and the lock with it. Only clones that outlive it see this.
    #[error("the routine has ended")]
    Ended,
}

impl Signal {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Self(lease)
    }

    /// Is exclusivity over? Compares the clock.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.error().is_some()
    }

    /// Waits until exclusivity is over, and says how it ended.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub async fn aborted(&self) -> LostReason {
        let fired = self.0.fired();
        loop {
            let ends = match self.0.look() {
                Ok(ends) => ends,
                Err(reason) => return reason,
            };
            // An extension moves the end while this sleeps: then it looks again.
            tokio::select! {
                biased;
                () = fired.cancelled() => {}
                () = sleep_until(ends) => {}
            }
        }
    }

    /// Goes on only while the lock is ours.
    ///
    /// # Errors
    /// How exclusivity ended, once it has.
    pub fn check(&self) -> Result<(), LostReason> {
        self.0.look().map(drop)
    }

    /// How exclusivity ended; `None` while it lasts.
    #[must_use]
    pub fn error(&self) -> Option<LostReason> {
        self.0.look().err()
    }

    /// How much validity is left unless it is extended, less the 2 ms by which the signal fires
    /// early; zero once it has fired.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let ends = self.0.look().ok();
        ends.map_or(Duration::ZERO, |ends| {
            ends.saturating_duration_since(Instant::now())
        })
    }

    /// The number to hand to what the lock protects; [`Fence::NONE`] without fencing.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.0.fence
    }

    /// A token that is cancelled when the signal fires, for code that takes one. Cancelling it
    /// has no effect on the lock.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.0.fired().child_token()
    }
}

/// What the keeper and the signals share.
#[derive(Debug)]
pub(crate) struct Lease {
    fence: Fence,
    state: Mutex<State>,
    progress: Progress,
}

#[derive(Debug)]
struct State {
    ends: Deadline,
    /// What the masters answered last, for the reason.
    outcomes: Outcomes,
    lost: Option<LostReason>,
    /// Cancelled once it is lost; there only if somebody has asked for it.
    fired: Option<CancellationToken>,
}

impl Lease {
    pub(crate) fn new(fence: Fence, valid_until: &Deadline, outcomes: Outcomes) -> Self {
        let state = State {
            ends: valid_until.before(MARGIN),
            outcomes,
            lost: None,
            fired: None,
        };
        Self {
            fence,
            state: Mutex::new(state),
            progress: Progress::default(),
        }
    }

    /// The end as it stands, or how it ended.
    pub(crate) fn look(&self) -> Result<Instant, LostReason> {
        self.look_at(self.state()).map(|state| state.ends.at())
    }

    /// Moves the end, unless it has passed.
    pub(crate) fn extend(
        &self,
        valid_until: &Deadline,
        outcomes: Outcomes,
    ) -> Result<(), LostReason> {
        let mut state = self.look_at(self.state())?;
        state.ends = valid_until.before(MARGIN);
        state.outcomes = outcomes;
        Ok(())
    }

    /// Ends it, unless it has ended; gives the reason that counts.
    pub(crate) fn lose(&self, reason: LostReason) -> LostReason {
        match self.look_at(self.state()) {
            Err(earlier) => earlier,
            Ok(state) => self.end(state, reason),
        }
    }

    /// What the masters have answered so far in the round under way. Told at each answer: whoever
    /// looks first after the end gives the reason, and has only this to go by.
    pub(crate) fn note(&self, outcomes: &Outcomes) {
        self.state().outcomes.clone_from(outcomes);
    }

    /// How far its caller and its keeper have come.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What is cancelled when it is over, by whatever reason.
    fn fired(&self) -> CancellationToken {
        let mut state = self.state();
        let is_over = state.lost.is_some();
        let fired = state.fired.get_or_insert_default().clone();
        // Free before anybody is woken: whoever that is may look at once.
        drop(state);
        if is_over {
            fired.cancel();
        }
        fired
    }

    /// Compares the clock, under the lock: no extension can come after a look that has seen the
    /// end.
    fn look_at<'a>(
        &self,
        state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, LostReason> {
        match &state.lost {
            Some(reason) => Err(reason.clone()),
            None if !state.ends.is_over() => Ok(state),
            None => {
                let outcomes = state.outcomes.clone();
                Err(self.end(state, LostReason::Expired { outcomes }))
            }
        }
    }

    fn end(&self, mut state: MutexGuard<'_, State>, reason: LostReason) -> LostReason {
        state.lost = Some(reason.clone());
        let fired = state.fired.clone();
        // Free before anybody is woken: whoever that is may look at once.
        drop(state);
        if let Some(fired) = fired {
            fired.cancel();
        }
        self.progress.reach(Step::Over);
        reason
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn within(ms: u64) -> Deadline {
        let clock = crate::clock::Clock::default();
        clock.deadline(clock.now(), Duration::from_millis(ms))
    }

    fn lease(ms: u64) -> Lease {
        Lease::new(Fence::new(1), &within(ms), Outcomes::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_after_the_end_says_lost_though_no_timer_ran() {
        let lease = lease(100);
        assert!(lease.look().is_ok());
        advance(Duration::from_millis(100)).await;
        assert!(matches!(lease.look(), Err(LostReason::Expired { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn an_extension_after_the_end_revives_nothing() {
        let lease = lease(100);
        advance(Duration::from_millis(99)).await;
        assert!(lease.extend(&within(1_000), Outcomes::default()).is_err());
        assert!(lease.look().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_signal_fires_before_the_validity_ends_and_follows_extensions() {
        let started = Instant::now();
        let lease = Arc::new(lease(100));
        let signal = Signal::new(Arc::clone(&lease));
        let waiter = tokio::spawn(async move { signal.aborted().await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        lease.extend(&within(150), Outcomes::default()).unwrap();
        waiter.await.unwrap();
        let took = started.elapsed();
        assert!(
            took > Duration::from_millis(190) && took < Duration::from_millis(200),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_reason_stays() {
        let lease = lease(100);
        let token = Signal::new(Arc::new(lease)).0;
        token.lose(LostReason::HoldLimit);
        assert!(matches!(
            token.lose(LostReason::Ended),
            LostReason::HoldLimit
        ));
        assert!(matches!(token.look(), Err(LostReason::HoldLimit)));
    }

    #[tokio::test(start_paused = true)]
    async fn cancelling_a_token_of_the_user_fires_nothing() {
        let signal = Signal::new(Arc::new(lease(100)));
        signal.token().cancel();
        assert!(!signal.is_aborted());
        let token = signal.token();
        signal.0.lose(LostReason::HoldLimit);
        assert!(token.is_cancelled());
        assert!(signal.token().is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_asked_for_after_the_end_is_cancelled() {
        let signal = Signal::new(Arc::new(lease(100)));
        signal.0.lose(LostReason::Ended);
        assert!(signal.token().is_cancelled());
    }
}

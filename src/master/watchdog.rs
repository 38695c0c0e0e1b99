//! Notices a master that no longer answers: fred does not, under traffic.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// How many calls in a row must time out, and for how long nothing may have been answered, before
/// a master counts as hung.
const TIMEOUTS: u32 = 3;
const SILENCE: Duration = Duration::from_millis(250);
/// Counts timeouts, and holds calls back from a master that is hung: each would cost memory until
/// the connection drops.
#[derive(Debug, Default)]
pub(super) struct Watchdog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    timeouts: u32,
    /// When the earliest call was sent that has gone unanswered since the last answer.
    silent_since: Option<Instant>,
    /// Does the master count as hung?
    is_hung: bool,
}

impl Watchdog {
    /// May a call be sent?
    pub(super) fn admits(&self) -> bool {
        !self.state().is_hung
    }

    /// The master answered, if only with an error; or its connection is new.
    pub(super) fn answered(&self) {
        *self.state() = State::default();
    }

    /// A call timed out that was sent at `sent`. True, once, if it should be asked now whether it
    /// answers at all: timeouts of calls may just be shorter than the way there.
    pub(super) fn timed_out(&self, sent: Instant) -> bool {
        let mut state = self.state();
        let since = *state.silent_since.get_or_insert(sent);
        state.timeouts += 1;
        let is_silent = since.elapsed() >= SILENCE;
        let is_news = !state.is_hung && state.timeouts >= TIMEOUTS && is_silent;
        state.is_hung |= is_news;
        is_news
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    async fn time_out(watchdog: &Watchdog) -> bool {
        let sent = Instant::now();
        advance(Duration::from_millis(100)).await;
        watchdog.timed_out(sent)
    }

    #[tokio::test(start_paused = true)]
    async fn three_timeouts_in_a_row_raise_suspicion_once() {
        let watchdog = Watchdog::default();
        assert!(!time_out(&watchdog).await);
        assert!(!time_out(&watchdog).await);
        watchdog.answered();
        assert!(!time_out(&watchdog).await);
        assert!(!time_out(&watchdog).await);
        assert!(watchdog.admits());
        assert!(time_out(&watchdog).await);
        assert!(!time_out(&watchdog).await, "once is enough");
    }

    #[tokio::test(start_paused = true)]
    async fn many_timeouts_at_one_moment_are_no_hang() {
        let watchdog = Watchdog::default();
        let sent = Instant::now();
        advance(Duration::from_millis(50)).await;
        assert!((0..100).all(|_| !watchdog.timed_out(sent)));
        assert!(watchdog.admits());
    }

    #[tokio::test(start_paused = true)]
    async fn a_hung_master_gets_no_calls_until_it_answers() {
        let watchdog = Watchdog::default();
        for _ in 0..3 {
            time_out(&watchdog).await;
        }
        assert!(!watchdog.admits());
        advance(Duration::from_secs(60)).await;
        assert!(!watchdog.admits());
        watchdog.answered();
        assert!(watchdog.admits());
    }
}

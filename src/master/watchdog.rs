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
/// How often a hung master is tried.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// Counts timeouts, and holds calls back from a master that is hung: each would cost memory until
/// the connection drops.
#[derive(Debug, Default)]
pub(super) struct Watchdog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    timeouts: u32,
    /// When the earliest call was sent that has gone unanswered since the last answer.
    silent_since: Option<Instant>,
    /// Set while the master counts as hung.
    next_probe: Option<Instant>,
}

impl Watchdog {
    /// May a call be sent? To a hung master, one from time to time.
    pub(super) fn admits(&self) -> bool {
        let mut state = self.state();
        let Some(probe) = state.next_probe else {
            return true;
        };
        let now = Instant::now();
        let is_due = now >= probe;
        if is_due {
            state.next_probe = Some(now + PROBE_INTERVAL);
        }
        is_due
    }

    /// The master answered, if only with an error; or its connection is new.
    pub(super) fn answered(&self) {
        *self.state() = State::default();
    }

    /// A call timed out that was sent at `sent`. True if the connection should be given up now.
    pub(super) fn timed_out(&self, sent: Instant) -> bool {
        let mut state = self.state();
        let since = *state.silent_since.get_or_insert(sent);
        state.timeouts += 1;
        let now = Instant::now();
        let is_hung = state.timeouts >= TIMEOUTS && now.duration_since(since) >= SILENCE;
        if is_hung && state.next_probe.is_none() {
            state.next_probe = Some(now + PROBE_INTERVAL);
            return true;
        }
        false
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
    async fn three_timeouts_in_a_row_give_the_connection_up_once() {
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
    async fn a_hung_master_is_probed_now_and_then_and_trusted_after_an_answer() {
        let watchdog = Watchdog::default();
        for _ in 0..3 {
            time_out(&watchdog).await;
        }
        assert!(!watchdog.admits());
        advance(PROBE_INTERVAL).await;
        assert!(watchdog.admits());
        assert!(!watchdog.admits(), "one probe for each interval");
        watchdog.answered();
        assert!(watchdog.admits() && watchdog.admits());
    }
}

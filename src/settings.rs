//! What can be set for all calls, or for one.

use std::time::Duration;

use crate::{
    core::whole_ms, error::TTL_MAX, label::OwnerLabel, master::CALL_TIMEOUT_MIN, retry::Retry,
};

/// How a [`Redlock`](crate::Redlock) acquires, extends and waits.
///
/// Set for all calls by [`Builder::settings`](crate::Builder::settings), or for some by
/// [`Redlock::with`](crate::Redlock::with):
///
/// ```no_run
/// # async fn example(redlock: fredlock::Redlock) -> Result<(), fredlock::AcquireError> {
/// use std::time::Duration;
///
/// let patient = redlock.with(|settings| settings.wait_for(Duration::from_secs(30)));
/// let lock = patient.acquire(["invoice:4821"], Duration::from_secs(5)).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub(crate) busy: Retry,
    pub(crate) no_quorum: Retry,
    pub(crate) wait_limit: Option<Duration>,
    command_timeout: Option<Duration>,
    extension_threshold: Option<Duration>,
    pub(crate) hold_limit: Option<Duration>,
    pub(crate) abort_mode: AbortMode,
    pub(crate) owner_label: Option<OwnerLabel>,
}

/// What [`using`](crate::Redlock::using) does with its routine once exclusivity is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AbortMode {
    /// The signal fires, and the routine decides: it is run to its end, and its output is returned.
    #[default]
    Cooperative,
    /// The routine's future is dropped at its next await; there is no output.
    DropRoutine,
}

impl Settings {
    /// When to try again after any failed attempt: sets both [`retry_busy`](Self::retry_busy) and
    /// [`retry_no_quorum`](Self::retry_no_quorum).
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        self.retry_busy(retry).retry_no_quorum(retry)
    }

    /// When to try again while somebody else holds a resource. Defaults to [`Retry::default`]: 10
    /// times, 200 ms ± 100 ms apart.
    #[must_use]
    pub fn retry_busy(self, retry: Retry) -> Self {
        Self {
            busy: retry,
            ..self
        }
    }

    /// When to try again while too few masters answer, or too late for the ttl. Counted apart from
    /// [`retry_busy`](Self::retry_busy). Defaults to [`Retry::default`].
    #[must_use]
    pub fn retry_no_quorum(self, retry: Retry) -> Self {
        Self {
            no_quorum: retry,
            ..self
        }
    }

    /// Tries again for as long as `limit`: sets [`wait_limit`](Self::wait_limit), and makes both
    /// retry policies unlimited.
    #[must_use]
    pub fn wait_for(self, limit: Duration) -> Self {
        let (busy, no_quorum) = (self.busy.unlimited(), self.no_quorum.unlimited());
        self.retry_busy(busy)
            .retry_no_quorum(no_quorum)
            .wait_limit(limit)
    }

    /// The longest that an acquisition may take in all, with every attempt and pause; the retry
    /// policies may end it sooner. It ends within the limit, also while a majority of masters hangs,
    /// and begins no further attempt that could not be answered in time. It holds in the queue of the
    /// process too. Defaults to none.
    #[must_use]
    pub fn wait_limit(self, limit: impl Into<Option<Duration>>) -> Self {
        Self {
            wait_limit: limit.into(),
            ..self
        }
    }

    /// How long each command to each master may take; from 1 ms. Defaults to the smaller of
    /// 100 ms and a tenth of the ttl, but never below 5 ms; `None` is that default.
    ///
    /// A lock keeps the timeout that it was acquired with. An acquisition and an extension wait no
    /// longer than validity lasts, whatever is set here.
    #[must_use]
    pub fn command_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self {
            command_timeout: timeout.into(),
            ..self
        }
    }

    /// How much validity is left when [`using`](crate::Redlock::using) extends its lock, at the latest:
    /// the time until then is shortened by up to a half, at random, so that locks that were taken
    /// together are not extended together. Less than
    /// one round needs counts as that (the command timeout, or 100 ms if that is shorter, and 5 ms);
    /// more than two thirds of the ttl count as those. Defaults to 500 ms or a third of the ttl,
    /// whichever is longer; `None` is that default.
    #[must_use]
    pub fn extension_threshold(self, threshold: impl Into<Option<Duration>>) -> Self {
        Self {
            extension_threshold: threshold.into(),
            ..self
        }
    }

    /// The longest that [`using`](crate::Redlock::using) holds a lock, from its acquisition. Then it
    /// extends no more, and the signal fires with
    /// [`LostReason::HoldLimit`](crate::LostReason::HoldLimit). The lock is released when the
    /// routine has ended, or ends with its ttl. Defaults to none.
    #[must_use]
    pub fn hold_limit(self, limit: impl Into<Option<Duration>>) -> Self {
        Self {
            hold_limit: limit.into(),
            ..self
        }
    }

    /// What becomes of the routine of [`using`](crate::Redlock::using) once exclusivity is lost.
    /// Defaults to [`AbortMode::Cooperative`].
    #[must_use]
    pub fn abort_mode(self, mode: AbortMode) -> Self {
        Self {
            abort_mode: mode,
            ..self
        }
    }

    /// What the holder calls itself, for whoever looks at the lock: see [`OwnerLabel`]. Defaults to
    /// none.
    #[must_use]
    pub fn owner_label(self, label: impl Into<Option<OwnerLabel>>) -> Self {
        Self {
            owner_label: label.into(),
            ..self
        }
    }

    /// The timeout of a command for a lock with this ttl.
    pub(crate) fn command_timeout_for(&self, ttl: Duration) -> Duration {
        let by_ttl = (ttl / 10).clamp(Duration::from_millis(5), Duration::from_millis(100));
        self.command_timeout
            .unwrap_or(by_ttl)
            .clamp(CALL_TIMEOUT_MIN, TTL_MAX)
    }

    /// The timeout of a question beside the protocol.
    pub(crate) fn question_timeout(&self) -> Duration {
        self.command_timeout_for(Duration::from_secs(1))
    }

    /// The validity left at which a lock with this ttl is extended.
    pub(crate) fn extension_threshold_for(&self, ttl: Duration) -> Duration {
        let default = Duration::from_millis(500).max(ttl / 3);
        // Time for one round at least, or no lock would live past its first ttl.
        let round = self
            .command_timeout_for(ttl)
            .min(Duration::from_millis(100));
        let least = round + Duration::from_millis(5);
        let threshold = self.extension_threshold.unwrap_or(default).max(least);
        threshold.min(ttl * 2 / 3)
    }
}

/// A ttl as masters keep it: in whole milliseconds.
pub(crate) fn whole_ttl(ttl: Duration) -> Result<Duration, crate::error::InvalidTtl> {
    use crate::error::{InvalidTtl, TTL_MIN};
    if (TTL_MIN..=TTL_MAX).contains(&ttl) {
        Ok(Duration::from_millis(whole_ms(ttl)))
    } else {
        Err(InvalidTtl { ttl, guard: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_follow_the_ttl() {
        let settings = Settings::default();
        let ms = Duration::from_millis;
        for (ttl, timeout, threshold) in [
            (10, 5, 6),
            (500, 50, 333),
            (3_000, 100, 1_000),
            (30_000, 100, 10_000),
        ] {
            assert_eq!(
                settings.command_timeout_for(ms(ttl)),
                ms(timeout),
                "ttl {ttl}"
            );
            assert_eq!(
                settings.extension_threshold_for(ms(ttl)).as_millis(),
                threshold,
                "ttl {ttl}"
            );
        }
    }

    #[test]
    fn a_threshold_leaves_time_for_a_round() {
        let ms = Duration::from_millis;
        let settings = Settings::default().extension_threshold(Duration::ZERO);
        assert_eq!(settings.extension_threshold_for(ms(1_000)), ms(105));
        assert_eq!(settings.extension_threshold_for(ms(10)).as_millis(), 6);
    }

    #[test]
    fn a_ttl_out_of_range_is_refused() {
        let ms = Duration::from_millis;
        for ttl in [
            Duration::ZERO,
            Duration::from_micros(999),
            Duration::MAX,
            crate::error::TTL_MAX + ms(1),
        ] {
            assert_eq!(whole_ttl(ttl).unwrap_err().ttl, ttl);
        }
        assert_eq!(whole_ttl(Duration::from_micros(1_999)), Ok(ms(1)));
        assert!(whole_ttl(crate::error::TTL_MAX).is_ok());
    }

    #[test]
    fn a_command_timeout_of_any_size_is_within_what_the_clock_can_tell() {
        let endless = Settings::default().command_timeout(Duration::MAX);
        assert_eq!(endless.command_timeout_for(TTL_MAX), TTL_MAX);
    }
}

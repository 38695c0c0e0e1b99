//! Time: the time of day, which is asked for here alone, points in time, and deadlines that run on
//! while the machine is suspended.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

/// Microseconds since 1970; 0 for a clock that stands before it.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn wall_clock() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Later than any timer: a point in time that stands for "never" must not overflow.
pub(crate) const FAR: Duration = Duration::from_secs(200 * 365 * 86_400);

/// So long from now. Callers may say `Duration::MAX` for "without end", and `Instant + Duration`
/// panics beyond what the clock can tell.
pub(crate) fn after(duration: Duration) -> Instant {
    let now = Instant::now();
    now + duration.min(FAR)
}

/// Tells time in which the machine was suspended from time in which it was not.
///
/// `Instant` stands still while a Linux machine is suspended, and the masters' clocks do not. It is
/// kept for all that waits, since timers run by it and tests can pause it; what a suspension adds
/// is asked for here.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

/// A moment on both: what `Instant` shows, and how long the machine had been suspended by then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    at: Instant,
    suspended: Duration,
}

/// The end of something, which comes nearer while the machine is suspended too.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    /// If the machine is not suspended from now on.
    end: Moment,
    clock: Clock,
}

/// Less than this is not a suspension, but two clocks that are not read at the same time.
pub(crate) const NOISE: Duration = Duration::from_millis(1);

impl Default for Clock {
    fn default() -> Self {
        Self(Arc::new(suspended_so_far))
    }
}

impl Clock {
    /// With another way to tell how long the machine has been suspended in all; only differences
    /// count.
    #[cfg(feature = "testing")]
    pub(crate) fn suspended_by(told: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    /// A suspension during the call counts as one after it: the safe side for a start.
    pub(crate) fn now(&self) -> Moment {
        let suspended = (self.0)();
        Moment {
            at: Instant::now(),
            suspended,
        }
    }

    /// So long after the moment.
    pub(crate) fn deadline(&self, moment: Moment, after: Duration) -> Deadline {
        let end = Moment {
            at: moment.at + after,
            ..moment
        };
        Deadline {
            end,
            clock: self.clone(),
        }
    }
}

impl Deadline {
    /// When it is over, if the machine is not suspended since the moment that it is counted from.
    pub(crate) fn planned(&self) -> Instant {
        self.end.at
    }

    /// When it is over, if the machine is not suspended any more: for timers.
    pub(crate) fn at(&self) -> Instant {
        let slept = (self.clock.0)().saturating_sub(self.end.suspended);
        if slept < NOISE {
            return self.end.at;
        }
        // Before the first moment that the clock can tell is long over.
        self.end.at.checked_sub(slept).unwrap_or_else(Instant::now)
    }

    /// How long until it is over; zero from then on.
    pub(crate) fn left(&self) -> Duration {
        // First: a suspension between the two then counts.
        let now = Instant::now();
        self.at().saturating_duration_since(now)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// The later one.
    pub(crate) fn or_later(self, other: Self) -> Self {
        if other.at() > self.at() { other } else { self }
    }

    /// So much before it.
    pub(crate) fn before(&self, margin: Duration) -> Self {
        let end = Moment {
            at: self.end.at.checked_sub(margin).unwrap_or(self.end.at),
            ..self.end
        };
        Self {
            end,
            clock: self.clock.clone(),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// By how much the clock that counts suspensions is ahead of the one that does not, which is that
/// of `Instant`. Never more than it is.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn suspended_so_far() -> Duration {
    use nix::time::{ClockId, clock_gettime};

    /// So close to each other are the two readings, unless this thread was interrupted.
    const CLOSE: Duration = Duration::from_micros(200);
    const TRIES: usize = 8;

    // Neither fails on a Linux that Rust supports; without them there is nothing to tell.
    let read = |id| clock_gettime(id).map_or(Duration::ZERO, Duration::from);
    let (mut best, mut ahead) = (Duration::MAX, Duration::ZERO);
    for _ in 0..TRIES {
        let before = read(ClockId::CLOCK_MONOTONIC);
        let boot = read(ClockId::CLOCK_BOOTTIME);
        let after = read(ClockId::CLOCK_MONOTONIC);
        let apart = after.saturating_sub(before);
        if apart < best {
            (best, ahead) = (apart, boot.saturating_sub(after));
        }
        if best < CLOSE {
            break;
        }
    }
    ahead
}

/// Only what `Instant` counts: nobody here can tell more.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn suspended_so_far() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::time::advance;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn clock() -> (Clock, Arc<AtomicU64>) {
        let slept = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&slept);
        let clock = Clock(Arc::new(move || {
            Duration::from_millis(5_000 + told.load(Ordering::Relaxed))
        }));
        (clock, slept)
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_comes_nearer_while_the_machine_is_suspended() {
        let (clock, slept) = clock();
        let deadline = clock.deadline(clock.now(), 100 * MS);
        assert_eq!(deadline.left(), 100 * MS);
        advance(30 * MS).await;
        slept.store(40, Ordering::Relaxed);
        assert_eq!(deadline.left(), 30 * MS);
        assert_eq!(deadline.before(10 * MS).left(), 20 * MS);
        slept.store(70, Ordering::Relaxed);
        assert!(deadline.is_over());
        // One that begins afterwards has nothing to do with it.
        let later = clock.deadline(clock.now(), 50 * MS);
        assert_eq!(later.left(), 50 * MS);
        assert_eq!(deadline.or_later(later).left(), 50 * MS);
        slept.store(1 << 40, Ordering::Relaxed);
        let long_over = clock.deadline(
            Moment {
                suspended: Duration::ZERO,
                ..clock.now()
            },
            50 * MS,
        );
        assert!(long_over.is_over());
    }

    #[test]
    fn this_machine_was_not_suspended_while_two_clocks_were_read() {
        let clock = Clock::default();
        let deadline = clock.deadline(clock.now(), Duration::from_secs(3600));
        for _ in 0..10_000 {
            assert_eq!(deadline.at(), deadline.end.at);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn on_linux_the_suspensions_of_this_machine_are_what_its_two_clocks_differ_by() {
        use nix::time::{ClockId, clock_gettime};
        let read = |id| Duration::from(clock_gettime(id).unwrap());
        let least = read(ClockId::CLOCK_BOOTTIME).saturating_sub(read(ClockId::CLOCK_MONOTONIC));
        let told = suspended_so_far();
        assert!(told.abs_diff(least) < Duration::from_secs(1), "{told:?}");
        // `Instant` is the second of them, without which all of this would count twice or never.
        #[expect(clippy::disallowed_methods, reason = "to compare it")]
        let (instant, monotonic) = (std::time::Instant::now(), read(ClockId::CLOCK_MONOTONIC));
        let text = format!("{instant:?}");
        let seconds = format!("tv_sec: {}", monotonic.as_secs());
        assert!(
            text.contains(&seconds) || monotonic.subsec_millis() < 5,
            "{text}"
        );
    }
}

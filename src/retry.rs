//! When to try again: a value that yields delays.

use std::{iter, time::Duration};

use crate::entropy::Entropy;

/// How often, and after which pauses, an acquisition is tried again.
///
/// ```
/// use fredlock::Retry;
/// use std::time::Duration;
///
/// let patient = Retry::default().unlimited().exponential(Duration::from_secs(5));
/// let once = Retry::none();
/// # assert_eq!(once.delays().count(), 0);
/// # assert_eq!(patient.delays().take(100).count(), 100);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    count: RetryCount,
    delay: Duration,
    jitter: Duration,
    delay_max: Option<Duration>,
}

/// How often an acquisition is tried again after its first attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryCount {
    /// So many times; 0 makes one attempt in all.
    Limited(u32),
    /// For ever, or until the wait limit.
    Unlimited,
}

impl Retry {
    /// One attempt and no other, so no pause either.
    #[must_use]
    pub fn none() -> Self {
        Self::default().count(0)
    }

    /// How often to try again: from 0 (one attempt in all). Defaults to 10.
    #[must_use]
    pub fn count(self, count: u32) -> Self {
        Self {
            count: RetryCount::Limited(count),
            ..self
        }
    }

    /// Tries again for ever, or until the wait limit
    /// ([`Settings::wait_limit`](crate::Settings::wait_limit)).
    #[must_use]
    pub fn unlimited(self) -> Self {
        Self {
            count: RetryCount::Unlimited,
            ..self
        }
    }

    /// The pause between two attempts, before jitter; never below 1 ms. Defaults to 200 ms.
    ///
    /// Where masters tell that the lock is free, or said when it will be, an attempt is made sooner.
    /// It does not use up a pause, so that the pauses together are the least time that is waited; at
    /// most 16 such attempts are made in one pause.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// The most that is added to each pause, or taken off it, at random (uniformly), so that
    /// clients that collided part. Defaults to 100 ms.
    #[must_use]
    pub fn jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// Doubles the pause with every attempt, up to `delay_max` before jitter; a `delay_max` below
    /// [`delay`](Self::delay) counts as that. Defaults to a constant pause.
    #[must_use]
    pub fn exponential(self, delay_max: Duration) -> Self {
        Self {
            delay_max: Some(delay_max),
            ..self
        }
    }

    /// The pauses, one for each further attempt, with their jitter.
    pub fn delays(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        let (retry, entropy) = (*self, Entropy::default());
        self.bases()
            .map(move |base| retry.spread(base, entropy.fraction()))
    }

    pub(crate) fn retries(&self) -> RetryCount {
        self.count
    }

    /// The pauses before jitter.
    pub(crate) fn bases(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        let delay = self.delay;
        let longest = self.delay_max.map_or(delay, |max| max.max(delay));
        let bases = iter::successors(Some(delay), move |&last| {
            Some(longest.min(last.saturating_mul(2)))
        });
        bases.take(match self.count {
            RetryCount::Limited(count) => count as usize,
            RetryCount::Unlimited => usize::MAX,
        })
    }

    /// A pause with its jitter; `fraction` is at random, from 0 to 1.
    pub(crate) fn spread(&self, base: Duration, fraction: f64) -> Duration {
        // Below 1 by more than the rounding of the product: an endless jitter must not overflow.
        let at_random = self.jitter.saturating_mul(2).mul_f64(fraction.min(0.999));
        base.saturating_add(at_random)
            .saturating_sub(self.jitter)
            .max(DELAY_MIN)
    }
}

/// Follows node-redlock: 10 retries, 200 ms apart, give or take 100 ms.
impl Default for Retry {
    fn default() -> Self {
        Self {
            count: RetryCount::Limited(10),
            delay: Duration::from_millis(200),
            jitter: Duration::from_millis(100),
            delay_max: None,
        }
    }
}

/// The shortest pause: a busy loop would load the masters and help nobody.
const DELAY_MIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_delay_is_within_the_jitter_and_their_number_is_the_count(
            count in 0u32..50, delay in 0u64..10_000, jitter in 0u64..10_000, max in 0u64..100_000,
        ) {
            let [delay, jitter, max] = [delay, jitter, max].map(Duration::from_millis);
            let retry = Retry::none().count(count).delay(delay).jitter(jitter).exponential(max);
            let delays: Vec<_> = retry.delays().collect();
            prop_assert_eq!(delays.len(), count as usize);
            for delay_seen in delays {
                prop_assert!(delay_seen >= DELAY_MIN.max(delay.saturating_sub(jitter)));
                prop_assert!(delay_seen <= (max.max(delay) + jitter).max(DELAY_MIN));
            }
        }
    }

    #[test]
    fn durations_of_every_size_are_taken() {
        let retry = Retry::default()
            .delay(Duration::MAX)
            .jitter(Duration::from_secs(1 << 60))
            .exponential(Duration::MAX);
        assert_eq!(retry.delays().count(), 10);
    }

    #[test]
    fn an_exponential_pause_doubles_up_to_its_limit() {
        let retry = Retry::none()
            .count(5)
            .jitter(Duration::ZERO)
            .exponential(Duration::from_secs(1));
        let ms: Vec<_> = retry.delays().map(|d| d.as_millis()).collect();
        assert_eq!(ms, [200, 400, 800, 1000, 1000]);
    }
}

//! By how much another clock differs from ours, as far as a round trip lets it be known.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One reading of a master's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Offset {
    /// How much it is ahead of ours, in seconds; negative if behind.
    pub(super) seconds: f64,
    /// By how much that may be wrong: half the round trip, either way.
    pub(super) error: f64,
}

impl Offset {
    /// From our time before the question, what the master said, and our time after its answer: as
    /// NTP does it (RFC 5905), with a master that takes no time to answer.
    pub(super) fn of(before: Duration, theirs: Duration, after: Duration) -> Self {
        let middle = f64::midpoint(before.as_secs_f64(), after.as_secs_f64());
        Self {
            seconds: theirs.as_secs_f64() - middle,
            error: (after.as_secs_f64() - before.as_secs_f64()).abs() / 2.0,
        }
    }

    /// How much the two clocks differ for certain.
    pub(super) fn apart_from(&self, other: &Self) -> f64 {
        ((self.seconds - other.seconds).abs() - self.error - other.error).max(0.0)
    }

    /// Our own clock.
    pub(super) const OURS: Self = Self {
        seconds: 0.0,
        error: 0.0,
    };
}

/// Our time of day, since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock itself is what is looked at"
)]
pub(super) fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_way_may_have_taken_is_no_difference() {
        let s = Duration::from_secs_f64;
        let offset = Offset::of(s(100.0), s(103.0), s(104.0));
        assert_eq!(
            offset,
            Offset {
                seconds: 1.0,
                error: 2.0
            }
        );
        assert!(offset.apart_from(&Offset::OURS) == 0.0);
        let behind = Offset::of(s(100.0), s(90.0), s(100.0));
        assert!((behind.apart_from(&offset) - 9.0).abs() < 1e-9);
    }
}

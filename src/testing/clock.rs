//! The clock of one in-memory master: it may run fast or slow, and jump.

use std::time::Duration;

use tokio::time::Instant;

/// What the clock of a master shows. Keys expire by it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// At this moment of true time …
    since: Instant,
    /// … it showed this …
    shown: Duration,
    /// … and has run at this rate since.
    rate: f64,
}

/// Far enough from zero to jump back.
const START: Duration = Duration::from_secs(1 << 32);

impl Clock {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            shown: START,
            rate: 1.0,
        }
    }

    /// What it shows at a moment that is not before its last change.
    pub(super) fn at(&self, moment: Instant) -> Duration {
        let passed = moment.saturating_duration_since(self.since);
        // Exact while it runs true, so that a ttl ends on the nanosecond.
        let passed = if (self.rate - 1.0).abs() < f64::EPSILON {
            passed
        } else {
            passed.mul_f64(self.rate)
        };
        self.shown + passed
    }

    pub(super) fn set_rate(&mut self, now: Instant, rate: f64) {
        *self = Self {
            since: now,
            shown: self.at(now),
            rate,
        };
    }

    pub(super) fn jump(&mut self, now: Instant, forward: Duration, back: Duration) {
        let shown = (self.at(now) + forward).saturating_sub(back);
        *self = Self {
            since: now,
            shown,
            ..*self
        };
    }
}

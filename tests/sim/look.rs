//! What a client looks at, while it believes that it holds a lock and after each call.

use std::time::Duration;

use fredlock::AcquireError;
use tokio::time::Instant;

use crate::{client::Client, history::Holding, hold::Hold, keys::Keys};

/// A call may end so much later than its bound: timers are a millisecond late.
const SLACK: Duration = Duration::from_millis(4);

impl Client {
    pub(crate) fn open(
        &self,
        set: &[usize],
        fence: u64,
        begun: Instant,
        remaining: Duration,
    ) -> Holding {
        let now = self.history.now();
        self.history.hold(Hold {
            client: self.number,
            resources: set.to_vec(),
            fence,
            begun: self.history.at(begun),
            from: now,
            until: now + remaining,
            ended: None,
        })
    }

    /// The client looks whether it still holds: then it does on the masters, and may write.
    pub(crate) fn look(
        &self,
        keys: &Keys,
        hold: &Holding,
        remaining: Option<Duration>,
        fence: u64,
        set: &[usize],
    ) {
        let Some(remaining) = remaining else {
            return hold.ended("looked: not valid any more");
        };
        hold.valid(remaining);
        self.assert_held(keys, "while its holder believes so");
        if self.plan.fenced
            && self.plan.weather.keeps_exclusion()
            && !self.history.write(set, fence)
        {
            self.history.violation(format!(
                "the write of a valid holder was refused: fence {fence}"
            ));
        }
    }

    pub(crate) fn assert_held(&self, keys: &Keys, when: &str) {
        if !self.plan.weather.keeps_keys() {
            return;
        }
        // What a wipe within the budget takes away, the others still exclude.
        let wiped = match self.plan.weather {
            crate::plan::Weather::WipesInBudget => self.plan.wipes_survived(),
            _ => 0,
        };
        let held = keys.count(&self.masters);
        if held + wiped < keys.quorum {
            self.history.violation(format!(
                "client {} is held by {held} masters only, {when}",
                self.number
            ));
        }
    }

    /// The call ended by then, unless the client was paused: then it is late by that.
    pub(crate) fn assert_within(&self, begun: Instant, limit: Duration, what: &str) {
        let late = begun.elapsed().saturating_sub(limit);
        if late > SLACK && self.history.was_awake(self.number, begun) {
            self.history
                .violation(format!("{what} ended {late:?} after its bound"));
        }
    }

    pub(crate) fn note_failure(&self, error: &AcquireError) {
        self.history
            .note(format!("client {}: {error}", self.number));
    }
}

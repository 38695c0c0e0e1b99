//! Counting votes and time: no async, no clock, no I/O.

use std::time::Duration;

use crate::outcome::{Answer, MasterError};

/// How many masters there are, and how many of them must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quorum {
    pub(crate) masters: usize,
    pub(crate) needed: usize,
    /// A wrong client counts no master that is not connected.
    pub(crate) of_connected: bool,
}

impl Quorum {
    /// N / 2 + 1 of all configured masters, connected or not: any two quorums share a master.
    pub(crate) fn majority(masters: usize) -> Self {
        Self {
            masters,
            needed: masters / 2 + 1,
            of_connected: false,
        }
    }

    /// So many of them; `None` if that is no majority, or more than there are.
    pub(crate) fn of(masters: usize, needed: usize) -> Option<Self> {
        let majority = Self::majority(masters);
        (majority.needed..=masters)
            .contains(&needed)
            .then_some(Self { needed, ..majority })
    }

    /// Is a quorum out of reach once `lost` masters have not agreed?
    fn is_out_of_reach(self, lost: usize) -> bool {
        self.masters - lost < self.needed
    }
}

/// What a round has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Both are possible still.
    Pending,
    /// A quorum agreed.
    Won,
    /// A quorum would agree to a larger fence: nobody holds the lock there.
    Raise,
    /// No quorum can agree any more, whatever the rest answers: masters refused.
    Refused,
    /// No quorum can agree any more: too many masters did not answer, or with an error.
    Unreachable,
}

/// Counts the answers of one round.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    quorum: Quorum,
    agreed: usize,
    stale: usize,
    refused: usize,
    failed: usize,
    /// In quarantine: neither a vote nor a proof of anything.
    quarantined: usize,
}

impl Tally {
    pub(crate) fn new(quorum: Quorum) -> Self {
        Self {
            quorum,
            agreed: 0,
            stale: 0,
            refused: 0,
            failed: 0,
            quarantined: 0,
        }
    }

    /// Counts the answer of one master. Each master is counted once.
    pub(crate) fn count(&mut self, answer: &Answer) {
        match answer {
            Answer::Granted { .. } | Answer::Extended | Answer::Released => self.agreed += 1,
            Answer::Stale { .. } => self.stale += 1,
            Answer::Busy { .. } | Answer::Missing | Answer::NotHeld => self.refused += 1,
            Answer::Failed(MasterError::NotConnected(_))
                if self.quorum.of_connected && self.quorum.masters > 1 =>
            {
                self.quorum = Quorum {
                    of_connected: true,
                    ..Quorum::majority(self.quorum.masters - 1)
                };
            }
            Answer::Failed(_) => self.failed += 1,
            Answer::Quarantined { .. } => self.quarantined += 1,
            Answer::Pending => return,
        }
        debug_assert!(
            self.counted() <= self.quorum.masters,
            "a master voted twice"
        );
    }

    /// Did so many masters refuse that no quorum can agree, whatever the others would have said?
    /// `None` while it may still come to that. What failed proves nothing.
    pub(crate) fn is_lost(&self) -> Option<bool> {
        let could_refuse = self.quorum.masters - self.agreed - self.stale - self.absent();
        if self.quorum.is_out_of_reach(self.refused) {
            Some(true)
        } else if self.quorum.is_out_of_reach(could_refuse) {
            None
        } else {
            Some(false)
        }
    }

    /// How many more answers it takes at least until it may be decided: 1 or more.
    pub(crate) fn answers_to_verdict(&self) -> usize {
        let quorum = self.quorum;
        if quorum.of_connected {
            return 1;
        }
        let to_agree = quorum.needed.saturating_sub(self.agreed + self.stale);
        let without = self.absent() + self.refused;
        let to_refuse = (quorum.masters - quorum.needed + 1).saturating_sub(without);
        to_agree.min(to_refuse).max(1)
    }

    fn counted(&self) -> usize {
        self.agreed + self.stale + self.refused + self.absent()
    }

    /// How many have no vote.
    fn absent(&self) -> usize {
        self.failed + self.quarantined
    }

    /// As soon as it is certain either way.
    pub(crate) fn verdict(&self) -> Verdict {
        let quorum = self.quorum;
        if self.agreed >= quorum.needed {
            Verdict::Won
        } else if quorum.is_out_of_reach(self.absent()) {
            // Even if every other master agreed: this is not about who holds the lock.
            Verdict::Unreachable
        } else if quorum.is_out_of_reach(self.absent() + self.refused) {
            Verdict::Refused
        } else if self.stale > 0 && self.agreed + self.stale >= quorum.needed {
            Verdict::Raise
        } else {
            Verdict::Pending
        }
    }
}

/// Would there be enough masters, if none were in quarantine?
pub(crate) fn is_for_quarantine<'a>(
    quorum: Quorum,
    answers: impl Iterator<Item = &'a Answer>,
) -> bool {
    let (mut failed, mut quarantined) = (0, 0);
    for answer in answers {
        match answer {
            Answer::Failed(_) => failed += 1,
            Answer::Quarantined { .. } => quarantined += 1,
            _ => {}
        }
    }
    quarantined > 0 && !quorum.is_out_of_reach(failed)
}

/// What is taken off every window for clocks that run at different rates: ttl × factor + 2 ms.
///
/// The 2 ms are for the precision of expiry on the master and of timers here. The formula is that
/// of the [Redlock specification](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
pub(crate) fn drift(ttl: Duration, factor: f64) -> Duration {
    ttl.mul_f64(factor) + Duration::from_millis(2)
}

/// How long after the first byte was sent a lock with this ttl is valid: ttl − drift, or zero.
pub(crate) fn window(ttl: Duration, drift_factor: f64) -> Duration {
    ttl.saturating_sub(drift(ttl, drift_factor))
}

/// The longest that a waiter needs to wait until a quorum may be free, by the time left that the
/// busy masters gave; `None` where they do not tell.
pub(crate) fn time_until_free<'a>(
    quorum: Quorum,
    answers: impl Iterator<Item = &'a Answer>,
) -> Option<Duration> {
    let (mut free, mut waits) = (0, Vec::new());
    for answer in answers {
        match answer {
            Answer::Granted { .. } | Answer::Stale { .. } => free += 1,
            Answer::Busy {
                time_left: Some(left),
                ..
            }
            | Answer::Quarantined {
                time_left: left, ..
            } => waits.push(*left),
            _ => {}
        }
    }
    let missing = quorum.needed.checked_sub(free + 1)?;
    waits.sort_unstable();
    waits.get(missing).copied()
}

#[cfg(test)]
#[path = "quorum_tests.rs"]
mod tests;

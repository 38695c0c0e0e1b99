//! The pauses between the attempts of one acquisition, by its retry policies.

use std::time::Duration;

use tokio::time::Instant;

use crate::{attempt::Cause, clock::after, entropy::Entropy, settings::Settings};

/// How many attempts may be made within one pause because masters said that the lock is free: where
/// they say so for ever, it is the pauses that count.
const EARLY_MAX: u32 = 16;

pub(super) struct Pauses<'a> {
    settings: &'a Settings,
    /// What is left of the policy for masters that are busy, and of that for too few; from the first
    /// pause of each on.
    bases: [Option<Box<dyn Iterator<Item = Duration> + Send + Sync>>; 2],
    /// The end of the pause under way; an attempt before that end does not use it up.
    end: Option<Instant>,
    early_left: u32,
}

impl<'a> Pauses<'a> {
    pub(super) fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            bases: [None, None],
            end: None,
            early_left: EARLY_MAX,
        }
    }

    /// The end of the pause under way, or of the next one; `None` when the policy is used up. `cause`
    /// is why the last attempt failed, if there was one.
    pub(super) fn until(&mut self, cause: Option<Cause>, entropy: &Entropy) -> Option<Instant> {
        if let Some(end) = self.end {
            return Some(end);
        }
        let (index, retry) = match cause {
            None | Some(Cause::Busy) => (0, self.settings.busy),
            Some(Cause::NoQuorum | Cause::Quarantined | Cause::Expired) => {
                (1, self.settings.no_quorum)
            }
            Some(Cause::FenceExhausted) => return None,
        };
        let fraction = entropy.fraction();
        let bases = self.bases[index].get_or_insert_with(|| Box::new(retry.bases()));
        let end = after(retry.spread(bases.next()?, fraction));
        self.end = Some(end);
        Some(end)
    }

    /// The pause under way has come to its end.
    pub(super) fn end(&mut self) {
        self.end = None;
        self.early_left = EARLY_MAX;
    }

    /// May there be an attempt before the end of the pause?
    pub(super) fn may_be_early(&self) -> bool {
        self.early_left > 0
    }

    /// There is one.
    pub(super) fn early(&mut self) {
        self.early_left -= 1;
    }
}

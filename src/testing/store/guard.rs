//! The restart guard of one master (`master/guard.lua`).

use std::time::Duration;

use super::Store;
use crate::{
    master::{GUARD_MARKER, GUARD_QUARANTINE, GuardSight, Operation, Request},
    mutant::Mutant,
};

impl Store {
    /// A master that has forgotten that it was marked marks itself.
    pub(super) fn mark(&mut self, guard_ms: Option<u64>) {
        if let Some(guard_ms) = guard_ms
            && !self.keys.contains_key(GUARD_MARKER)
        {
            self.set(GUARD_MARKER, "1", None);
            self.set_for(GUARD_QUARANTINE, "1", guard_ms);
        }
    }

    /// Marks the master if it has forgotten that it was; gives the time left if it is in quarantine.
    pub(super) fn guard(&mut self, request: &Request) -> Option<Duration> {
        let guard_ms = request.guard_ms?;
        let is_acquire = matches!(request.operation, Operation::Acquire { .. });
        if self.mutant == Some(Mutant::GuardOnlyInAcquire) && !is_acquire {
            return None;
        }
        self.mark(Some(guard_ms));
        match self.guard_sight() {
            GuardSight::Quarantined { time_left } => Some(time_left),
            _ => None,
        }
    }

    pub(super) fn guard_sight(&self) -> GuardSight {
        if !self.keys.contains_key(GUARD_MARKER) {
            return GuardSight::Unmarked;
        }
        match self.keys.get(GUARD_QUARANTINE) {
            None => GuardSight::Ready,
            Some(entry) => GuardSight::Quarantined {
                time_left: self
                    .left(entry)
                    .unwrap_or_default()
                    .max(Duration::from_millis(1)),
            },
        }
    }
}

//! When, after a notice that all who wait hear at the same moment, this one goes.

use std::{sync::atomic::Ordering, time::Duration};

use super::{
    Wait,
    crowd::WINDOW_MAX,
    news::{Cause, Pause},
};

/// More turns missed than these make nobody any quicker.
const MISSED_MAX: u32 = 15;

/// One who has no place among those that take turns tries to get it before them so often, once it
/// has missed two turns of each. Rarely: there may be many of them.
const CUT_IN: f64 = 0.0625;

impl Wait<'_> {
    /// Whoever has waited longest goes at once, and the others after one another, unless it is taken
    /// by then. Where that order is not known, and after attempts that have collided, everybody goes
    /// at a moment of its own.
    pub(super) fn moment(&self, cause: Cause) -> Pause {
        if let Cause::Turn(turn) = cause {
            match turn.ahead {
                Some(0) if turn.is_news => return Pause::None,
                // A holder that extends its lock again and again: ask, and do not try.
                Some(ahead) => return Pause::Ask(WINDOW_MAX.min(turn.slot * ahead)),
                // The others do not know of it, and who goes at once is always first.
                None if turn.is_news && self.cuts_in(turn.known) => return Pause::None,
                None => {}
            }
        }
        if self.core.crowd.window(self.resources).is_zero() {
            return Pause::None;
        }
        Pause::Ask(self.spread())
    }

    fn cuts_in(&self, known: u32) -> bool {
        known > 1
            && self.missed.load(Ordering::Relaxed) >= 2 * known
            && self.core.entropy.fraction() < CUT_IN
    }

    /// So long to wait before an attempt that others may be about to make too, at random: whoever
    /// has missed it more often goes much sooner, which makes turns of it.
    pub(super) fn spread(&self) -> Duration {
        let window = self.core.crowd.window(self.resources);
        if window.is_zero() {
            return window;
        }
        let missed = self.missed.load(Ordering::Relaxed).min(MISSED_MAX);
        window.mul_f64(self.core.entropy.fraction()) / (1 + missed).pow(2)
    }
}

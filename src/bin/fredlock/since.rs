//! Since when somebody holds a lock, as far as that can be told.
//!
//! Masters do not keep it. But a fence is proposed from the time of day of the holder's machine, and is
//! never less than that, so the holder has the lock at least since then, by that clock. Whoever tries in
//! vain raises it: while somebody waits it tells little.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use fredlock::Inspection;

/// A time of day at which the lock was held already, by its holder's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since(SystemTime);

impl Since {
    /// `None` where nobody holds it, or the holder's fence is not known.
    pub(crate) fn of(inspection: &Inspection) -> Option<Self> {
        inspection.held_since().map(Self)
    }

    /// How long ago that was by our clock; `None` if it has not come yet by that, so that the two
    /// clocks are apart, or the fence was raised over a wrong one.
    #[expect(
        clippy::disallowed_methods,
        reason = "the time of day is what fences are made from"
    )]
    pub(crate) fn ago(self) -> Option<Duration> {
        SystemTime::now().duration_since(self.0).ok()
    }
}

impl fmt::Display for Since {
    /// RFC 3339, in UTC.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis(self.0).fmt(f)
    }
}

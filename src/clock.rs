//! The time of day, which is asked for here alone, and points in time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::error::TTL_MAX;

/// Microseconds since 1970; 0 for a clock that stands before it.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn wall_clock() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// So long from now; for a duration beyond what the clock can tell, when nobody lives to see it:
/// settings have no upper bound, and a sum of instants that does not fit panics.
pub(crate) fn after(duration: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(duration).unwrap_or(now + TTL_MAX)
}

//! The time of day, which is asked for here alone, and points in time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Microseconds since 1970; 0 for a clock that stands before it.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn wall_clock() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Later than any timer: a point in time that stands for "never" must not overflow.
const FAR: Duration = Duration::from_secs(200 * 365 * 86_400);

/// So long from now. Callers may say `Duration::MAX` for "without end", and `Instant + Duration`
/// panics beyond what the clock can tell.
pub(crate) fn after(duration: Duration) -> Instant {
    let now = Instant::now();
    now + duration.min(FAR)
}

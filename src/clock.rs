//! The time of day: the one place that asks for it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970; 0 for a clock that stands before it.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn wall_clock() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

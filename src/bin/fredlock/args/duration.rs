//! Durations, as people write them.

use std::time::Duration;

/// The shortest ttl: below it a process cannot be ended for certain within what is left.
const TTL_MIN: Duration = Duration::from_millis(500);

/// `500ms`, `30s`, `2m`, `1h 30m`; and 0.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    humantime::parse_duration(text).map_err(|error| format!("{error}; such as 500ms, 30s or 2m"))
}

pub(super) fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text)?;
    if (TTL_MIN..=fredlock::TTL_MAX).contains(&ttl) {
        Ok(ttl)
    } else {
        Err("it must be from 500ms to 100 years".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("2m", 120_000), ("0", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "-1s", "1x", "abc"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(ttl("499ms").is_err() && ttl("500ms").is_ok());
    }
}

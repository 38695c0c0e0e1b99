//! Why there is no further attempt.

use super::Wait;
use crate::{
    attempt::Cause,
    error::{AcquireError, Attempts},
};

impl Wait<'_> {
    /// The total wait is over.
    pub(super) fn timed_out(&self) -> AcquireError {
        let waited = self.begun.elapsed();
        AcquireError::Timeout {
            waited,
            last: Box::new(self.used_up()),
        }
    }

    /// What the last attempt came to; or, where none was made, the last one of those in front.
    pub(super) fn used_up(&self) -> AcquireError {
        let (heard, ahead) = match &self.ticket {
            Some(ticket) if !self.is_first => ticket.heard(),
            _ => (None, 0),
        };
        let failed = self.failed.clone().or(heard);
        let cause = failed.as_ref().map_or(Cause::Busy, |failed| failed.cause);
        let attempts = Box::new(Attempts {
            resources: self.resources.clone(),
            count: self.count,
            ahead,
            waited: self.begun.elapsed(),
            outcomes: failed.map(|failed| failed.outcomes).unwrap_or_default(),
        });
        match cause {
            Cause::Busy => AcquireError::Busy(attempts),
            Cause::NoQuorum => AcquireError::NoQuorum(attempts),
            Cause::Quarantined => AcquireError::Quarantined(attempts),
            Cause::Expired => AcquireError::Expired(attempts),
            Cause::FenceExhausted => AcquireError::FenceExhausted(attempts),
        }
    }
}

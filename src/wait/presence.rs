//! Whoever is first is heard of by those behind, or they pass it over.

use std::{convert::Infallible, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::Wait;
use crate::clock::after;

/// How often those behind look whether whoever is first is late, and how often it is heard of while
/// somebody stands behind it.
pub(super) const LOOK_AFTER: Duration = Duration::from_secs(1);

impl Wait<'_> {
    /// Keeps its promise to those behind, if there are any, without end.
    pub(super) async fn be_heard_of(&self, end: Instant) -> Infallible {
        let Some(ticket) = &self.ticket else {
            return std::future::pending().await;
        };
        loop {
            let due = if ticket.is_awaited() {
                end.min(after(LOOK_AFTER))
            } else {
                end
            };
            ticket.due(due);
            tokio::select! {
                () = ticket.turn() => {}
                () = sleep_until(due) => {}
            }
        }
    }

    /// Promises to be heard of again when what it begins now has ended, by then.
    pub(super) fn promise(&self, end: Instant) {
        if let Some(ticket) = &self.ticket {
            ticket.busy_until(end);
        }
    }
}

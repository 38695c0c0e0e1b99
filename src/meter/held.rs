//! What becomes of a lock while it is held, and at its end.

use tokio::time::Instant;

use super::{Meter, family::values};
use crate::{
    clock::Deadline,
    error::{ExtendError, ReleaseError},
    outcome::Outcomes,
    signal::LostReason,
};

values! {
    pub(super) enum Lost {
        Expired = "expired",
        Gone = "gone",
        HoldLimit = "hold_limit",
        ShutDown = "shut_down",
    }
}

values! {
    pub(super) enum Renewal {
        Extended = "extended",
        Gone = "gone",
        Expired = "expired",
        ShutDown = "shut_down",
        Cancelled = "cancelled",
    }
}

values! {
    pub(super) enum Return {
        Released = "released",
        Expired = "expired",
        Gone = "gone",
        NoQuorum = "no_quorum",
        Dropped = "dropped",
    }
}

/// A lock that is held, or was.
#[derive(Debug)]
pub(crate) struct Held {
    meter: Meter,
    since: Instant,
    /// How it is lost if it is dropped while it is held.
    if_dropped: Option<Lost>,
    /// It is not held any more.
    is_over: bool,
    /// It was counted as lost.
    is_lost: bool,
    /// It was counted as released, or is left to its ttl on purpose.
    is_settled: bool,
}

impl Held {
    pub(super) fn new(meter: &Meter) -> Self {
        meter.0.held.increment(1);
        Self {
            meter: meter.clone(),
            since: Instant::now(),
            if_dropped: None,
            is_over: false,
            is_lost: false,
            is_settled: false,
        }
    }

    /// A keeper has it: only with its runtime it is dropped before its end was told.
    pub(crate) fn kept(&mut self) {
        self.if_dropped = Some(Lost::ShutDown);
    }

    /// An extension failed, which may have been the end of it.
    pub(crate) fn not_extended(&mut self, error: &ExtendError, valid_until: &Deadline) {
        match error {
            ExtendError::Lost { .. } => self.lose(Lost::Gone, valid_until),
            ExtendError::Expired { .. } => self.lose(Lost::Expired, valid_until),
            ExtendError::InvalidTtl(_) | ExtendError::ShutDown { .. } => {}
        }
    }

    /// Its keeper says how it ended.
    pub(crate) fn ended(&mut self, reason: &LostReason, valid_until: &Deadline) {
        match reason {
            LostReason::Expired { .. } => self.lose(Lost::Expired, valid_until),
            LostReason::Gone { .. } => self.lose(Lost::Gone, valid_until),
            LostReason::HoldLimit => self.lose(Lost::HoldLimit, valid_until),
            LostReason::ShutDown => self.lose(Lost::ShutDown, valid_until),
            LostReason::Ended => self.end(valid_until),
        }
    }

    /// It is left to its ttl.
    pub(crate) fn forgotten(&mut self, valid_until: &Deadline) {
        self.give_back(valid_until);
        self.is_settled = true;
    }

    /// The release begins.
    pub(crate) fn release(&mut self, valid_until: &Deadline) -> Release {
        self.give_back(valid_until);
        self.is_settled = true;
        Release {
            meter: self.meter.clone(),
            was_lost: self.is_lost,
            came_to: Return::Dropped,
        }
    }

    /// It is dropped, whatever was told of it before.
    pub(crate) fn dropped(&mut self, valid_until: &Deadline) {
        match self.if_dropped {
            Some(how) if !self.is_over => self.lose(how, valid_until),
            _ => self.give_back(valid_until),
        }
        if !self.is_settled {
            self.meter.0.releases.count(Return::Dropped as usize);
        }
    }

    /// It is given back, if it is still ours to give.
    fn give_back(&mut self, valid_until: &Deadline) {
        if !self.is_over && valid_until.is_over() {
            self.lose(Lost::Expired, valid_until);
        }
        self.end(valid_until);
    }

    fn lose(&mut self, how: Lost, valid_until: &Deadline) {
        self.end(valid_until);
        if !std::mem::replace(&mut self.is_lost, true) {
            self.meter.0.lost.count(how as usize);
        }
    }

    fn end(&mut self, valid_until: &Deadline) {
        if !std::mem::replace(&mut self.is_over, true) {
            let end = Instant::now().min(valid_until.at());
            let hold = end.saturating_duration_since(self.since);
            self.meter.0.hold.record(hold);
            self.meter.0.held.decrement(1);
        }
    }
}

/// A release that its caller waits for.
#[must_use = "dropped, nobody waited for it"]
pub(crate) struct Release {
    meter: Meter,
    was_lost: bool,
    came_to: Return,
}

impl Release {
    pub(crate) fn ended(mut self, result: &Result<Outcomes, ReleaseError>) {
        self.came_to = match result {
            Ok(_) => Return::Released,
            Err(ReleaseError::Expired { .. }) => Return::Expired,
            Err(ReleaseError::NoQuorum { .. }) => Return::NoQuorum,
            Err(ReleaseError::Lost { .. }) => {
                // Only now is it noticed.
                if !self.was_lost {
                    self.meter.0.lost.count(Lost::Gone as usize);
                }
                Return::Gone
            }
        };
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        self.meter.0.releases.count(self.came_to as usize);
    }
}

/// An extension under way.
#[must_use = "dropped, it was cancelled"]
pub(crate) struct Extension {
    meter: Meter,
    /// Before it.
    valid_until: Deadline,
    due: Option<Deadline>,
    came_to: Renewal,
}

impl Extension {
    pub(super) fn new(meter: &Meter, valid_until: &Deadline, due: Option<&Deadline>) -> Self {
        Self {
            meter: meter.clone(),
            valid_until: valid_until.clone(),
            due: due.cloned(),
            came_to: Renewal::Cancelled,
        }
    }

    pub(crate) fn ended(mut self, result: &Result<(), ExtendError>) {
        self.came_to = match result {
            Ok(()) => {
                let handles = &self.meter.0;
                handles.extension_left.record(self.valid_until.left());
                if let Some(due) = &self.due {
                    let late = Instant::now().saturating_duration_since(due.at());
                    handles.extension_lateness.record(late);
                }
                Renewal::Extended
            }
            Err(ExtendError::Lost { .. }) => Renewal::Gone,
            Err(ExtendError::ShutDown { .. }) => Renewal::ShutDown,
            Err(ExtendError::Expired { .. } | ExtendError::InvalidTtl(_)) => Renewal::Expired,
        };
    }

    /// It was given up, since the lock had ended otherwise.
    pub(crate) fn overtaken(mut self, reason: &LostReason) {
        if let LostReason::Expired { .. } = reason {
            self.came_to = Renewal::Expired;
        }
    }
}

impl Drop for Extension {
    fn drop(&mut self) {
        self.meter.0.extensions.count(self.came_to as usize);
    }
}

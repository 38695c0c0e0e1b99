//! Counts and times what happens to locks, for the recorder that was installed when the `Redlock`
//! was built.
//!
//! What is counted is said in `metrics.rs`; without the feature `meter/off.rs` stands here, and
//! nothing is. Everything that ends in one of several ways is a value here which counts its end
//! once: dropped without any, it was cancelled.

use std::{fmt, sync::Arc};

use ::metrics::{Counter, Gauge, Histogram, SharedString, counter, gauge, histogram};
use tokio::time::Instant;

use crate::{
    attempt::{Cause, Failed},
    clock::Deadline,
    error::AcquireError,
    lock::Lock,
    metrics::{
        ACQUISITIONS, ATTEMPTS, EXTENSION_LATENESS, EXTENSION_LEFT, EXTENSION_RETRIES, EXTENSIONS,
        HELD, HOLD, LABEL_MASTER, LABEL_OUTCOME, LABEL_REASON, LEFT_TO_TTL, LOST, PUT_BACKS,
        RELEASES, WAIT, WAITING,
    },
};

mod family;
mod held;
mod master;

use family::{Family, values};
pub(crate) use held::{Extension, Held};
use held::{Lost, Renewal, Return};
pub(crate) use master::{Asked, MasterMeter};

values! {
    /// What an acquisition, or an attempt, came to.
    enum Attained {
        Acquired = "acquired",
        Busy = "busy",
        NoQuorum = "no_quorum",
        Quarantined = "quarantined",
        Expired = "expired",
        FenceExhausted = "fence_exhausted",
        Cancelled = "cancelled",
        // Last: no attempt comes to this.
        ShutDown = "shut_down",
    }
}

/// The handles of one `Redlock`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Meter(Arc<Handles>);

struct Handles {
    acquisitions: Family,
    attempts: Family,
    waiting: Gauge,
    wait: Histogram,
    held: Gauge,
    hold: Histogram,
    lost: Family,
    extensions: Family,
    extension_retries: Counter,
    extension_lateness: Histogram,
    extension_left: Histogram,
    releases: Family,
    left_to_ttl: Counter,
    /// One for each master.
    put_backs: Vec<Counter>,
}

impl Meter {
    /// Takes the handles of the recorder that is installed now.
    pub(crate) fn new<'a>(masters: impl Iterator<Item = &'a Arc<str>>) -> Self {
        let attempts = Attained::VALUES
            .split_last()
            .map_or(&[][..], |(_, rest)| rest);
        let put_backs = |name: &Arc<str>| {
            let master = SharedString::from(Arc::clone(name));
            counter!(PUT_BACKS, LABEL_MASTER => master)
        };
        Self(Arc::new(Handles {
            acquisitions: Family::new(ACQUISITIONS, LABEL_OUTCOME, Attained::VALUES),
            attempts: Family::new(ATTEMPTS, LABEL_OUTCOME, attempts),
            waiting: gauge!(WAITING),
            wait: histogram!(WAIT),
            held: gauge!(HELD),
            hold: histogram!(HOLD),
            lost: Family::new(LOST, LABEL_REASON, Lost::VALUES),
            extensions: Family::new(EXTENSIONS, LABEL_OUTCOME, Renewal::VALUES),
            extension_retries: counter!(EXTENSION_RETRIES),
            extension_lateness: histogram!(EXTENSION_LATENESS),
            extension_left: histogram!(EXTENSION_LEFT),
            releases: Family::new(RELEASES, LABEL_OUTCOME, Return::VALUES),
            left_to_ttl: counter!(LEFT_TO_TTL),
            put_backs: masters.map(put_backs).collect(),
        }))
    }

    /// An acquisition begins.
    pub(crate) fn acquisition(&self) -> Acquisition<'_> {
        self.0.waiting.increment(1);
        Acquisition {
            handles: &self.0,
            begun: Instant::now(),
            came_to: Some(Attained::Cancelled),
        }
    }

    /// An attempt begins.
    pub(crate) fn attempt(&self) -> Attempt<'_> {
        Attempt {
            handles: &self.0,
            came_to: Attained::Cancelled,
        }
    }

    /// A lock is held.
    pub(crate) fn held(&self) -> Held {
        Held::new(self)
    }

    /// An extension begins of what is valid until then; one of a keeper had been due.
    pub(crate) fn extension(&self, valid_until: &Deadline, due: Option<&Deadline>) -> Extension {
        Extension::new(self, valid_until, due)
    }

    pub(crate) fn extension_retried(&self) {
        self.0.extension_retries.increment(1);
    }

    pub(crate) fn put_back(&self, master: usize) {
        self.0.put_backs[master].increment(1);
    }

    pub(crate) fn left_to_ttl(&self) {
        self.0.left_to_ttl.increment(1);
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every lock has one: its handles would fill the screen.
        f.write_str("Meter")
    }
}

/// An acquisition under way.
#[must_use = "dropped, it was cancelled"]
pub(crate) struct Acquisition<'a> {
    handles: &'a Handles,
    begun: Instant,
    /// `None` for what is not counted.
    came_to: Option<Attained>,
}

impl Acquisition<'_> {
    pub(crate) fn ended(mut self, result: &Result<Lock, AcquireError>) {
        self.came_to = match result {
            Ok(_) => {
                self.handles.wait.record(self.begun.elapsed());
                Some(Attained::Acquired)
            }
            Err(error) => attained(error),
        };
    }
}

impl Drop for Acquisition<'_> {
    fn drop(&mut self) {
        self.handles.waiting.decrement(1);
        if let Some(came_to) = self.came_to {
            self.handles.acquisitions.count(came_to as usize);
        }
    }
}

fn attained(error: &AcquireError) -> Option<Attained> {
    match error {
        AcquireError::InvalidResources(_) | AcquireError::InvalidTtl(_) => None,
        AcquireError::Busy(_) => Some(Attained::Busy),
        AcquireError::NoQuorum(_) => Some(Attained::NoQuorum),
        AcquireError::Quarantined(_) => Some(Attained::Quarantined),
        AcquireError::Expired(_) => Some(Attained::Expired),
        AcquireError::FenceExhausted(_) => Some(Attained::FenceExhausted),
        AcquireError::ShutDown => Some(Attained::ShutDown),
        AcquireError::Timeout { last, .. } => attained(last),
    }
}

/// An attempt under way.
#[must_use = "dropped, it was cancelled"]
pub(crate) struct Attempt<'a> {
    handles: &'a Handles,
    came_to: Attained,
}

impl Attempt<'_> {
    pub(crate) fn ended(mut self, result: &Result<Lock, Failed>) {
        self.came_to = match result.as_ref().map_err(|failed| failed.cause) {
            Ok(_) => Attained::Acquired,
            Err(Cause::Busy) => Attained::Busy,
            Err(Cause::NoQuorum) => Attained::NoQuorum,
            Err(Cause::Quarantined) => Attained::Quarantined,
            Err(Cause::Expired) => Attained::Expired,
            Err(Cause::FenceExhausted) => Attained::FenceExhausted,
        };
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.handles.attempts.count(self.came_to as usize);
    }
}

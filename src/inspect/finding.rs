//! What one master has for a resource.

use std::{fmt, sync::Arc, time::Duration};

use super::holder::Holder;
use crate::{
    core::Told,
    fence::Fence,
    master::{GuardSight, Sight},
    outcome::MasterError,
};

/// What was found on one master.
#[derive(Debug, Clone)]
pub struct Finding {
    pub(super) master: Arc<str>,
    pub(super) state: Result<KeyState, MasterError>,
    pub(super) took: Duration,
}

/// What a master has for a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyState {
    pub(super) holder: Option<Holder>,
    pub(super) time_left: Option<Duration>,
    pub(super) fence: Fence,
    pub(super) guard: Option<GuardState>,
}

/// The state of the restart guard on a master ([`Builder::restart_guard`](crate::Builder::restart_guard)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardState {
    /// It has its marker, and votes.
    Ready,
    /// It came up empty, and has no vote.
    #[non_exhaustive]
    Quarantined {
        /// For so long.
        time_left: Duration,
    },
    /// It has no marker: it came up empty, or is new. The first lock that is asked of it puts it in
    /// quarantine, unless [`Redlock::initialise`](crate::Redlock::initialise) marks it before.
    Unmarked,
}

impl Finding {
    pub(super) fn new(told: Told) -> Self {
        Self {
            master: told.master,
            state: told.sight.map(KeyState::new),
            took: told.took,
        }
    }

    /// The name of the master, as in [`Outcome::master`](crate::Outcome::master).
    #[must_use]
    pub fn master(&self) -> &str {
        &self.master
    }

    /// What it has.
    ///
    /// # Errors
    /// Why that is not known.
    pub fn state(&self) -> Result<&KeyState, &MasterError> {
        self.state.as_ref()
    }

    /// From just before it was asked to its answer.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }
}

impl KeyState {
    fn new(sight: Sight) -> Self {
        Self {
            holder: sight.value.map(Holder),
            time_left: sight.time_left,
            fence: Fence::new(sight.fence),
            guard: sight.guard.map(GuardState::new),
        }
    }

    /// Whose key stands there; `None` if there is none.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// How long the key has to live, when the master answered; `None` if there is none, or it does
    /// not expire.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.time_left
    }

    /// The largest fence that the master has seen: that of the holder, or a larger one of an attempt
    /// that was rolled back. [`Fence::NONE`] if it knows none.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The state of the restart guard; `None` if this [`Redlock`](crate::Redlock) has none.
    #[must_use]
    pub fn guard(&self) -> Option<GuardState> {
        self.guard
    }

    pub(super) fn votes(&self) -> bool {
        matches!(self.guard, None | Some(GuardState::Ready))
    }
}

impl GuardState {
    pub(crate) fn new(sight: GuardSight) -> Self {
        match sight {
            GuardSight::Unmarked => Self::Unmarked,
            GuardSight::Ready | GuardSight::Initialised => Self::Ready,
            GuardSight::Quarantined { time_left } => Self::Quarantined { time_left },
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.master)?;
        match &self.state {
            Ok(state) => state.fmt(f)?,
            Err(error) => error.fmt(f)?,
        }
        write!(f, " ({:.1} ms)", self.took.as_secs_f64() * 1e3)
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.holder, self.time_left) {
            (None, _) => f.write_str("free")?,
            (Some(holder), Some(left)) => {
                write!(f, "held by {holder} for {} ms more", left.as_millis())?;
            }
            (Some(holder), None) => write!(f, "held by {holder} without expiry")?,
        }
        if self.fence != Fence::NONE {
            write!(f, ", fence {}", self.fence)?;
        }
        match self.guard {
            Some(GuardState::Quarantined { time_left }) => {
                write!(f, ", in quarantine for {} ms more", time_left.as_millis())
            }
            Some(GuardState::Unmarked) => f.write_str(", not initialised"),
            Some(GuardState::Ready) | None => Ok(()),
        }
    }
}

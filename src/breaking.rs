//! Breaking a lock, for the operator behind `fredlock break`. No part of the library's own surface:
//! a lock is its holder's.

use std::{sync::Arc, time::Duration};

use thiserror::Error;
use tokio::time::Instant;

use crate::{
    core::{Told, whole_ms},
    fence::{self, Fence, Fencing},
    inspect::{Holder, InspectError, Inspection},
    master::{Break, FenceWrite, Question},
    outcome::MasterError,
    redlock::Redlock,
    resources::Resources,
};

/// Whose lock is to be broken, before it is. Whoever comes after is left alone.
#[derive(Debug, Clone)]
pub struct BreakPlan {
    inspection: Inspection,
    resource: Resources,
}

/// What became of a lock that was broken.
#[derive(Debug, Clone)]
pub struct Broken {
    fence: Fence,
    masters: Vec<BrokenMaster>,
}

/// What became of it on one master.
#[derive(Debug, Clone)]
pub struct BrokenMaster {
    master: Arc<str>,
    state: BreakState,
}

/// What a master has now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakState {
    /// It had the lock, and has none any more.
    Deleted,
    /// It had no lock.
    Free,
    /// Somebody came after the look; nothing was touched.
    Taken(Holder),
    /// It did not answer, or with an error: it may have the lock still.
    Failed(MasterError),
}

/// Why a lock was not broken.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum BreakError {
    /// Nothing was sent.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// Too few masters answered to tell whose it is, or to break it. Nothing was changed.
    #[error("too few masters answer to break a lock")]
    NoQuorum(Inspection),
    /// It was broken on too few masters: the holder may have it still.
    #[error("too few masters answered while the lock was broken, so it may still be held")]
    Incomplete(Broken),
}

impl Redlock {
    /// Looks whose lock it is. Reads only.
    ///
    /// # Errors
    /// [`BreakError::Inspect`], or [`BreakError::NoQuorum`].
    ///
    /// # Cancel safety
    /// Loses nothing but the answer.
    pub async fn plan_break(&self, resource: &str) -> Result<BreakPlan, BreakError> {
        let inspection = self.inspect(resource).await?;
        let resource = Resources::parse([resource]).map_err(InspectError::from)?;
        let answers = inspection.findings().filter(|one| one.state().is_ok());
        if answers.count() < self.core().quorum.needed {
            return Err(BreakError::NoQuorum(inspection));
        }
        Ok(BreakPlan {
            inspection,
            resource,
        })
    }

    /// Deletes the keys of the plan's holders on all masters, and leaves there a fence that is larger
    /// than theirs, as an acquisition of a new holder would: an extension of theirs that comes
    /// late revives nothing, and the next holder's fence is larger still. A master without its
    /// restart guard's marker goes into quarantine, as by every script that writes.
    ///
    /// Once a quorum has done so no quorum is left to the holder, whatever the others have.
    ///
    /// # Errors
    /// [`BreakError::Incomplete`] if fewer did; do it again. [`BreakError::Inspect`] after a shutdown.
    ///
    /// # Cancel safety
    /// What was sent is done.
    pub async fn break_lock(&self, plan: &BreakPlan) -> Result<Broken, BreakError> {
        let core = self.core();
        if core.shutdown.is_cancelled() {
            return Err(InspectError::ShutDown.into());
        }
        let fence = self.fence_beyond(plan);
        let retention = match core.fencing {
            Fencing::On { retention } => retention,
            Fencing::Off => Fencing::RETENTION_DEFAULT,
        };
        // As an acquisition with the time that the holder has left.
        let lives = plan.time_left_max().saturating_add(retention);
        let question = Question::Break(Break {
            resource: plan.resource.clone(),
            values: plan
                .holders()
                .map(|holder| holder.bytes().to_vec())
                .collect(),
            write: FenceWrite {
                fence,
                lives_ms: whole_ms(lives),
            },
            guard_ms: core.guard.map(whole_ms),
        });
        let timeout = self.settings().question_timeout();
        let (begun, told) = (Instant::now(), core.ask_all(&question, timeout).await);
        let deleted: Vec<_> = told.iter().map(Told::has_deleted).collect();
        let name = plan.inspection.resource().to_owned();
        let left = Inspection::new(name, core.quorum, told, begun);
        let masters = left.findings().zip(deleted).map(BrokenMaster::new);
        let broken = Broken {
            fence: Fence::new(fence),
            masters: masters.collect(),
        };
        let has_answered = |one: &&BrokenMaster| !matches!(one.state, BreakState::Failed(_));
        if broken.masters.iter().filter(has_answered).count() < core.quorum.needed {
            return Err(BreakError::Incomplete(broken));
        }
        Ok(broken)
    }

    /// Larger than all that masters have seen, by the rule of an acquisition.
    fn fence_beyond(&self, plan: &BreakPlan) -> u64 {
        let core = self.core();
        let states = plan
            .inspection
            .findings()
            .filter_map(|one| one.state().ok());
        let seen = states.map(|state| state.fence().get()).max().unwrap_or(0);
        // Where they are used up: the tombstone of the largest.
        fence::propose((core.wall_clock)(), seen, core.client).unwrap_or(Fence::MAX + 1)
    }
}

impl Told {
    fn has_deleted(&self) -> bool {
        self.sight.as_ref().is_ok_and(|sight| sight.deleted)
    }
}

impl BreakPlan {
    /// What the masters have.
    #[must_use]
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// Has no master that answered a lock, so that there is nothing to break?
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.holders().next().is_none()
    }

    fn holders(&self) -> impl Iterator<Item = &Holder> {
        let states = self
            .inspection
            .findings()
            .filter_map(|one| one.state().ok());
        states.filter_map(crate::KeyState::holder)
    }

    fn time_left_max(&self) -> Duration {
        let states = self
            .inspection
            .findings()
            .filter_map(|one| one.state().ok());
        let lefts = states.filter_map(crate::KeyState::time_left);
        lefts.max().unwrap_or_default()
    }
}

impl Broken {
    /// What was left as the fence: larger than that of the holder whose lock was broken, smaller than
    /// that of whoever comes next. A resource that has seen it refuses the former.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// One for each master, in the order of configuration.
    #[must_use]
    pub fn masters(&self) -> impl ExactSizeIterator<Item = &BrokenMaster> {
        self.masters.iter()
    }
}

impl BrokenMaster {
    fn new((finding, deleted): (&crate::Finding, bool)) -> Self {
        let state = match finding.state() {
            Err(error) => BreakState::Failed(error.clone()),
            Ok(state) => match state.holder() {
                Some(holder) => BreakState::Taken(holder.clone()),
                None if deleted => BreakState::Deleted,
                None => BreakState::Free,
            },
        };
        Self {
            master: finding.master().into(),
            state,
        }
    }

    /// The name of the master, as in [`Outcome::master`](crate::Outcome::master).
    #[must_use]
    pub fn master(&self) -> &str {
        &self.master
    }

    /// What it has now.
    #[must_use]
    pub fn state(&self) -> &BreakState {
        &self.state
    }
}

//! Who holds what, on which master, for how long. Reads only.

mod finding;
mod holder;
mod verdict;

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use thiserror::Error;
use tokio::time::Instant;

pub use self::{
    finding::{Finding, GuardState, KeyState},
    holder::Holder,
    verdict::Possession,
};
use crate::{
    core::Told,
    fence::Fence,
    master::Question,
    quorum::Quorum,
    redlock::Redlock,
    resources::{InvalidResources, Resources},
};

/// Who holds a resource: what every master says, and what follows from it. Made by
/// [`Redlock::inspect`].
///
/// Its [`Display`](fmt::Display) has a line for the verdict and one for each master.
#[derive(Debug, Clone)]
pub struct Inspection {
    resource: String,
    verdict: Possession,
    masters: Vec<Finding>,
}

/// Why nothing was inspected. A master that does not answer is no error, but a [`Finding`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InspectError {
    /// Nothing was sent: the name is not one of a resource.
    #[error(transparent)]
    InvalidResources(#[from] InvalidResources),
    /// [`Redlock::shutdown`] was called.
    #[error("shut down")]
    ShutDown,
}

impl Redlock {
    /// Looks who holds a resource, on every master. Reads only: it changes nothing, and takes no
    /// lock, so that what it says may be over when it is read.
    ///
    /// Every master is waited for, each for the
    /// [`command_timeout`](crate::Settings::command_timeout) (100 ms by default). The state of the
    /// restart guard is looked at where this `Redlock` has one. Of a lock over several resources
    /// each is inspected by itself.
    ///
    /// ```no_run
    /// # async fn example(redlock: fredlock::Redlock) -> Result<(), Box<dyn std::error::Error>> {
    /// use fredlock::Possession;
    ///
    /// let inspection = redlock.inspect("invoice:4821").await?;
    /// if let Possession::Held { holder, .. } = inspection.verdict() {
    ///     println!("held by {holder}");
    /// }
    /// println!("{inspection}"); // a line for each master
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// - [`InspectError::InvalidResources`] if it is no name of a resource;
    /// - [`InspectError::ShutDown`] after [`shutdown`](Self::shutdown).
    ///
    /// A master that fails is told as such in its [`Finding`].
    ///
    /// # Cancel safety
    /// Loses nothing but the answer.
    pub async fn inspect(&self, resource: impl Into<String>) -> Result<Inspection, InspectError> {
        let resource = resource.into();
        let resources = Resources::parse([resource.as_str()])?;
        let core = self.core();
        if core.shutdown.is_cancelled() {
            return Err(InspectError::ShutDown);
        }
        let question = Question::Inspect {
            resource: resources,
            guarded: core.guard.is_some(),
        };
        let begun = Instant::now();
        let told = core
            .ask_all(&question, self.settings().question_timeout())
            .await;
        Ok(Inspection::new(resource, core.quorum, told, begun))
    }
}

impl Inspection {
    /// What masters said that were asked when it had `begun`.
    pub(crate) fn new(resource: String, quorum: Quorum, told: Vec<Told>, begun: Instant) -> Self {
        let masters: Vec<_> = told.into_iter().map(Finding::new).collect();
        let verdict = verdict::possession(quorum, &masters, begun.elapsed());
        Self {
            resource,
            verdict,
            masters,
        }
    }

    /// What was looked at.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Who holds it.
    #[must_use]
    pub fn verdict(&self) -> &Possession {
        &self.verdict
    }

    /// A time of day at which its holder had asked for it already, by the clock of the holder's
    /// machine: it has been held at least since then.
    ///
    /// Masters do not keep when a lock was acquired. But a [`Fence`] is proposed from the time of day, in
    /// microseconds since 1970, and never less than that: so this is the smallest fence on the masters that
    /// have the holder's key, as a time. It is later than the true one, and may not have come yet, where
    /// an earlier fence was ahead of the clock; and where others have tried since, as every attempt that
    /// fails raises the fence: while somebody waits it tells little. What it says against another clock
    /// is as right as the two agree.
    ///
    /// `None` if nobody holds it, if no fence is known ([`Fencing::Off`](crate::Fencing::Off)), and for
    /// holders whose value is not one of ours. (One of another client that has UUIDs as tokens, too, looks
    /// as if it had the fence of the last holder of ours.)
    ///
    /// ```no_run
    /// # async fn example(redlock: fredlock::Redlock) -> Result<(), Box<dyn std::error::Error>> {
    /// let inspection = redlock.inspect("invoice:4821").await?;
    /// if let Some(since) = inspection.held_since() {
    ///     println!("held since {since:?} at the latest");
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn held_since(&self) -> Option<SystemTime> {
        let Possession::Held { holder, .. } = &self.verdict else {
            return None;
        };
        let states = self.masters.iter().filter_map(|one| one.state().ok());
        let theirs = states.filter(|state| state.holder() == Some(holder));
        let fences = theirs.map(KeyState::fence);
        let fence = fences.filter(|fence| *fence != Fence::NONE).min()?;
        let since = Duration::from_micros(fence.get());
        UNIX_EPOCH.checked_add(since).filter(|_| holder.is_ours())
    }

    /// One for each master, in the order of configuration.
    #[must_use]
    pub fn findings(&self) -> impl ExactSizeIterator<Item = &Finding> {
        self.masters.iter()
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.resource, self.verdict)?;
        for finding in &self.masters {
            write!(f, "\n  {finding}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Who holds what, on which master, for how long. Reads only.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::time::Instant;

use crate::{
    core::Told,
    fence::Fence,
    label::{OwnerLabel, breaks_lines, label_in},
    master::{GuardSight, Question, Sight},
    outcome::MasterError,
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

/// Who holds a resource, by all that the masters say.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Possession {
    /// A quorum of masters, none of them in quarantine, has the key of this holder.
    #[non_exhaustive]
    Held {
        /// Whose it is.
        holder: Holder,
        /// A quorum has it for so long at least, from the end of the inspection, unless it is
        /// released or extended; `None` without end: the keys of another client, which do not expire.
        /// The holder itself stops earlier, by the drift.
        for_at_least: Option<Duration>,
    },
    /// A quorum of masters, none of them in quarantine, has no key: it can be had at once. (Keys on
    /// the others are those of an attempt under way, or are left over.)
    Free,
    /// No quorum has the key of one holder, and none has no key, whatever the masters say that are
    /// missing: several are trying at once, or keys were deleted. It is free once the keys have
    /// expired.
    Split,
    /// Too few masters answered, or are out of quarantine, to tell.
    Unknown,
}

/// What was found on one master.
#[derive(Debug, Clone)]
pub struct Finding {
    master: Arc<str>,
    state: Result<KeyState, MasterError>,
    took: Duration,
}

/// What a master has for a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyState {
    holder: Option<Holder>,
    time_left: Option<Duration>,
    fence: Fence,
    guard: Option<GuardState>,
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

/// Whose key it is.
///
/// [`Display`](fmt::Display) shows the label, and of the value no more than its first eight
/// characters: whoever knows it whole can release the lock. Two are equal if their whole values are.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder(Vec<u8>);

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

/// What follows from the findings, of which the oldest is no older than `age`.
fn possession(quorum: Quorum, findings: &[Finding], age: Duration) -> Possession {
    let mut holders: BTreeMap<&Holder, Vec<Option<Duration>>> = BTreeMap::new();
    let (mut free, mut unknown) = (0, 0);
    for finding in findings {
        match &finding.state {
            // What is put back in quarantine does not count for its holder, and nobody else gets it.
            Err(_) => unknown += 1,
            Ok(state) if !state.votes() => unknown += 1,
            Ok(KeyState { holder: None, .. }) => free += 1,
            Ok(KeyState {
                holder: Some(holder),
                time_left,
                ..
            }) => holders.entry(holder).or_default().push(*time_left),
        }
    }
    for (holder, lefts) in &mut holders {
        if lefts.len() >= quorum.needed {
            // The longest first: the last that the quorum needs ends it. No expiry is longest.
            lefts.sort_unstable_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
            let left = lefts[quorum.needed - 1];
            return Possession::Held {
                holder: (*holder).clone(),
                for_at_least: left.map(|left| left.saturating_sub(age)),
            };
        }
    }
    let most = holders.values().map(Vec::len).max().unwrap_or(0);
    if free >= quorum.needed {
        Possession::Free
    } else if most.max(free) + unknown < quorum.needed {
        Possession::Split
    } else {
        Possession::Unknown
    }
}

impl Inspection {
    /// What masters said that were asked when it had `begun`.
    pub(crate) fn new(resource: String, quorum: Quorum, told: Vec<Told>, begun: Instant) -> Self {
        let masters: Vec<_> = told.into_iter().map(Finding::new).collect();
        let verdict = possession(quorum, &masters, begun.elapsed());
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

    /// One for each master, in the order of configuration.
    #[must_use]
    pub fn findings(&self) -> impl ExactSizeIterator<Item = &Finding> {
        self.masters.iter()
    }
}

impl Finding {
    fn new(told: Told) -> Self {
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

    /// The state of the restart guard; `None` if this [`Redlock`] has none.
    #[must_use]
    pub fn guard(&self) -> Option<GuardState> {
        self.guard
    }

    fn votes(&self) -> bool {
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

/// How many characters of a holder's value are shown.
const SHOWN_CHARS: usize = 8;

impl Holder {
    /// What the holder calls itself ([`Settings::owner_label`](crate::Settings::owner_label));
    /// `None` if it has no label, or is another client with values of its own kind.
    #[must_use]
    pub fn label(&self) -> Option<OwnerLabel> {
        label_in(std::str::from_utf8(&self.0).ok()?)
    }

    /// Is this the key of a lock of ours, with the value that
    /// [`Lock::value`](crate::Lock::value) gives?
    #[must_use]
    pub fn is(&self, value: &str) -> bool {
        self.0 == value.as_bytes()
    }

    /// All of it, which whoever may see it could release the lock with.
    #[cfg(feature = "cli")]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Another client may have written a short value: never all of that either.
        let text = String::from_utf8_lossy(&self.0);
        let shown = SHOWN_CHARS.min(text.chars().count() / 2);
        for c in text.chars().take(shown) {
            let c = if breaks_lines(c) { '\u{fffd}' } else { c };
            write!(f, "{c}")?;
        }
        f.write_str("…")?;
        match self.label() {
            Some(label) => write!(f, " ({label})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder({self})")
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

impl fmt::Display for Possession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held {
                holder,
                for_at_least: Some(left),
            } => write!(
                f,
                "held by {holder} for at least {} ms more",
                left.as_millis()
            ),
            Self::Held {
                holder,
                for_at_least: None,
            } => write!(f, "held by {holder} without expiry"),
            Self::Free => f.write_str("free"),
            Self::Split => {
                f.write_str("split: no quorum has the key of one holder, and none is free")
            }
            Self::Unknown => f.write_str("unknown: too few masters can tell"),
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

#[cfg(test)]
#[path = "inspect_tests.rs"]
mod tests;

//! One error for each operation. Each carries what every master answered.

use std::time::Duration;

use thiserror::Error;

use crate::{
    outcome::Outcomes,
    resources::{InvalidResources, Resources},
    signal::LostReason,
};

/// The shortest time to live of a lock.
pub const TTL_MIN: Duration = Duration::from_millis(1);
/// The longest time to live of a lock: 100 years.
pub const TTL_MAX: Duration = Duration::from_secs(3_155_760_000);

/// A time to live outside [`TTL_MIN`] ..= [`TTL_MAX`], or so short that no validity is left of it
/// once the drift is taken off, or longer than the restart guard.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a ttl of {ttl:?} cannot be had: {}", ttl_limit(*guard))]
#[non_exhaustive]
pub struct InvalidTtl {
    /// The time to live that was asked for.
    pub ttl: Duration,
    /// The restart guard ([`Builder::restart_guard`](crate::Builder::restart_guard)), where the time
    /// to live is longer than that.
    pub guard: Option<Duration>,
}

fn ttl_limit(guard: Option<Duration>) -> String {
    match guard {
        None => "it must be from 1 ms to 100 years, and longer than the drift".to_owned(),
        Some(guard) => {
            format!("the restart guard is {guard:?}, and a lock that lives longer would outlive it")
        }
    }
}

/// What the attempts of one acquisition came to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Attempts {
    /// What was to be locked.
    pub resources: Resources,
    /// How many attempts were made.
    pub count: u64,
    /// From the call to the error.
    pub waited: Duration,
    /// What every master answered in the last attempt.
    pub outcomes: Outcomes,
}

/// Why a lock was not acquired. Nothing is held then, and what had been written is taken back.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Nothing was sent: the resources are not of the form.
    #[error(transparent)]
    InvalidResources(#[from] InvalidResources),
    /// Nothing was sent: the time to live is out of range.
    #[error(transparent)]
    InvalidTtl(#[from] InvalidTtl),
    /// Somebody else holds it, or several tried at once and none got a quorum.
    #[error("{} is held by somebody else, after {} attempt(s) in {} ms: {}", .0.resources, .0.count, .0.waited.as_millis(), .0.outcomes)]
    Busy(Box<Attempts>),
    /// Too few masters answered. This says nothing about who holds the lock.
    #[error("no quorum of masters for {}, after {} attempt(s) in {} ms: {}", .0.resources, .0.count, .0.waited.as_millis(), .0.outcomes)]
    NoQuorum(Box<Attempts>),
    /// Enough masters answered, but too many of them are in quarantine: they came up empty, and wait
    /// until nobody can rely any more on what they knew. This says nothing about who holds the lock.
    /// On masters that were never in use, [`Redlock::initialise`](crate::Redlock::initialise) spares
    /// that.
    #[error("too many masters are in quarantine for a quorum for {}, after {} attempt(s) in {} ms: {}. They came up empty; if no lock was ever held on them, `Redlock::initialise` ends it", .0.resources, .0.count, .0.waited.as_millis(), .0.outcomes)]
    Quarantined(Box<Attempts>),
    /// A quorum granted it, but so late that no validity was left: the ttl is too short for
    /// masters this slow.
    #[error("a quorum granted {} too late for its ttl, after {} attempt(s) in {} ms: {}", .0.resources, .0.count, .0.waited.as_millis(), .0.outcomes)]
    Expired(Box<Attempts>),
    /// The wait limit ran out. The source is what the last attempt came to.
    #[error("gave up after {} ms: {last}", waited.as_millis())]
    #[non_exhaustive]
    Timeout {
        /// From the call to the error.
        waited: Duration,
        /// What the last attempt came to.
        #[source]
        last: Box<AcquireError>,
    },
    /// The masters have seen the largest fence that there can be (2^53 − 2), which no clock will
    /// propose before the year 2255: something wrote nonsense under the fence key.
    #[error("the fence of {} is used up; delete its fence key on every master", .0.resources)]
    FenceExhausted(Box<Attempts>),
    /// [`Redlock::shutdown`](crate::Redlock::shutdown) was called.
    #[error("shut down")]
    ShutDown,
}

impl AcquireError {
    /// Does it say that somebody else holds the lock? Looks into [`Timeout`](Self::Timeout) too.
    /// (Else masters were missing, or the call was wrong.)
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Busy(_) => true,
            Self::Timeout { last, .. } => last.is_busy(),
            _ => false,
        }
    }

    /// What every master answered in the last attempt, if one was made.
    #[must_use]
    pub fn outcomes(&self) -> Option<&Outcomes> {
        match self {
            Self::Busy(a)
            | Self::NoQuorum(a)
            | Self::Quarantined(a)
            | Self::Expired(a)
            | Self::FenceExhausted(a) => Some(&a.outcomes),
            Self::Timeout { last, .. } => last.outcomes(),
            Self::InvalidResources(_) | Self::InvalidTtl(_) | Self::ShutDown => None,
        }
    }
}

/// Why a lock was not extended.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// Nothing was sent: the time to live is out of range, or longer than the restart guard. The lock
    /// is what it was.
    #[error(transparent)]
    InvalidTtl(#[from] InvalidTtl),
    /// So many masters said that it is not ours any more that no quorum can hold it.
    #[error("the lock on {resources} is lost: {outcomes}")]
    #[non_exhaustive]
    Lost {
        /// What was locked.
        resources: Resources,
        /// What every master answered.
        outcomes: Outcomes,
    },
    /// The validity ended: before the call, or while too few masters answered.
    #[error("the lock on {resources} has expired: {}", or_nothing_sent(outcomes))]
    #[non_exhaustive]
    Expired {
        /// What was locked.
        resources: Resources,
        /// What every master answered in the last round; empty if nothing was sent.
        outcomes: Outcomes,
    },
    /// [`Redlock::shutdown`](crate::Redlock::shutdown) was called: there are no connections any
    /// more. The lock is valid for what it was, and then left to its ttl.
    #[error("the lock on {resources} cannot be extended after a shutdown")]
    #[non_exhaustive]
    ShutDown {
        /// What is locked.
        resources: Resources,
    },
}

/// Why a release did not free the lock for certain. Where masters can be reached the keys go
/// in the background all the same; elsewhere they expire by themselves.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The validity had ended before: somebody else may have held it since.
    #[error("the lock on {resources} had expired before it was released: {outcomes}")]
    #[non_exhaustive]
    Expired {
        /// What was locked.
        resources: Resources,
        /// What every master answered.
        outcomes: Outcomes,
    },
    /// The validity had not ended, but so many masters had no key of ours that no quorum held it.
    #[error("the lock on {resources} was lost before it was released: {outcomes}")]
    #[non_exhaustive]
    Lost {
        /// What was locked.
        resources: Resources,
        /// What every master answered.
        outcomes: Outcomes,
    },
    /// Too few masters answered. It stays locked until its ttl is over, or until they answer.
    #[error("no quorum of masters to release {resources}: {outcomes}")]
    #[non_exhaustive]
    NoQuorum {
        /// What was locked.
        resources: Resources,
        /// What every master answered.
        outcomes: Outcomes,
    },
}

/// Why [`using`](crate::Redlock::using) did not run a routine under a lock from beginning to end.
///
/// ```no_run
/// # async fn count() -> u64 { 1 }
/// # async fn example(redlock: fredlock::Redlock) -> Result<(), Box<dyn std::error::Error>> {
/// use fredlock::UsingError;
/// use std::time::Duration;
///
/// match redlock.using(["stock"], Duration::from_secs(5), async |_| count().await).await {
///     Ok(count) => println!("{count}"),
///     Err(UsingError::Lost { output: Some(count), reason, .. }) => {
///         println!("{count}, but somebody may have changed it: {reason}");
///     }
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UsingError<T> {
    /// The lock was not acquired: the routine never ran.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// Exclusivity ended before the routine did: while it ran, or before it could begin.
    #[error("exclusivity was lost before the routine had ended: {reason}")]
    #[non_exhaustive]
    Lost {
        /// What the routine returned; `None` if its future was dropped
        /// ([`AbortMode::DropRoutine`](crate::AbortMode::DropRoutine)), or if exclusivity ended
        /// before it could begin.
        output: Option<T>,
        /// How exclusivity ended.
        #[source]
        reason: LostReason,
    },
}

fn or_nothing_sent(outcomes: &Outcomes) -> String {
    if outcomes.iter().len() == 0 {
        "nothing was sent".to_owned()
    } else {
        outcomes.to_string()
    }
}

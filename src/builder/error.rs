//! Why nothing was built.

use std::time::Duration;

use thiserror::Error;

use super::MASTERS_MAX;

/// Why a [`Redlock`](crate::Redlock) could not be built.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No master was given.
    #[error("no master was given: name at least one, five as a rule")]
    NoMasters,
    /// More than [`MASTERS_MAX`] masters were given.
    #[error("{count} masters were given: at most {MASTERS_MAX} are allowed")]
    #[non_exhaustive]
    TooManyMasters {
        /// How many.
        count: usize,
    },
    /// A URL is not of the form. The URL itself is not shown, as it may hold a password.
    #[error("the URL of master {position} cannot be used: {reason}")]
    #[non_exhaustive]
    InvalidUrl {
        /// Which one, counted from 1.
        position: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The drift factor is not from 0 to 0.5.
    #[error("a drift factor of {0} cannot be used: it must be from 0 to 0.5")]
    InvalidDriftFactor(f64),
    /// The quorum is no majority of the masters, or more than there are.
    #[error("a quorum of {quorum} of {masters} masters cannot be used: it must be from {} to {masters}", masters / 2 + 1)]
    #[non_exhaustive]
    InvalidQuorum {
        /// What was asked for.
        quorum: usize,
        /// How many masters there are.
        masters: usize,
    },
    /// The restart guard is not from 1 ms to 100 years.
    #[error("a restart guard of {0:?} cannot be used: it must be from 1 ms to 100 years")]
    InvalidRestartGuard(Duration),
    /// Two masters have the same address.
    #[error("{0} is given twice; one server must not vote twice")]
    SameAddress(String),
    /// A cluster is no master.
    #[error("{0} is a cluster; masters are single servers without replication between them")]
    Cluster(String),
    /// Masters behind sentinels have to be allowed, since a fail-over can lose locks
    /// ([`Builder::allow_sentinel_managed`](crate::Builder::allow_sentinel_managed)).
    #[error(
        "{0} is managed by sentinels, whose fail-over can lose locks; `allow_sentinel_managed` lets it pass"
    )]
    SentinelManaged(String),
    /// The server behind an address must not vote.
    #[error("{master} cannot be a master: {reason}")]
    #[non_exhaustive]
    Unfit {
        /// Which master.
        master: String,
        /// Why: it is a replica, a cluster node, a sentinel, or the same server as another, which is
        /// named.
        reason: String,
    },
    /// It was called outside a tokio runtime.
    #[error("connecting needs a tokio runtime")]
    NoRuntime,
}

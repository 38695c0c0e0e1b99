//! What each master answered, and how long it took.

use std::{fmt, sync::Arc, time::Duration};

use thiserror::Error;

/// The answers of all masters in one round, in the order in which the masters were configured.
///
/// Its [`Display`](fmt::Display) is one readable line:
/// `10.0.0.1:6379 granted (0.4 ms); 10.0.0.2:6379 timed out (50.0 ms); …`.
///
/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Outcomes(Arc<[Outcome]>);

/// The answer of one master.
#[derive(Debug, Clone)]
pub struct Outcome {
    master: Arc<str>,
    answer: Answer,
    /// Microseconds, up to an hour: there may be very many of these.
    took: u32,
}

/// What a master said to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// It set every key.
    #[non_exhaustive]
    Granted {
        /// The largest fence that it had seen for these resources before; 0 if none, or without fencing.
        seen: u64,
    },
    /// It was free, but had seen a fence as large as the proposed one. Nothing was written.
    #[non_exhaustive]
    Stale {
        /// The largest fence that it has seen for these resources.
        seen: u64,
    },
    /// Somebody else's key stands there. Nothing was written.
    #[non_exhaustive]
    Busy {
        /// The largest fence that it has seen for these resources; 0 if none, or without fencing.
        seen: u64,
        /// How long until the keys in the way expire; `None` if one of them never does.
        time_left: Option<Duration>,
    },
    /// It set the new time to live on every key.
    Extended,
    /// A key of ours is gone there, and nobody with a larger fence has been.
    Missing,
    /// Not ours there: another value stands under a key, or somebody with a larger fence has been.
    NotHeld,
    /// It deleted every key of ours.
    Released,
    /// It has forgotten what it knew, and is no vote until the restart guard's time is over
    /// ([`Builder::restart_guard`](crate::Builder::restart_guard)). It grants nothing; an extension
    /// is done there, but does not count.
    #[non_exhaustive]
    Quarantined {
        /// How long that lasts.
        time_left: Duration,
        /// Did an extension find no key of ours there? Then it is put back.
        missing: bool,
    },
    /// It had not answered when the round was decided. It is followed up in the background.
    Pending,
    /// It did not answer, or with an error.
    Failed(MasterError),
}

/// Why a master gave no useful answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MasterError {
    /// No answer within the command timeout. The master may have done what was asked.
    #[error("timed out")]
    Timeout,
    /// The connection was lost before the answer came. The master may have done what was asked.
    #[error("connection lost: {0}")]
    ConnectionLost(String),
    /// There is no connection; nothing was sent. With the error of the last try to connect.
    #[error("not connected: {0}")]
    NotConnected(String),
    /// It has not answered for a while; nothing was sent until a probe of it succeeds.
    #[error("not responding, waiting for a probe")]
    Unresponsive,
    /// It must not vote: it is a replica, a cluster node, a sentinel, or the same server as
    /// another master. Nothing was sent.
    #[error("refused as a master: {0}")]
    Unfit(String),
    /// The server's error, as it gave it, such as `NOPERM …`, `READONLY …` or `OOM …`.
    #[error("{0}")]
    Server(String),
    /// The server's answer is none that the command can have.
    #[error("unexpected answer: {0}")]
    Unexpected(String),
}

impl MasterError {
    /// May the master have done what was asked, or do it still?
    pub(crate) fn is_ambiguous(&self) -> bool {
        matches!(
            self,
            Self::Timeout | Self::ConnectionLost(_) | Self::Unexpected(_)
        )
    }
}

impl Answer {
    /// After this answer to an acquire, may a key of ours stand on the master, now or later?
    pub(crate) fn may_have_written(&self) -> bool {
        match self {
            Self::Stale { .. } | Self::Busy { .. } | Self::Quarantined { .. } => false,
            Self::Failed(error) => error.is_ambiguous(),
            _ => true,
        }
    }

    /// After this answer to an extension, is the key to be put back?
    pub(crate) fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::Missing | Self::Quarantined { missing: true, .. }
        )
    }

    /// The largest fence that the master told of.
    pub(crate) fn seen(&self) -> u64 {
        match self {
            Self::Granted { seen } | Self::Stale { seen } | Self::Busy { seen, .. } => *seen,
            _ => 0,
        }
    }
}

impl Outcomes {
    pub(crate) fn pending(masters: impl Iterator<Item = Arc<str>>) -> Self {
        Self(
            masters
                .map(|master| Outcome {
                    master,
                    answer: Answer::Pending,
                    took: 0,
                })
                .collect(),
        )
    }

    pub(crate) fn record(&mut self, index: usize, answer: Answer, took: Duration) {
        // A copy where somebody was told how it stood before.
        let outcome = &mut Arc::make_mut(&mut self.0)[index];
        outcome.answer = answer;
        outcome.took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
    }

    /// One for each master, in the order of configuration.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Outcome> {
        self.0.iter()
    }

    pub(crate) fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.0.iter().map(|outcome| &outcome.answer)
    }
}

impl Outcome {
    /// The name of the master: its host and port, or the path of its socket, and its database unless
    /// that is 0 (`10.0.0.1:6379/3`); never credentials.
    #[must_use]
    pub fn master(&self) -> &str {
        &self.master
    }

    /// What it said.
    #[must_use]
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// From just before the request was sent to its answer, in whole microseconds; zero while that is
    /// pending.
    #[must_use]
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.took.into())
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, outcome) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{outcome}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.master, self.answer)?;
        match self.answer {
            Answer::Pending => Ok(()),
            _ => write!(f, " ({:.1} ms)", self.took().as_secs_f64() * 1e3),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted { .. } => f.write_str("granted"),
            Self::Stale { seen } => write!(f, "has seen fence {seen}"),
            Self::Busy {
                time_left: Some(left),
                ..
            } => write!(f, "held for {} ms more", left.as_millis()),
            Self::Busy {
                time_left: None, ..
            } => f.write_str("held without expiry"),
            Self::Extended => f.write_str("extended"),
            Self::Missing => f.write_str("has no key of ours"),
            Self::NotHeld => f.write_str("held by somebody else"),
            Self::Released => f.write_str("released"),
            Self::Quarantined { time_left, .. } => write!(
                f,
                "came up empty, in quarantine for {} ms more",
                time_left.as_millis()
            ),
            Self::Pending => f.write_str("not heard yet"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_every_master_and_its_answer_in_one_line() {
        let mut outcomes = Outcomes::pending(["a:1", "b:2", "c:3"].into_iter().map(Arc::from));
        outcomes.record(0, Answer::Granted { seen: 0 }, Duration::from_micros(400));
        outcomes.record(
            1,
            Answer::Failed(MasterError::Timeout),
            Duration::from_millis(50),
        );
        assert_eq!(
            outcomes.to_string(),
            "a:1 granted (0.4 ms); b:2 timed out (50.0 ms); c:3 not heard yet"
        );
    }
}

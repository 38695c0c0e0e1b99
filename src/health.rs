//! Can locks be had? For readiness checks.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    core::Told, fence::Fencing, inspect::GuardState, master::Question, outcome::MasterError,
    redlock::Redlock,
};

/// Which masters can vote, and whether they are enough. Made by [`Redlock::health`].
///
/// Its [`Display`](fmt::Display) is one line: `ready, 2 of 3 masters vote and 2 are needed:
/// 10.0.0.1:6379 votes (0.3 ms); …`.
#[derive(Debug, Clone)]
pub struct Health {
    masters: Vec<MasterHealth>,
    quorum: usize,
}

/// What one master said.
#[derive(Debug, Clone)]
pub struct MasterHealth {
    master: Arc<str>,
    state: MasterState,
    took: Duration,
}

/// Whether a master can vote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MasterState {
    /// It answers, and votes.
    Votes,
    /// It answers, and has no vote until its restart guard lets it: it is in quarantine, or has no
    /// marker yet.
    Waits(GuardState),
    /// It does not answer in time, or with an error, or must not vote.
    Failed(MasterError),
}

impl Redlock {
    /// Asks every master whether it is there, and says whether enough of them can vote for a lock to
    /// be had: for the readiness check of a service that cannot work without.
    ///
    /// Writes nothing, and looks at no lock: one short command for each master, all at once. Every
    /// master is waited for, each for the [`command_timeout`](crate::Settings::command_timeout)
    /// (100 ms by default); one that is known to be down, or to hang, is not asked, and costs no
    /// time. A master that would refuse to write (`MISCONF`, `OOM`) is not found out so.
    ///
    /// It says nothing about liveness: a service must not be restarted because masters are down.
    ///
    /// ```
    /// # #[cfg(feature = "testing")]
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let masters = fredlock::testing::MemoryMasters::new(3);
    /// # let redlock = fredlock::Redlock::builder().memory(&masters).connect().await.unwrap();
    /// let health = redlock.health().await;
    /// let status = if health.is_ready() { 200 } else { 503 };
    /// let body = health.to_string(); // a line that names every master
    /// # assert_eq!(status, 200, "{body}");
    /// # });
    /// ```
    ///
    /// After [`shutdown`](Self::shutdown) nothing is asked, and no master votes.
    ///
    /// # Cancel safety
    /// Loses nothing but the answer.
    pub async fn health(&self) -> Health {
        let core = self.core();
        let quorum = core.quorum.needed;
        if core.shutdown.is_cancelled() {
            let masters = core.masters.iter().map(|master| MasterHealth {
                master: Arc::clone(master.name()),
                state: MasterState::Failed(MasterError::NotConnected("shut down".to_owned())),
                took: Duration::ZERO,
            });
            return Health {
                masters: masters.collect(),
                quorum,
            };
        }
        // Without a guard its keys are none of ours: the user may lack the permission to look.
        let question = match core.guard {
            Some(_) => Question::GuardState,
            None => Question::Alive {
                scripted: core.fencing != Fencing::Off,
            },
        };
        let timeout = self.settings().question_timeout();
        let told = core.ask_all(&question, timeout).await;
        Health {
            masters: told.into_iter().map(MasterHealth::new).collect(),
            quorum,
        }
    }
}

impl Health {
    /// Can a quorum of masters vote?
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.voting() >= self.quorum
    }

    /// How many masters can vote.
    #[must_use]
    pub fn voting(&self) -> usize {
        let votes = |one: &&MasterHealth| one.state == MasterState::Votes;
        self.masters.iter().filter(votes).count()
    }

    /// How many are needed for a lock.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.quorum
    }

    /// One for each master, in the order of configuration.
    #[must_use]
    pub fn masters(&self) -> impl ExactSizeIterator<Item = &MasterHealth> {
        self.masters.iter()
    }
}

impl MasterHealth {
    fn new(told: Told) -> Self {
        let state = match told.sight {
            Err(error) => MasterState::Failed(error),
            Ok(sight) => match sight.guard.map(GuardState::new) {
                None | Some(GuardState::Ready) => MasterState::Votes,
                Some(waits) => MasterState::Waits(waits),
            },
        };
        Self {
            master: told.master,
            state,
            took: told.took,
        }
    }

    /// The name of the master, as in [`Outcome::master`](crate::Outcome::master).
    #[must_use]
    pub fn master(&self) -> &str {
        &self.master
    }

    /// Whether it can vote.
    #[must_use]
    pub fn state(&self) -> &MasterState {
        &self.state
    }

    /// From just before it was asked to its answer.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ready = if self.is_ready() { "" } else { "not " };
        let (voting, all, quorum) = (self.voting(), self.masters.len(), self.quorum);
        write!(
            f,
            "{ready}ready, {voting} of {all} masters vote and {quorum} are needed: "
        )?;
        for (
            i,
            MasterHealth {
                master,
                state,
                took,
            },
        ) in self.masters.iter().enumerate()
        {
            let separator = if i == 0 { "" } else { "; " };
            let took = took.as_secs_f64() * 1e3;
            write!(f, "{separator}{master} {state} ({took:.1} ms)")?;
        }
        Ok(())
    }
}

impl fmt::Display for MasterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Votes => f.write_str("votes"),
            Self::Waits(GuardState::Quarantined { time_left }) => {
                let left = time_left.as_millis();
                write!(f, "is in quarantine for {left} ms more")
            }
            Self::Waits(_) => f.write_str("is not initialised"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

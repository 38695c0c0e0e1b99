//! Telling masters that they have not forgotten anything, for a restart guard that has just come.

use std::{fmt, sync::Arc, time::Duration};

use thiserror::Error;

use crate::{
    core::Told,
    inspect::GuardState,
    master::{GuardSight, Question},
    outcome::MasterError,
    redlock::Redlock,
};

/// What [`Redlock::initialise`] found and did on every master.
///
/// Its [`Display`](fmt::Display) is one line: `10.0.0.1:6379 initialised; …`.
#[derive(Debug, Clone)]
pub struct Initialisation(Vec<InitialisedMaster>);

/// What was found and done on one master.
#[derive(Debug, Clone)]
pub struct InitialisedMaster {
    master: Arc<str>,
    state: InitialiseState,
}

/// Whether a master is initialised.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InitialiseState {
    /// It had no marker, or was in quarantine: now it has one, and votes.
    Initialised,
    /// It had its marker already, and was out of quarantine. Nothing was done.
    Already,
    /// It was left alone: this is the state that it is in.
    LeftAlone(GuardState),
    /// It did not answer, or with an error.
    Failed(MasterError),
}

/// Why not every master is initialised. The report says what each is.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum InitialiseError {
    /// Some masters are initialised already, so these are in use: those that have no marker, or are
    /// in quarantine, have forgotten what they knew, and were left alone. They vote when the guard's
    /// time is over.
    #[error("some masters are in use, so those that came up empty have to wait: {0}")]
    InUse(Initialisation),
    /// Not every master answered. Whoever did not may be in use, so nothing was done where that was
    /// found out first.
    #[error("not every master answered: {0}")]
    Unanswered(Initialisation),
    /// [`Redlock::shutdown`] was called.
    #[error("shut down")]
    ShutDown,
}

impl Redlock {
    /// Marks all masters as knowing what they should, so that a restart guard
    /// ([`Builder::restart_guard`](crate::Builder::restart_guard)) need not wait: for a new cluster,
    /// on which no lock was ever held, or before a guard comes to masters that are in use without
    /// one. Ends quarantines that have begun already. It need not have a guard itself.
    ///
    /// **Call it only if no master has come up empty within the longest ttl in use and the skew of
    /// the clients' clocks.** The masters cannot tell a new cluster from one that lost everything
    /// in a power cut a moment ago: then two holders are possible, which is what the guard is
    /// against. After such a cut, wait for so long, or let the guard do so.
    ///
    /// It is safe to call it at every deployment otherwise: as soon as one master is initialised and
    /// out of quarantine, the masters are in use, and one that came up empty (a new one at the
    /// address of a master that was replaced, say) is left to its quarantine. Nothing has to be done
    /// for such a one: the first lock that is asked of it starts its time.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use fredlock::Redlock;
    /// use std::time::Duration;
    ///
    /// let builder = Redlock::builder().urls(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]);
    /// let redlock = builder.restart_guard(Duration::from_secs(60)).connect().await?;
    /// println!("{}", redlock.initialise().await?);
    /// # Ok(()) }
    /// ```
    ///
    /// Every master is waited for, each for the
    /// [`command_timeout`](crate::Settings::command_timeout) (100 ms by default), twice.
    ///
    /// # Errors
    /// - [`InitialiseError::Unanswered`] if a master did not answer. If that was at the first look,
    ///   nothing was changed; call it again when all are up;
    /// - [`InitialiseError::InUse`] if some are initialised and others are not: nothing was changed;
    /// - [`InitialiseError::ShutDown`] after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    /// Masters that were told already are initialised all the same, and so the others have to wait
    /// out the guard, or their markers to be deleted by hand (`DEL fredlock:guard:marker`).
    pub async fn initialise(&self) -> Result<Initialisation, InitialiseError> {
        let core = self.core();
        if core.shutdown.is_cancelled() {
            return Err(InitialiseError::ShutDown);
        }
        let timeout = self.settings().question_timeout();
        let found = Initialisation::left_alone(core.ask_all(&Question::GuardState, timeout).await);
        if found.any(|state| matches!(state, InitialiseState::Failed(_))) {
            return Err(InitialiseError::Unanswered(found));
        }
        let is_ready = |state: &InitialiseState| *state == InitialiseState::Already;
        if found.any(is_ready) {
            let all_are = found.0.iter().all(|master| is_ready(&master.state));
            return if all_are {
                Ok(found)
            } else {
                Err(InitialiseError::InUse(found))
            };
        }
        let done = Initialisation::left_alone(core.ask_all(&Question::Initialise, timeout).await);
        if done.any(|state| matches!(state, InitialiseState::Failed(_))) {
            return Err(InitialiseError::Unanswered(done));
        }
        Ok(done)
    }
}

impl Initialisation {
    fn left_alone(told: Vec<Told>) -> Self {
        let state = |told: &Told| match &told.sight {
            Err(error) => InitialiseState::Failed(error.clone()),
            Ok(sight) => match sight.guard {
                Some(GuardSight::Initialised) => InitialiseState::Initialised,
                Some(GuardSight::Ready) => InitialiseState::Already,
                Some(other) => InitialiseState::LeftAlone(GuardState::new(other)),
                None => InitialiseState::LeftAlone(GuardState::Unmarked),
            },
        };
        let masters = told.into_iter().map(|told| InitialisedMaster {
            state: state(&told),
            master: told.master,
        });
        Self(masters.collect())
    }

    /// One for each master, in the order of configuration.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &InitialisedMaster> {
        self.0.iter()
    }

    fn any(&self, is: impl Fn(&InitialiseState) -> bool) -> bool {
        self.0.iter().any(|master| is(&master.state))
    }
}

impl InitialisedMaster {
    /// The name of the master, as in [`Outcome::master`](crate::Outcome::master).
    #[must_use]
    pub fn master(&self) -> &str {
        &self.master
    }

    /// What it is now.
    #[must_use]
    pub fn state(&self) -> &InitialiseState {
        &self.state
    }
}

impl fmt::Display for Initialisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, InitialisedMaster { master, state }) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{master} {state}")?;
        }
        Ok(())
    }
}

impl fmt::Display for InitialiseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Initialised => f.write_str("initialised"),
            Self::Already => f.write_str("was initialised already"),
            Self::LeftAlone(GuardState::Quarantined { time_left }) => write!(
                f,
                "in quarantine for {} ms more",
                Duration::as_millis(time_left)
            ),
            Self::LeftAlone(_) => f.write_str("left without a marker"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

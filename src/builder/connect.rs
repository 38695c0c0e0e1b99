//! From settings to connected masters.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{BuildError, Builder, MASTERS_MAX};
use crate::{
    background::Background,
    core::Core,
    fence::FenceMemory,
    fleet::{self, Fleet},
    mark::Mark,
    meter::Meter,
    quorum::Quorum,
    redlock::Redlock,
    settings::whole_ttl,
    wait::{crowd::Crowd, queue::Queue},
};

impl Builder {
    /// Connects to the masters.
    ///
    /// A master that is down is never waited for: this returns once every master has been looked
    /// at or found down; 200 ms after a quorum has; and after the connect timeout in any case. The
    /// rest joins when it comes up. A quorum is always one of all masters that were given.
    ///
    /// Has to be called on the runtime that is to run the background work; the [`Redlock`] is of use
    /// no longer than that lives, wherever it is called from. (Each `#[tokio::test]` has a runtime of
    /// its own: do not share one between them in a `static`.)
    ///
    /// With the feature `metrics` it takes the handles of the recorder that is installed by then; one that
    /// comes later is told nothing.
    ///
    /// # Errors
    /// [`BuildError`] if the configuration is wrong, or a server that answered must not vote. That
    /// too few masters are up is no error here.
    ///
    /// # Cancel safety
    /// Connections that were begun are closed.
    pub async fn connect(self) -> Result<Redlock, BuildError> {
        tokio::runtime::Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        if self.sources.is_empty() {
            return Err(BuildError::NoMasters);
        }
        if self.sources.len() > MASTERS_MAX {
            return Err(BuildError::TooManyMasters {
                count: self.sources.len(),
            });
        }
        if !(0.0..=0.5).contains(&self.drift_factor) {
            return Err(BuildError::InvalidDriftFactor(self.drift_factor));
        }
        let guard = self.guard.map(whole_guard).transpose()?;
        let masters = self.sources.len();
        let quorum = match self.quorum {
            None => Quorum::majority(masters),
            Some(quorum) => {
                Quorum::of(masters, quorum).ok_or(BuildError::InvalidQuorum { quorum, masters })?
            }
        };
        let background = Background::new();
        #[cfg(feature = "testing")]
        let background = background.paused_by(self.pause);
        let Fleet { masters, contacts } = Fleet::open(
            self.sources,
            self.allow_sentinel_managed,
            self.direct_max,
            &background,
        )?;
        #[cfg(feature = "testing")]
        let quorum = Quorum {
            of_connected: self.mutant == Some(crate::testing::Mutant::QuorumOfConnected),
            ..quorum
        };
        // From here on the core closes the connections, however this ends.
        let core = Core {
            meter: Meter::new(masters.iter().map(|master| master.name())),
            masters,
            quorum,
            fencing: self.fencing,
            drift_factor: self.drift_factor,
            guard,
            background,
            shutdown: CancellationToken::new(),
            closed: CancellationToken::new(),
            fences: FenceMemory::default(),
            #[cfg(not(feature = "testing"))]
            queue: Arc::new(Queue::new(None)),
            #[cfg(feature = "testing")]
            queue: Arc::new(Queue::new(self.mutant)),
            crowd: Crowd::default(),
            client: self.entropy.bits().to_le_bytes()[0],
            mark: Mark::fresh(&self.entropy),
            entropy: self.entropy,
            wall_clock: self.wall_clock,
            clock: self.clock,
            #[cfg(feature = "testing")]
            mutant: self.mutant,
        };
        fleet::first_contact(contacts, quorum, self.connect_timeout).await?;
        Ok(Redlock::new(Arc::new(core), self.settings))
    }
}

/// A guard as masters keep it: in whole milliseconds.
fn whole_guard(guard: Duration) -> Result<Duration, BuildError> {
    match whole_ttl(guard) {
        Ok(guard) => Ok(guard),
        Err(_) => Err(BuildError::InvalidRestartGuard(guard)),
    }
}

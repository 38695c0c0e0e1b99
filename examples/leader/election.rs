//! Leader election on `using`: whoever holds the lock leads.

use std::time::Duration;

use fredlock::{Fence, InspectError, OwnerLabel, Possession, Redlock, Retry, Signal, UsingError};
use tokio::time::sleep;

/// One candidate's part in an election.
#[derive(Debug, Clone)]
pub(crate) struct Election {
    redlock: Redlock,
    name: String,
    ttl: Duration,
}

/// The time in which this candidate leads.
#[derive(Debug, Clone)]
pub(crate) struct Term(Signal);

impl Election {
    /// `name` is what is contended for, and `candidate` what observers are told; a leader that dies
    /// is followed after `ttl` at the latest.
    pub(crate) fn new(redlock: &Redlock, name: &str, candidate: OwnerLabel, ttl: Duration) -> Self {
        let redlock = redlock.with(|settings| {
            // A candidate waits as long as it takes, also while there is no quorum.
            let patient = settings.retry(Retry::default().unlimited());
            patient.owner_label(candidate)
        });
        Self {
            redlock,
            name: name.to_owned(),
            ttl,
        }
    }

    /// Waits to be elected, and then leads. Returning from `lead` resigns, and the next candidate is
    /// elected within milliseconds; so does dropping this future.
    ///
    /// # Errors
    /// [`UsingError::Lost`] if it was deposed meanwhile (masters were out of reach, or an operator broke
    /// the lock): campaign again. [`UsingError::Acquire`] after a shutdown.
    pub(crate) async fn campaign<T, F, Fut>(&self, lead: F) -> Result<T, UsingError<T>>
    where
        F: FnOnce(Term) -> Fut,
        Fut: Future<Output = T>,
    {
        let lead = async |signal| lead(Term(signal)).await;
        self.redlock.using([&self.name], self.ttl, lead).await
    }

    /// Who leads, as a quorum of masters has it; `None` if nobody does, or too few can tell. It may
    /// be over when it is read: decide nothing by it that only the leader may do.
    ///
    /// # Errors
    /// After a shutdown.
    pub(crate) async fn leader(&self) -> Result<Option<String>, InspectError> {
        let inspection = self.redlock.inspect(&self.name).await?;
        Ok(match inspection.verdict() {
            Possession::Held { holder, .. } => holder.label().map(|label| label.to_string()),
            _ => None,
        })
    }

    /// Waits until another leads than the `last`, looking so often.
    ///
    /// # Errors
    /// After a shutdown.
    pub(crate) async fn successor(
        &self,
        last: Option<&str>,
        every: Duration,
    ) -> Result<String, InspectError> {
        loop {
            match self.leader().await? {
                Some(leader) if Some(leader.as_str()) != last => return Ok(leader),
                _ => sleep(every).await,
            }
        }
    }
}

impl Term {
    /// Larger than that of every earlier leader: what is led has to refuse smaller ones.
    pub(crate) fn number(&self) -> Fence {
        self.0.fence()
    }

    /// Is it over? Look before every deed.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_aborted()
    }

    /// Waits until it is over, which is before anybody else can be elected.
    pub(crate) async fn over(&self) {
        self.0.aborted().await;
    }
}

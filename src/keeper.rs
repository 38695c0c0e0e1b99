//! The task that extends the lock of one `using`, and releases it at the end.

use std::sync::Arc;

use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::after,
    error::ExtendError,
    lock::Lock,
    settings::Settings,
    signal::{Lease, LostReason},
    telemetry,
};

/// It runs as its own task, so that a routine that is slow to yield does not starve it.
pub(crate) struct Keeper {
    pub(crate) lock: Lock,
    pub(crate) lease: Arc<Lease>,
    /// Cancelled when the routine has ended, however it did.
    pub(crate) stop: CancellationToken,
    pub(crate) shutdown: CancellationToken,
    pub(crate) threshold: std::time::Duration,
    pub(crate) hold_until: Option<Instant>,
}

impl Keeper {
    pub(crate) fn new(
        lock: Lock,
        lease: Arc<Lease>,
        stop: CancellationToken,
        shutdown: CancellationToken,
        settings: &Settings,
        ttl: std::time::Duration,
    ) -> Self {
        let threshold = settings.extension_threshold_for(ttl);
        let hold_until = settings.hold_limit.map(after);
        Self {
            lock,
            lease,
            stop,
            shutdown,
            threshold,
            hold_until,
        }
    }

    /// Extends until the routine has ended, and releases then: also after a loss, since keys of
    /// ours may be left, and never before, since the routine may still be writing.
    pub(crate) async fn run(mut self, started: oneshot::Sender<()>, released: oneshot::Sender<()>) {
        // A sender that is dropped is news enough.
        drop(started);
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            reason = self.extend_until_lost() => {
                if !matches!(reason, LostReason::Ended) {
                    telemetry::lost(self.lock.resources(), self.lock.token(), &reason);
                }
                stop.cancelled().await;
            }
        }
        let (resources, token) = (self.lock.resources().clone(), self.lock.token());
        let was_lost = !matches!(self.lease.lose(LostReason::Ended), LostReason::Ended);
        if let Err(error) = self.lock.release().await {
            // After a loss it is no news that the keys were gone.
            if !was_lost {
                telemetry::release_failed(&resources, token, &error);
            }
        }
        drop(released);
    }

    /// # Cancel safety
    /// The lock stays valid for what it was.
    async fn extend_until_lost(&mut self) -> LostReason {
        let hold_until = self.hold_until;
        let held_too_long = async {
            match hold_until {
                Some(end) => sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        let (lease, shutdown) = (Arc::clone(&self.lease), self.shutdown.clone());
        tokio::select! {
            biased;
            () = shutdown.cancelled() => lease.lose(LostReason::ShutDown),
            () = held_too_long => lease.lose(LostReason::HoldLimit),
            reason = self.extend_while_ours() => reason,
        }
    }

    async fn extend_while_ours(&mut self) -> LostReason {
        loop {
            let ends = match self.lease.look() {
                Ok(ends) => ends,
                Err(reason) => return reason,
            };
            let lease = &*self.lease;
            let extension = async {
                let due = self.lock.valid_until().checked_sub(self.threshold);
                sleep_until(due.unwrap_or_else(Instant::now)).await;
                self.lock.renew(|outcomes| lease.note(outcomes)).await
            };
            tokio::select! {
                biased;
                result = extension => match result {
                    Ok(()) => {
                        if let Err(reason) = lease.extend(self.lock.valid_until(), self.lock.outcomes().clone()) {
                            return reason;
                        }
                    }
                    Err(ExtendError::Lost { outcomes, .. }) => return lease.lose(LostReason::Gone { outcomes }),
                    Err(_) => {
                        let outcomes = self.lock.outcomes().clone();
                        return lease.lose(LostReason::Expired { outcomes });
                    }
                },
                // The end of validity, whatever the masters do. What is under way is followed up
                // elsewhere, and revives nothing.
                () = sleep_until(ends) => {}
                () = lease.over() => {}
            }
        }
    }
}

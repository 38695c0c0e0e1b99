//! The task that extends the lock of one `using`, and releases it at the end.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    alarm,
    clock::after,
    error::ExtendError,
    lock::Lock,
    settings::Settings,
    signal::{Lease, LostReason},
    telemetry,
};

/// The shortest time between two alarms for an extension that is late.
const ALARM_STEP_MIN: Duration = Duration::from_millis(1);

/// For so long a suspension of the machine may go unnoticed, once it is over.
const SUSPENSION_UNSEEN_MAX: Duration = Duration::from_secs(1);

/// It runs as its own task, so that a routine that is slow to yield does not starve it.
pub(crate) struct Keeper {
    // First, so that the lease has ended before a lock that is dropped with it is released.
    lease: EndedWithKeeper,
    lock: Lock,
    /// Cancelled when the routine has ended, however it did.
    stop: CancellationToken,
    shutdown: CancellationToken,
    threshold: Duration,
    hold_until: Option<Instant>,
}

/// No lease outlives its keeper, which may be dropped at any await: with its runtime.
struct EndedWithKeeper(Arc<Lease>);

impl Drop for EndedWithKeeper {
    fn drop(&mut self) {
        self.0.lose(LostReason::ShutDown);
    }
}

impl Keeper {
    pub(crate) fn new(
        lock: Lock,
        lease: Arc<Lease>,
        stop: CancellationToken,
        shutdown: CancellationToken,
        settings: &Settings,
        ttl: Duration,
    ) -> Self {
        let threshold = settings.extension_threshold_for(ttl);
        let hold_until = settings.hold_limit.map(after);
        Self {
            lease: EndedWithKeeper(lease),
            lock,
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
        let (resources, token) = (self.lock.resources().clone(), self.lock.token());
        let (stop, lease) = (self.stop.clone(), Arc::clone(&self.lease.0));
        let reason = tokio::select! {
            biased;
            () = stop.cancelled() => lease.lose(LostReason::Ended),
            reason = self.extend_until_lost() => reason,
        };
        let was_lost = !matches!(reason, LostReason::Ended);
        if was_lost {
            telemetry::lost(&resources, token, &reason);
        }
        stop.cancelled().await;
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
        let (lease, shutdown) = (Arc::clone(&self.lease.0), self.shutdown.clone());
        tokio::select! {
            biased;
            () = shutdown.cancelled() => lease.lose(LostReason::ShutDown),
            () = held_too_long => lease.lose(LostReason::HoldLimit),
            reason = self.extend_while_ours() => reason,
        }
    }

    async fn extend_while_ours(&mut self) -> LostReason {
        loop {
            let ends = match self.lease.0.look() {
                Ok(ends) => ends,
                Err(reason) => return reason,
            };
            let lease = &*self.lease.0;
            let (valid_until, threshold) = (self.lock.valid_until().clone(), self.threshold);
            let due = move || {
                let due = valid_until.at().checked_sub(threshold);
                due.unwrap_or_else(Instant::now)
            };
            let first_due = due();
            let extension = async {
                // No timer knows of a suspension of the machine: so it is looked for.
                while Instant::now() < due() {
                    sleep_until(due().min(Instant::now() + SUSPENSION_UNSEEN_MAX)).await;
                }
                self.lock.renew(|outcomes| lease.note(outcomes)).await
            };
            // Where all is well it has ended long before the first alarm.
            let step = ALARM_STEP_MIN.max(self.threshold / 8);
            let extension = alarm::rouse(first_due + step, step, extension);
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

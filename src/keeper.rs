//! The task that extends the lock of one `using`, and releases it at the end.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{
    alarm::{self, Rouser},
    clock::{Deadline, after},
    error::ExtendError,
    lock::Lock,
    progress::Step,
    settings::Settings,
    signal::{Lease, LostReason, MARGIN},
    telemetry,
};

/// The shortest time between two alarms for an extension that is late.
const ALARM_STEP_MIN: Duration = Duration::from_millis(1);

/// For so long a suspension of the machine may go unnoticed once it is over, on a runtime of one
/// thread. On others the alarm's thread looks for it.
const SUSPENSION_UNSEEN_MAX: Duration = Duration::from_secs(1);

/// By how much of the time until it is due an extension may come earlier, at random. Locks that were
/// taken at one moment, or brought into step by masters that hung, are then extended over a time in
/// which masters can: 100,000 with a ttl of a minute over half a minute. With a tenth, they were so
/// many at once that masters could not answer within the threshold, and nearly all were lost.
const SPREAD: f64 = 0.5;

/// It runs as its own task, so that a routine that is slow to yield does not starve it.
pub(crate) struct Keeper {
    // First, so that the lease has ended before a lock that is dropped with it is released.
    lease: EndedWithKeeper,
    lock: Lock,
    shutdown: CancellationToken,
    threshold: Duration,
    /// How long before the end of validity to extend next.
    early: Duration,
    hold_until: Option<Instant>,
    // Last, so that the caller goes on only after that.
    _released: ReleasedWithKeeper,
}

/// No lease outlives its keeper, which may be dropped at any await: with its runtime.
struct EndedWithKeeper(Arc<Lease>);

impl Drop for EndedWithKeeper {
    fn drop(&mut self) {
        self.0.lose(LostReason::ShutDown);
    }
}

/// No caller waits for a keeper that is gone.
struct ReleasedWithKeeper(Arc<Lease>);

impl Drop for ReleasedWithKeeper {
    fn drop(&mut self) {
        self.0.progress().reach(Step::Started);
        self.0.progress().reach(Step::Released);
    }
}

impl Keeper {
    pub(crate) fn new(
        mut lock: Lock,
        lease: Arc<Lease>,
        shutdown: CancellationToken,
        settings: &Settings,
        ttl: Duration,
    ) -> Self {
        let threshold = settings.extension_threshold_for(ttl);
        let hold_until = settings.hold_limit.map(after);
        lock.kept();
        Self {
            lease: EndedWithKeeper(Arc::clone(&lease)),
            lock,
            shutdown,
            threshold,
            early: Duration::ZERO,
            hold_until,
            _released: ReleasedWithKeeper(lease),
        }
    }

    /// Extends until the routine has ended, and releases then: also after a loss, since keys of
    /// ours may be left, and never before, since the routine may still be writing.
    ///
    /// (Boxed, as it would hold itself twice otherwise: what it is called on, and what it moves that to.)
    #[expect(clippy::manual_async_fn, reason = "that has each argument twice")]
    pub(crate) fn run(mut self: Box<Self>) -> impl Future<Output = ()> + Send {
        async move {
            self.lease.0.progress().reach(Step::Started);
            let reason = self.keep().await;
            self.lock.ended(&reason);
            let was_lost = !matches!(reason, LostReason::Ended);
            if was_lost {
                telemetry::lost(self.lock.resources(), self.lock.token(), &reason);
            }
            self.lease.0.progress().wait(Step::RoutineEnded).await;
            Box::pin(self.release(was_lost)).await;
        }
    }

    /// Extends until it is over, and says how it ended.
    ///
    /// Most of its life it rests, and there may be very many that do: one timer, and memory for what
    /// an extension takes only while there is one.
    async fn keep(&mut self) -> LostReason {
        loop {
            if let Err(reason) = self.lease.0.look() {
                return reason;
            }
            self.early = self.next_early();
            if let Some(reason) = self.rest().await {
                return self.lease.0.lose(reason);
            }
            if self.hold_until.is_some_and(|end| Instant::now() >= end) {
                return self.lease.0.lose(LostReason::HoldLimit);
            }
            let due = self.lock.valid_until().before(self.early);
            if due.is_over()
                && let Some(reason) = Box::pin(self.extend(&due)).await
            {
                return reason;
            }
        }
    }

    /// Waits for the next moment at which something is to be done: an extension, so long before the
    /// end of validity, or an end. It may have come nearer, by the first look after a suspension of
    /// the machine: no timer knows of that.
    ///
    /// Sooner if it is over by somebody's will.
    async fn rest(&self) -> Option<LostReason> {
        let mut rouser = Rouser::new(self.next() + self.alarm_step());
        let mut shutdown = pin!(self.shutdown.cancelled());
        let mut sleep = pin!(sleep_until(self.look_at(&rouser)));
        poll_fn(|cx| {
            rouser.watch_over(self.alarm_step(), cx);
            if self
                .lease
                .0
                .progress()
                .poll(Step::RoutineEnded, cx)
                .is_ready()
            {
                return Poll::Ready(Some(LostReason::Ended));
            }
            if shutdown.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Some(LostReason::ShutDown));
            }
            loop {
                if self.next() <= Instant::now() {
                    return Poll::Ready(None);
                }
                ready!(sleep.as_mut().poll(cx));
                sleep.as_mut().reset(self.look_at(&rouser));
            }
        })
        .await
    }

    /// The next moment at which something is to be done.
    fn next(&self) -> Instant {
        let due = self.lock.valid_until().before(self.early.max(MARGIN)).at();
        self.hold_until.map_or(due, |end| end.min(due))
    }

    /// When to look whether it has come.
    fn look_at(&self, rouser: &Rouser) -> Instant {
        let next = self.next();
        if rouser.is_idle() {
            next.min(Instant::now() + SUSPENSION_UNSEEN_MAX)
        } else {
            next
        }
    }

    /// One extension; says how it ended if that is over.
    ///
    /// # Cancel safety
    /// The lock stays valid for what it was. What is under way is followed up elsewhere, and revives
    /// nothing.
    async fn extend(&mut self, due: &Deadline) -> Option<LostReason> {
        let step = self.alarm_step();
        let Self {
            lease: EndedWithKeeper(lease),
            lock,
            shutdown,
            hold_until,
            ..
        } = self;
        // No extension is begun after the end.
        let ends = match lease.look() {
            Ok(ends) => ends,
            Err(reason) => return Some(reason),
        };
        let hold_until = *hold_until;
        let held_too_long = async {
            match hold_until {
                Some(end) => sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        // Where all is well it has ended long before the first alarm.
        let counted = lock.extension_due(due);
        let extension = lock.renew(|outcomes| lease.note(outcomes));
        let extension = alarm::rouse(Instant::now() + step, step, extension);
        let result = tokio::select! {
            biased;
            () = lease.progress().wait(Step::RoutineEnded) => return Some(lease.lose(LostReason::Ended)),
            () = shutdown.cancelled() => return Some(lease.lose(LostReason::ShutDown)),
            () = held_too_long => return Some(lease.lose(LostReason::HoldLimit)),
            result = extension => Some(result),
            // The end of validity, whatever the masters do.
            () = sleep_until(ends) => None,
            () = lease.progress().wait(Step::Over) => None,
        };
        let Some(result) = result else {
            let reason = lease.look().err()?;
            counted.overtaken(&reason);
            return Some(reason);
        };
        counted.ended(&result);
        let outcomes = lock.outcomes().clone();
        match result {
            Ok(()) => lease.extend(lock.valid_until(), outcomes).err(),
            Err(ExtendError::Lost { outcomes, .. }) => {
                Some(lease.lose(LostReason::Gone { outcomes }))
            }
            Err(_) => Some(lease.lose(LostReason::Expired { outcomes })),
        }
    }

    fn alarm_step(&self) -> Duration {
        ALARM_STEP_MIN.max(self.threshold / 8)
    }

    fn next_early(&self) -> Duration {
        let wait = self
            .lock
            .valid_until()
            .left()
            .saturating_sub(self.threshold);
        self.threshold + wait.mul_f64(SPREAD * self.lock.fraction())
    }

    async fn release(self: Box<Self>, was_lost: bool) {
        let (resources, token) = (self.lock.resources().clone(), self.lock.token());
        if let Err(error) = self.lock.release().await {
            // After a loss it is no news that the keys were gone.
            if !was_lost {
                telemetry::release_failed(&resources, token, &error);
            }
        }
    }
}

//! The task that extends the lock of one `using`, and releases it at the end.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::oneshot,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    alarm::{self, Rouser},
    clock::{Deadline, after},
    error::ExtendError,
    lock::Lock,
    settings::Settings,
    signal::{Lease, LostReason},
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
    routine: Routine,
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

/// The routine, while it runs. (A channel on which nothing is sent: its other end is dropped when the
/// routine has ended, however it did.)
struct Routine(Option<oneshot::Receiver<()>>);

impl Routine {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(running) = &mut self.0 {
            let _ended = ready!(Pin::new(running).poll(cx));
            self.0 = None;
        }
        Poll::Ready(())
    }
}

impl Keeper {
    pub(crate) fn new(
        mut lock: Lock,
        lease: Arc<Lease>,
        routine: oneshot::Receiver<()>,
        shutdown: CancellationToken,
        settings: &Settings,
        ttl: Duration,
    ) -> Self {
        let threshold = settings.extension_threshold_for(ttl);
        let hold_until = settings.hold_limit.map(after);
        lock.kept();
        Self {
            lease: EndedWithKeeper(lease),
            lock,
            routine: Routine(Some(routine)),
            shutdown,
            threshold,
            hold_until,
        }
    }

    /// Extends until the routine has ended, and releases then: also after a loss, since keys of
    /// ours may be left, and never before, since the routine may still be writing.
    ///
    /// (Boxed, as it would hold itself twice otherwise: what it is called on, and what it moves that to.)
    pub(crate) async fn run(
        mut self: Box<Self>,
        started: oneshot::Sender<()>,
        released: oneshot::Sender<()>,
    ) {
        // A sender that is dropped is news enough.
        drop(started);
        let reason = self.keep().await;
        self.lock.ended(&reason);
        let (resources, token) = (self.lock.resources().clone(), self.lock.token());
        let was_lost = !matches!(reason, LostReason::Ended);
        if was_lost {
            telemetry::lost(&resources, token, &reason);
        }
        poll_fn(|cx| self.routine.poll_end(cx)).await;
        if let Err(error) = Box::pin(self.lock.release()).await {
            // After a loss it is no news that the keys were gone.
            if !was_lost {
                telemetry::release_failed(&resources, token, &error);
            }
        }
        drop(released);
    }

    /// Extends until it is over, and says how it ended.
    ///
    /// Most of its life it waits, and there may be very many that do: one timer, and memory for what
    /// an extension takes only while there is one.
    async fn keep(&mut self) -> LostReason {
        loop {
            let ends = match self.lease.0.look() {
                Ok(ends) => ends,
                Err(reason) => return reason,
            };
            let due = self.lock.valid_until().before(self.early());
            if let Some(reason) = self.wait(&due, ends).await {
                return self.lease.0.lose(reason);
            }
            if self.hold_until.is_some_and(|end| Instant::now() >= end) {
                return self.lease.0.lose(LostReason::HoldLimit);
            }
            if due.is_over()
                && let Some(reason) = Box::pin(self.extend(&due, ends)).await
            {
                return reason;
            }
        }
    }

    /// Waits for the next moment at which something is to be done: an extension, or an end. It may
    /// have come nearer, by the first look after a suspension of the machine: no timer knows of that.
    ///
    /// Sooner if it is over by somebody's will.
    async fn wait(&mut self, due: &Deadline, ends: Instant) -> Option<LostReason> {
        let step = self.alarm_step();
        let Self {
            routine,
            shutdown,
            hold_until,
            ..
        } = self;
        let next = || {
            let next = due.at().min(ends);
            hold_until.map_or(next, |end| end.min(next))
        };
        let is_alone = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let look_at = || {
            if is_alone {
                next().min(Instant::now() + SUSPENSION_UNSEEN_MAX)
            } else {
                next()
            }
        };
        let mut rouser = Rouser::new(next() + step, step);
        let mut shutdown = pin!(shutdown.cancelled());
        let mut sleep = pin!(sleep_until(look_at()));
        poll_fn(|cx| {
            rouser.watch_over(cx);
            if routine.poll_end(cx).is_ready() {
                return Poll::Ready(Some(LostReason::Ended));
            }
            if shutdown.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Some(LostReason::ShutDown));
            }
            loop {
                if next() <= Instant::now() {
                    return Poll::Ready(None);
                }
                ready!(sleep.as_mut().poll(cx));
                sleep.as_mut().reset(look_at());
            }
        })
        .await
    }

    /// One extension; says how it ended if that is over.
    ///
    /// # Cancel safety
    /// The lock stays valid for what it was. What is under way is followed up elsewhere, and revives
    /// nothing.
    async fn extend(&mut self, due: &Deadline, ends: Instant) -> Option<LostReason> {
        let step = self.alarm_step();
        let Self {
            lease: EndedWithKeeper(lease),
            lock,
            routine,
            shutdown,
            hold_until,
            ..
        } = self;
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
            () = poll_fn(|cx| routine.poll_end(cx)) => return Some(lease.lose(LostReason::Ended)),
            () = shutdown.cancelled() => return Some(lease.lose(LostReason::ShutDown)),
            () = held_too_long => return Some(lease.lose(LostReason::HoldLimit)),
            result = extension => Some(result),
            // The end of validity, whatever the masters do.
            () = sleep_until(ends) => None,
            () = lease.over() => None,
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

    /// How long before the end of validity to extend.
    fn early(&self) -> Duration {
        let wait = self
            .lock
            .valid_until()
            .left()
            .saturating_sub(self.threshold);
        self.threshold + wait.mul_f64(SPREAD * self.lock.fraction())
    }
}

//! Having the lock, on a thread with a runtime, while the main thread has the command.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    time::Duration,
};

use fredlock::{AcquireError, BuildError, LostReason, OwnerLabel, Redlock, Retry, UsingError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Event,
    failure::{Failure, is_worth_another_try, time_left, whole},
    plan::Plan,
    who::Who,
};
use crate::{args, connect};

/// How long too few masters are waited for where no other time was asked for: a restart of theirs.
const NO_QUORUM_MAX: Duration = Duration::from_secs(10);

/// How long the library waits for the lock before the progress is told, and it is asked again.
const STEP: Duration = Duration::from_secs(1);

/// How long the ends of what is under way are waited for when all is over.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

/// How the holding ended.
#[derive(Debug)]
pub(super) enum End {
    /// The lock was held until it was to be released, and so it was.
    Released,
    /// It was lost before.
    Lost(LostReason),
    /// It was to stop before it held anything.
    Cancelled,
    /// It was not had.
    Failed(Failure),
}

/// Waits for the lock, and holds it until `stop`; tells of it by events, the last of which is
/// [`Event::Over`].
pub(super) async fn hold(
    task: args::Run,
    plan: Plan,
    label: Option<OwnerLabel>,
    events: Sender<Event>,
    stop: CancellationToken,
) {
    let tell = |event| drop(events.send(event));
    let connected = tokio::select! {
        biased;
        () = stop.cancelled() => return tell(Event::Over(End::Cancelled)),
        connected = connect(&task, plan, label) => connected,
    };
    let redlock = match connected {
        Ok(redlock) => redlock,
        Err(error) => return tell(Event::Over(End::Failed(Failure::to_connect(&error)))),
    };
    let end = Holder {
        task: &task,
        redlock: &redlock,
        events: &events,
        stop: &stop,
        who: Who::default(),
        begun: Instant::now(),
    };
    let end = end.run().await;
    // What was taken back or released is gone from the masters by then, where they answer.
    redlock.shutdown(SHUTDOWN_MAX).await;
    tell(Event::Over(end));
}

async fn connect(
    task: &args::Run,
    plan: Plan,
    label: Option<OwnerLabel>,
) -> Result<Redlock, BuildError> {
    connect::builder(&task.masters)
        .settings(|settings| {
            settings
                .extension_threshold(plan.threshold)
                .owner_label(label)
        })
        .connect()
        .await
}

struct Holder<'a> {
    task: &'a args::Run,
    redlock: &'a Redlock,
    events: &'a Sender<Event>,
    stop: &'a CancellationToken,
    who: Who,
    begun: Instant,
}

impl Holder<'_> {
    async fn run(&self) -> End {
        let mut without_quorum_since: Option<Instant> = None;
        loop {
            let left = self
                .task
                .wait
                .map(|wait| wait.saturating_sub(self.begun.elapsed()));
            // The last step takes what is left, so that none is too short to be answered.
            let is_last = left.is_some_and(|left| left < 2 * STEP);
            let step = left.filter(|_| is_last).unwrap_or(STEP);
            let only_once = self.task.no_wait || self.task.wait == Some(Duration::ZERO);
            let patience = if only_once {
                self.redlock.with(|settings| settings.retry(Retry::none()))
            } else {
                self.redlock.with(|settings| settings.wait_for(step))
            };
            let is_held = AtomicBool::new(false);
            let using = patience.using(self.task.resources.iter(), self.task.ttl, async |signal| {
                is_held.store(true, Ordering::Relaxed);
                drop(self.events.send(Event::Held(signal)));
                self.stop.cancelled().await;
            });
            let result = tokio::select! {
                biased;
                // A routine that has begun sees it by itself, and the lock is released.
                result = using => result,
                () = self.stopped_before(&is_held) => return End::Cancelled,
            };
            let error = match result {
                Ok(()) => return End::Released,
                Err(UsingError::Lost { reason, .. }) => return End::Lost(reason),
                Err(UsingError::Acquire(error)) => error,
                Err(error) => return End::Failed(Failure::other(&error)),
            };
            if !is_worth_another_try(&error) {
                return End::Failed(self.failure(&error).await);
            }
            let is_busy = error.is_busy();
            let alone = if is_busy {
                without_quorum_since = None;
                Duration::ZERO
            } else {
                without_quorum_since
                    .get_or_insert(Instant::now() - step)
                    .elapsed()
            };
            let is_too_long = left.is_none() && alone >= NO_QUORUM_MAX;
            if only_once || is_last || is_too_long {
                return End::Failed(self.failure(&error).await);
            }
            let waited = whole(self.begun.elapsed());
            let progress = if is_busy {
                let who = tokio::select! {
                    biased;
                    () = self.stop.cancelled() => return End::Cancelled,
                    who = self.who.tell(self.redlock, &self.task.resources) => who,
                };
                format!(
                    "waiting for {}: held by {who}, {}, waited {waited}",
                    self.task.resources.join(", "),
                    time_left(&error)
                )
            } else {
                format!("waiting for a quorum of masters, {waited}")
            };
            drop(self.events.send(Event::Waiting(progress)));
        }
    }

    /// While it is held, the routine is what sees the end, and the release is waited for.
    async fn stopped_before(&self, is_held: &AtomicBool) {
        self.stop.cancelled().await;
        if is_held.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    async fn failure(&self, error: &AcquireError) -> Failure {
        let who = if error.is_busy() {
            self.who.tell(self.redlock, &self.task.resources).await
        } else {
            String::new()
        };
        Failure::to_acquire(error, self.task, &who, self.begun.elapsed())
    }
}

//! Having the lock, on the runtime's threads, while the main thread has the command.

use std::{
    fmt::Write as _,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    time::Duration,
};

use fredlock::{
    AcquireError, Answer, BuildError, LostReason, OwnerLabel, Possession, Redlock, Retry,
    UsingError,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Event, plan::Plan};
use crate::{args, connect, status};

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

/// Why a lock was not had.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: u8,
    pub(super) text: String,
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
        Err(error) => return tell(Event::Over(End::Failed(build_failure(&error)))),
    };
    let end = Holder {
        task: &task,
        redlock: &redlock,
        events: &events,
        stop: &stop,
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
                Err(error) => return End::Failed(other_failure(&error)),
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
                let who = self.holder().await;
                format!(
                    "waiting for {}: held by {who}, {}, waited {waited}",
                    self.names(),
                    time_left(&error)
                )
            } else {
                format!("waiting for a quorum of masters, {waited}")
            };
            drop(self.events.send(Event::Waiting(progress)));
        }
    }

    /// Who has one of the resources, as far as masters can tell.
    async fn holder(&self) -> String {
        for resource in &self.task.resources {
            if let Ok(inspection) = self.redlock.inspect(resource).await
                && let Possession::Held { holder, .. } = inspection.verdict()
                && let Some(label) = holder.label()
            {
                return label.to_string();
            }
        }
        "somebody else".to_owned()
    }

    /// While it is held, the routine is what sees the end, and the release is waited for.
    async fn stopped_before(&self, is_held: &AtomicBool) {
        self.stop.cancelled().await;
        if is_held.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    fn names(&self) -> String {
        self.task.resources.join(", ")
    }

    async fn failure(&self, error: &AcquireError) -> Failure {
        let mut text = String::new();
        let names = self.names();
        let waited = whole(self.begun.elapsed());
        let who = if error.is_busy() {
            self.holder().await
        } else {
            String::new()
        };
        let (status, told) = match cause(error) {
            AcquireError::Busy(_) => (
                self.task.conflict_exit_code,
                write!(
                    text,
                    "{names} is held by {who}, {} (waited {waited}): try again later, or --wait longer",
                    time_left(error)
                ),
            ),
            AcquireError::NoQuorum(attempts) => (
                status::NO_QUORUM,
                write!(
                    text,
                    "no quorum of masters (waited {waited}): {}: start or repair them",
                    attempts.outcomes
                ),
            ),
            AcquireError::Expired(attempts) => (
                status::NO_QUORUM,
                write!(
                    text,
                    "the masters are too slow for this --ttl: {}: take a longer one, or nearer masters",
                    attempts.outcomes
                ),
            ),
            AcquireError::InvalidResources(error) => {
                (status::USAGE, write!(text, "{error}: take other names"))
            }
            AcquireError::InvalidTtl(error) => {
                (status::USAGE, write!(text, "{error}: take another --ttl"))
            }
            other => (status::NO_QUORUM, write!(text, "{other}")),
        };
        // A string takes it all.
        told.ok();
        Failure { status, text }
    }
}

/// What a run-out time was waited for.
fn cause(error: &AcquireError) -> &AcquireError {
    match error {
        AcquireError::Timeout { last, .. } => cause(last),
        other => other,
    }
}

fn is_worth_another_try(error: &AcquireError) -> bool {
    matches!(
        cause(error),
        AcquireError::Busy(_) | AcquireError::NoQuorum(_) | AcquireError::Expired(_)
    )
}

fn build_failure(error: &BuildError) -> Failure {
    let (status, text) = connect::failure(error);
    Failure { status, text }
}

fn other_failure(error: &dyn std::error::Error) -> Failure {
    Failure {
        status: status::SYSTEM,
        text: error.to_string(),
    }
}

/// The longest that a master says it is held for.
fn time_left(error: &AcquireError) -> String {
    let outcomes = error.outcomes();
    let answers = outcomes
        .into_iter()
        .flat_map(|outcomes| outcomes.iter().map(fredlock::Outcome::answer));
    let lefts: Vec<_> = answers
        .filter_map(|answer| match answer {
            Answer::Busy { time_left, .. } => Some(*time_left),
            _ => None,
        })
        .collect();
    match lefts.iter().flatten().max() {
        _ if lefts.contains(&None) => "without an end on some master".to_owned(),
        Some(left) => format!("for {} more unless extended", whole(*left)),
        None => "as others try at the same time".to_owned(),
    }
}

/// As people read it: whole seconds, or milliseconds below one.
fn whole(time: Duration) -> String {
    let rounded = if time < Duration::from_secs(1) {
        Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(0))
    } else {
        Duration::from_secs(time.as_secs())
    };
    humantime::format_duration(rounded).to_string()
}

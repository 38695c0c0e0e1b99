//! Why a lock was not had: the exit status, and what to say, with the cure.

use std::time::Duration;

use fredlock::{AcquireError, Answer, BuildError};

use crate::{args, connect, status};

/// Why a lock was not had.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: u8,
    pub(super) text: String,
}

impl Failure {
    /// The masters cannot be used.
    pub(super) fn to_connect(error: &BuildError) -> Self {
        let (status, text) = connect::failure(error);
        Self { status, text }
    }

    /// What cannot happen, as far as is known.
    pub(super) fn other(error: &dyn std::error::Error) -> Self {
        Self {
            status: status::SYSTEM,
            text: error.to_string(),
        }
    }

    /// The lock was not had after so long. `who` has it, where somebody does.
    pub(super) fn to_acquire(
        error: &AcquireError,
        task: &args::Run,
        who: &str,
        waited: Duration,
    ) -> Self {
        let waited = whole(waited);
        let (status, text) = match cause(error) {
            AcquireError::Busy(_) => {
                let (names, left) = (task.resources.join(", "), time_left(error));
                (
                    task.conflict_exit_code,
                    format!(
                        "{names} is held by {who}, {left} (waited {waited}): try again later, or --wait longer"
                    ),
                )
            }
            AcquireError::NoQuorum(attempts) => (
                status::NO_QUORUM,
                format!(
                    "no quorum of masters (waited {waited}): {}: start or repair them",
                    attempts.outcomes
                ),
            ),
            AcquireError::Quarantined(attempts) => (
                status::NO_QUORUM,
                format!(
                    "too many masters came up empty (waited {waited}): {}: --wait longer, or, if no lock was ever held on them, run fredlock init",
                    attempts.outcomes
                ),
            ),
            AcquireError::Expired(attempts) => (
                status::NO_QUORUM,
                format!(
                    "the masters are too slow for this --ttl: {}: take a longer one, or nearer masters",
                    attempts.outcomes
                ),
            ),
            AcquireError::InvalidResources(error) => {
                (status::USAGE, format!("{error}: take other names"))
            }
            AcquireError::InvalidTtl(error) => {
                (status::USAGE, format!("{error}: take another --ttl"))
            }
            other => (status::NO_QUORUM, other.to_string()),
        };
        Self { status, text }
    }
}

/// What a run-out time was waited for.
fn cause(error: &AcquireError) -> &AcquireError {
    match error {
        AcquireError::Timeout { last, .. } => cause(last),
        other => other,
    }
}

/// Can time alone help?
pub(super) fn is_worth_another_try(error: &AcquireError) -> bool {
    matches!(
        cause(error),
        AcquireError::Busy(_)
            | AcquireError::NoQuorum(_)
            | AcquireError::Quarantined(_)
            | AcquireError::Expired(_)
    )
}

/// The longest that a master says it is held for.
pub(super) fn time_left(error: &AcquireError) -> String {
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
pub(super) fn whole(time: Duration) -> String {
    let rounded = if time < Duration::from_secs(1) {
        Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(0))
    } else {
        Duration::from_secs(time.as_secs())
    };
    humantime::format_duration(rounded).to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use fredlock::{Redlock, testing::MemoryMasters};

    use super::*;
    use crate::args::{Arguments, Task};

    /// Calls to real masters end before the lock would be too late, so a suspension shows it.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_came_too_late_for_its_ttl_gives_69_and_not_the_status_of_a_busy_one() {
        let (masters, ttl) = (MemoryMasters::new(3), Duration::from_secs(10));
        let asked = masters.clone();
        // The machine is suspended once they are asked.
        let builder = Redlock::builder().memory(&masters).suspended(move || {
            if asked.calls(2) > 0 {
                ttl
            } else {
                Duration::ZERO
            }
        });
        let redlock = builder.connect().await.expect("masters of memory");
        let late = redlock.try_acquire(["job"], ttl).await;
        let error = late.expect_err("it is over by then");
        let words = [
            "fredlock",
            "run",
            "-E",
            "3",
            "job",
            "--masters",
            "redis://h",
            "--",
            "true",
        ];
        let Task::Run(task) = Arguments::try_parse_from(words)
            .expect("a command line")
            .task
        else {
            panic!("it is a run");
        };
        let failure = Failure::to_acquire(&error, &task, "somebody", ttl);
        assert_eq!(failure.status, status::NO_QUORUM, "{failure:?}");
        let begins = "the masters are too slow for this --ttl: memory-0 granted";
        assert!(failure.text.starts_with(begins), "{failure:?}");
    }
}

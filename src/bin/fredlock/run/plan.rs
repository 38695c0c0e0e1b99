//! The times of one run: pure arithmetic.

use std::time::Duration;

use crate::args;

/// When what is done, counted back from the end of the lock's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// From SIGTERM to SIGKILL.
    pub(super) grace: Duration,
    /// How long before the end SIGKILL is sent: processes take a moment to end, and this one may not
    /// run at once.
    pub(super) margin: Duration,
    /// How much is left when the lock is extended.
    pub(super) threshold: Duration,
    /// The longest pause between two looks.
    pub(super) tick: Duration,
}

impl Plan {
    /// An extension has a third of the ttl to succeed in before SIGTERM comes, less the margin; the
    /// library takes two thirds for the threshold at most, so the grace is a third at most.
    pub(super) fn of(task: &args::Run) -> Self {
        let third = task.ttl / 3;
        let grace = task.grace.min(third);
        Self {
            grace,
            margin: (task.ttl / 20).clamp(Duration::from_millis(20), Duration::from_millis(250)),
            threshold: third + grace,
            tick: (task.ttl / 20).clamp(Duration::from_millis(5), Duration::from_secs(1)),
        }
    }

    /// From SIGTERM to SIGKILL where it ends by `--max-hold`.
    pub(super) fn grace_within(&self, max_hold: Duration) -> Duration {
        self.grace.min(max_hold / 3)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Task};

    fn plan(words: &str) -> (Duration, Plan) {
        let line = format!("fredlock run --masters redis://h {words} r -- true");
        let Task::Run(task) = Arguments::try_parse_from(line.split_whitespace())
            .unwrap()
            .task
        else {
            panic!("no run");
        };
        (task.ttl, Plan::of(&task))
    }

    #[test]
    fn every_ttl_leaves_time_to_extend_before_the_grace_and_to_kill_after_it() {
        for words in [
            "",
            "--ttl 500ms",
            "--ttl 3s",
            "--ttl 1h",
            "--ttl 30s --grace 1h",
            "--grace 0",
        ] {
            let (ttl, plan) = plan(words);
            assert!(
                plan.threshold <= ttl * 2 / 3,
                "{words}: the library would cut it"
            );
            let to_extend = plan.threshold.saturating_sub(plan.grace + plan.margin);
            assert!(to_extend >= ttl / 5, "{words}: {plan:?}");
            assert!(plan.tick <= to_extend, "{words}: {plan:?}");
        }
        assert_eq!(plan("").1.grace, Duration::from_secs(5));
        assert_eq!(plan("--ttl 6s").1.grace, Duration::from_secs(2));
    }
}

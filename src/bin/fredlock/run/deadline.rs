//! When the command is ended, and how: before the lock's time is over.

use std::time::Duration;

use nix::sys::signal::Signal as Posix;
use tokio::time::Instant;

use super::supervise::Supervisor;

/// How soon to look again while processes are ending.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Why the command is ended.
#[derive(Debug, Clone)]
pub(super) enum Why {
    /// The lock's time is running out, and no quorum has extended it.
    NotExtended,
    /// The lock is lost.
    Lost(String),
    /// This process was stopped until the guard had to act.
    Asleep,
    /// It is held as long as it may be.
    MaxHold,
    /// It has ended by itself, and left something behind.
    LeftBehind,
}

/// The end of the command, once it has begun.
pub(super) struct Ending {
    pub(super) why: Why,
    kill_at: Instant,
    is_killed: bool,
}

impl Supervisor<'_> {
    /// Ends the command if it is time to. Gives how long nothing will have to be done.
    pub(super) fn keep_time(&mut self) -> Duration {
        let now = Instant::now();
        let left = self.lock.remaining();
        if self.guard.has_fired() && !matches!(&self.ending, Some(ending) if ending.is_killed) {
            self.terminate(Why::Asleep, now);
        }
        // Its turn comes only where this one has missed its own.
        self.guard.allow(left.saturating_sub(self.plan.margin / 2));
        let (mut kill_at, mut why) = (
            now + left.saturating_sub(self.plan.margin),
            Why::NotExtended,
        );
        let mut term_at = kill_at.checked_sub(self.plan.grace).unwrap_or(now);
        if left.is_zero()
            && let Some(reason) = self.lock.error()
        {
            why = Why::Lost(reason.to_string());
        }
        if let Some(max_hold) = self.max_hold
            && let Some(end) = self.held_since.checked_add(max_hold)
        {
            let hold_term = end - self.plan.grace_within(max_hold);
            if end < kill_at {
                kill_at = end;
            }
            if hold_term < term_at {
                (term_at, why) = (hold_term, Why::MaxHold);
            }
        }
        if self.status.is_some() && self.ending.is_none() {
            (term_at, why) = (now, Why::LeftBehind);
        }
        let is_worse = |ending: &Ending| {
            matches!(ending.why, Why::LeftBehind) && !matches!(why, Why::LeftBehind)
        };
        match &mut self.ending {
            None if now >= term_at => self.terminate(why, kill_at.min(now + self.plan.grace)),
            // It may live no longer than the lock, whatever was said at first.
            Some(ending) if now >= term_at && is_worse(ending) => {
                ending.why = why;
                ending.kill_at = ending.kill_at.min(kill_at);
            }
            Some(ending) => ending.kill_at = ending.kill_at.min(kill_at),
            None => {}
        }
        match &mut self.ending {
            Some(ending) if now >= ending.kill_at => {
                if !ending.is_killed {
                    ending.is_killed = true;
                    self.reporter
                        .detail("sends SIGKILL to what is left of the command");
                }
                if matches!(ending.why, Why::LeftBehind) {
                    self.family.signal(Posix::SIGKILL);
                } else {
                    self.family.signal_all(Posix::SIGKILL);
                }
                LOOK_AGAIN
            }
            Some(ending) => (ending.kill_at - now).min(if self.status.is_some() {
                LOOK_AGAIN
            } else {
                self.plan.tick
            }),
            None => term_at.saturating_duration_since(now).min(self.plan.tick),
        }
    }

    pub(super) fn terminate(&mut self, why: Why, kill_at: Instant) {
        if matches!(why, Why::LeftBehind) {
            self.family.signal(Posix::SIGTERM);
        } else {
            self.family.signal_all(Posix::SIGTERM);
        }
        // A stopped process would not hear of it. One that fredlock stopped with is killed as it is if
        // the time is over.
        if kill_at > Instant::now() {
            self.family.signal(Posix::SIGCONT);
        }
        match &why {
            Why::NotExtended => self.reporter.error(
                "no quorum of masters extends the lock: ends the command before its time is over",
            ),
            Why::Lost(reason) => self
                .reporter
                .error(&format!("the lock is lost: kills the command: {reason}")),
            Why::Asleep => self.reporter.error(
                "was stopped, or did not get to run, until the lock's time was nearly over: kills the command",
            ),
            Why::MaxHold => self
                .reporter
                .error("--max-hold is nearly over: ends the command"),
            Why::LeftBehind => self
                .reporter
                .detail("the command has ended: ends what it left behind in its group"),
        }
        self.ending = Some(Ending {
            why,
            kill_at,
            is_killed: false,
        });
    }
}

//! The command, from its start until nothing of it is left, while the lock is held.
//!
//! On the main thread, which does nothing else: the end of the lock's time does not wait for a thread
//! of the runtime, nor for anybody who reads what is said.

use std::{
    ffi::OsStr,
    io,
    os::unix::process::CommandExt,
    process::Command,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use nix::{sys::signal::Signal as Posix, unistd::getpid};
use tokio::time::Instant;

use super::{
    Event,
    family::{Family, News},
    guard::{self, Guard},
    myself,
    plan::Plan,
    signals::FORWARDED,
    stand_in,
    terminal::{Modes, Terminal},
};
use crate::{args, report::Reporter};

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

/// How it went.
#[derive(Debug)]
pub(super) struct Ended {
    /// The command's own status.
    pub(super) status: u8,
    /// Why it did not end by itself, if so.
    pub(super) why: Option<Why>,
}

pub(super) struct Supervisor<'a> {
    pub(super) plan: Plan,
    max_hold: Option<Duration>,
    held_since: Instant,
    pub(super) lock: &'a fredlock::Signal,
    events: &'a Receiver<Event>,
    reporter: &'a Reporter,
    pub(super) family: Family,
    guard: Guard,
    pub(super) terminal: Option<Terminal>,
    /// How the terminal was when the command got it; none while it has not.
    pub(super) given: Option<Modes>,
    pub(super) is_suspended: bool,
    status: Option<u8>,
    ending: Option<Ending>,
}

struct Ending {
    why: Why,
    kill_at: Instant,
    is_killed: bool,
}

impl<'a> Supervisor<'a> {
    /// Starts what will become the command in [`run`](Self::run).
    pub(super) fn start(
        task: &args::Run,
        plan: Plan,
        label: &str,
        lock: &'a fredlock::Signal,
        events: &'a Receiver<Event>,
        reporter: &'a Reporter,
    ) -> io::Result<Self> {
        let mut strangers = Family::adopt_orphans();
        // First, so that there is no moment in which the command runs without.
        let mut guard = Guard::start()?;
        strangers.insert(guard.pid());
        let terminal = Terminal::open();
        let given = terminal
            .as_ref()
            .filter(|terminal| terminal.is_for_the_command())
            .map(Terminal::modes);
        let place = if given.is_some() {
            stand_in::FOREGROUND
        } else {
            stand_in::BACKGROUND
        };
        let mut resources: Vec<_> = task.resources.iter().map(String::as_str).collect();
        resources.sort_unstable();
        resources.dedup();
        let command = Command::new(myself()?)
            .arg0("fredlock")
            .args([stand_in::NAME, &getpid().to_string(), place].map(OsStr::new))
            .args(&task.command)
            .env("FREDLOCK_RESOURCES", resources.join("\n"))
            .env("FREDLOCK_FENCE", lock.fence().to_string())
            .env("FREDLOCK_LABEL", label)
            .process_group(0)
            .spawn()?;
        let group = guard::pid(command.id());
        let mut family = Family::new(group, strangers);
        family.await_stand_in();
        guard.watch(group);
        Ok(Self {
            plan,
            max_hold: task.max_hold,
            held_since: Instant::now(),
            lock,
            events,
            reporter,
            family,
            guard,
            terminal,
            given,
            is_suspended: false,
            status: None,
            ending: None,
        })
    }

    /// Returns once nothing of the command is left.
    pub(super) fn run(mut self) -> Ended {
        // Not before the guard knows when it has to end; nor if that has come already.
        self.keep_time();
        if self.ending.is_none() {
            self.family.signal(Posix::SIGCONT);
        }
        loop {
            self.hear();
            let is_left = match &self.ending {
                // Daemons that the command started on purpose stay, unless the lock is lost.
                None
                | Some(Ending {
                    why: Why::LeftBehind,
                    ..
                }) => self.family.has_group(),
                Some(_) => self.family.is_left(),
            };
            if let (Some(status), false) = (self.status, is_left) {
                return self.finish(status);
            }
            let pause = self.keep_time();
            match self.events.recv_timeout(pause) {
                Ok(event) => self.on(&event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    /// Ends the command if it is time to. Gives how long nothing will have to be done.
    fn keep_time(&mut self) -> Duration {
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

    fn terminate(&mut self, why: Why, kill_at: Instant) {
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

    fn on(&mut self, event: &Event) {
        let Event::Signal(number) = event else {
            return;
        };
        let Ok(signal) = Posix::try_from(*number) else {
            return;
        };
        match signal {
            Posix::SIGCONT if self.is_suspended => self.resume(),
            Posix::SIGCHLD | Posix::SIGCONT => {}
            Posix::SIGTSTP => self.family.signal(signal),
            _ if FORWARDED.contains(number) => {
                self.reporter
                    .detail(&format!("passes {signal} on to the command"));
                self.family.signal(signal);
            }
            _ => {}
        }
    }

    /// What has become of the command.
    fn hear(&mut self) {
        while let Some(news) = self.family.news() {
            match news {
                News::Ended(status) => self.status = Some(status),
                News::Stopped(signal) => self.on_stop(signal),
            }
        }
    }

    fn finish(mut self, status: u8) -> Ended {
        // Who was killed may have been so by the guard, while this process slept.
        if status == crate::status::of_signal(Posix::SIGKILL as i32)
            && self.ending.is_none()
            && self.guard.has_fired()
        {
            self.terminate(Why::Asleep, Instant::now());
        }
        let why = self.ending.take().map(|ending| ending.why);
        // Killed programs leave it as they had it.
        self.take_terminal(status > 128);
        // Before the group's id can become somebody else's.
        self.guard.dismiss();
        self.family.bury();
        Ended {
            status,
            why: why.filter(|why| !matches!(why, Why::LeftBehind)),
        }
    }
}

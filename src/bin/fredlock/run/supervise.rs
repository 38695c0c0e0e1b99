//! The command, from its start until nothing of it is left, while the lock is held.
//!
//! On the main thread, which does nothing else: the end of the lock's time does not wait for the
//! thread that has the lock, nor for anybody who reads what is said.

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
    deadline::{Ending, Why},
    family::{Family, News},
    guard::{self, Guard},
    myself,
    plan::Plan,
    signals::FORWARDED,
    stand_in,
    terminal::{Modes, Terminal},
};
use crate::{args, report::Reporter};

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
    pub(super) max_hold: Option<Duration>,
    pub(super) held_since: Instant,
    pub(super) lock: &'a fredlock::Signal,
    events: &'a Receiver<Event>,
    pub(super) reporter: &'a Reporter,
    pub(super) family: Family,
    pub(super) guard: Guard,
    pub(super) terminal: Option<Terminal>,
    /// How the terminal was when the command got it; none while it has not.
    pub(super) given: Option<Modes>,
    pub(super) is_suspended: bool,
    /// The command's own, once it has ended.
    pub(super) status: Option<u8>,
    pub(super) ending: Option<Ending>,
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

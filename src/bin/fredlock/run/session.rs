//! One run, from the first question to the release.

use std::{
    io,
    panic::{self, AssertUnwindSafe},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use fredlock::OwnerLabel;
use nix::{
    sys::signal::{Signal as Posix, killpg},
    unistd::getpgrp,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Event, check,
    deadline::Why,
    default_label,
    failure::Failure,
    hold::{End, hold},
    plan::Plan,
    signals::{self, FORWARDED},
    supervise::{Ended, Supervisor},
    system,
};
use crate::{args, report::Reporter, runtime, status};

/// The longest that the end of the lock is waited for, once the command is gone.
const RELEASE_MAX: Duration = Duration::from_secs(5);

pub(super) struct Session<'a> {
    task: &'a args::Run,
    plan: Plan,
    label: Option<OwnerLabel>,
    reporter: Reporter,
    events: Receiver<Event>,
    stop: CancellationToken,
}

impl<'a> Session<'a> {
    pub(super) fn start(task: &'a args::Run, reporter: Reporter) -> Result<Self, Failure> {
        check(task)?;
        reporter.subscribe();
        let (sender, events) = mpsc::channel();
        signals::listen(sender.clone()).map_err(|error| system("listen to signals", &error))?;
        let plan = Plan::of(task);
        let label = task.label.clone().or_else(default_label);
        let stop = CancellationToken::new();
        let holding = hold(
            task.clone(),
            plan,
            label.clone(),
            sender.clone(),
            stop.clone(),
        );
        in_a_thread(holding, sender).map_err(|error| system("start threads", &error))?;
        Ok(Self {
            task,
            plan,
            label,
            reporter,
            events,
            stop,
        })
    }

    pub(super) fn run(self) -> u8 {
        // The thread that has the lock ends with the process: a hung master is not waited for.
        match self.wait() {
            Ok(signal) => self.with_lock(&signal),
            Err(status) => status,
        }
    }

    /// Waits until the lock is held. The error is the exit status.
    fn wait(&self) -> Result<fredlock::Signal, u8> {
        let mut interrupted = None;
        loop {
            // The sender lives in a thread that never ends.
            let Ok(event) = self.events.recv() else {
                return Err(status::SYSTEM);
            };
            match event {
                Event::Held(signal) if interrupted.is_none() => {
                    self.reporter.progress("");
                    self.reporter
                        .detail(&format!("holds the lock with fence {}", signal.fence()));
                    return Ok(signal);
                }
                Event::Waiting(text) => self.reporter.progress(&text),
                Event::Signal(number) if FORWARDED.contains(&number) => {
                    interrupted = Some(number);
                    self.stop.cancel();
                }
                // As if it had not been caught.
                Event::Signal(number) if number == Posix::SIGTSTP as i32 => {
                    killpg(getpgrp(), Posix::SIGSTOP).ok();
                }
                Event::Held(_) | Event::Signal(_) => {}
                Event::Over(end) => {
                    self.reporter.progress("");
                    return Err(interrupted
                        .map_or_else(|| self.status_without_command(end), status::of_signal));
                }
            }
        }
    }

    fn status_without_command(&self, end: End) -> u8 {
        match end {
            End::Failed(Failure { status, text }) => {
                if status == self.task.conflict_exit_code {
                    self.reporter.notice(&text);
                } else {
                    self.reporter.error(&text);
                }
                status
            }
            End::Lost(reason) => {
                self.reporter.error(&format!("the lock was lost before the command could begin: {reason}: take a longer --ttl"));
                status::LOST
            }
            End::Released | End::Cancelled => status::SYSTEM,
        }
    }

    fn with_lock(&self, lock: &fredlock::Signal) -> u8 {
        let held_since = Instant::now();
        let supervisor = Supervisor::start(
            self.task,
            self.plan,
            self.label.as_ref().map_or("", OwnerLabel::as_str),
            lock,
            &self.events,
            &self.reporter,
        );
        let ended = match supervisor {
            Ok(supervisor) => supervisor.run(),
            Err(error) => {
                let failure = system("start the command", &error);
                self.reporter.error(&failure.text);
                self.release();
                return failure.status;
            }
        };
        let Ended { status, why } = ended;
        let was_ours = lock.check();
        if was_ours.is_ok() && !matches!(why, Some(Why::NotExtended | Why::Lost(_) | Why::Asleep)) {
            self.hold_on(lock, held_since, status);
        }
        self.release();
        match (why, was_ours) {
            (Some(_), _) => status::LOST,
            (None, Err(reason)) => {
                self.reporter.error(&format!(
                    "the lock was lost before the command had ended: {reason}"
                ));
                status::LOST
            }
            (None, Ok(())) => status,
        }
    }

    /// Keeps the lock for what is left of `--min-hold`, or until a signal comes.
    fn hold_on(&self, lock: &fredlock::Signal, held_since: Instant, status: u8) {
        let Some(min_hold) = self.task.min_hold else {
            return;
        };
        let left = min_hold.saturating_sub(held_since.elapsed());
        self.reporter.detail(&format!(
            "the command has ended, holds on for {} ms",
            left.as_millis()
        ));
        loop {
            let left = min_hold.saturating_sub(held_since.elapsed());
            if left.is_zero() {
                return;
            }
            self.reporter.progress(&format!(
                "the command has ended, holds on for {} s",
                left.as_secs()
            ));
            match self.events.recv_timeout(left.min(Duration::from_secs(1))) {
                Ok(Event::Signal(number)) if FORWARDED.contains(&number) => {
                    self.reporter.progress("");
                    let text =
                        "leaves the lock to its ttl, as a signal came before --min-hold was over";
                    self.reporter.notice(text);
                    self.reporter.finish();
                    // Without a release.
                    std::process::exit(status.into());
                }
                _ if lock.is_aborted() => {
                    return self.reporter.error(
                        "the lock was lost after the command had ended, before --min-hold was over",
                    );
                }
                _ => {}
            }
        }
    }

    fn release(&self) {
        self.reporter.progress("");
        self.stop.cancel();
        let end = Instant::now() + RELEASE_MAX;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(Event::Over(_)) => return self.reporter.detail("has released the lock"),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

/// Runs it in a thread of its own.
fn in_a_thread(
    holding: impl Future<Output = ()> + Send + 'static,
    events: Sender<Event>,
) -> io::Result<()> {
    let runtime = runtime::start()?;
    let thread = thread::Builder::new().name("lock".to_owned());
    thread.spawn(move || {
        let held = panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(holding)));
        if held.is_err() {
            // The panic has told what; nobody would learn of the end otherwise.
            let failure = Failure {
                status: status::SYSTEM,
                text: "has a defect: please report it".to_owned(),
            };
            drop(events.send(Event::Over(End::Failed(failure))));
        }
    })?;
    Ok(())
}

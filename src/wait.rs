//! When an acquisition may ask the masters: its place in the queue, and what ends a pause.

use std::{
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

use crate::{
    attempt::{Cause, Failed},
    clock::after,
    core::Core,
    error::AcquireError,
    mutant::Mutant,
    quorum,
    resources::Resources,
    retry::RetryCount,
    settings::Settings,
    token::Token,
};

pub(crate) mod crowd;
mod end;
mod moment;
mod news;
mod pauses;
mod presence;
pub(crate) mod queue;
mod turns;

use pauses::Pauses;
use presence::LOOK_AFTER;
use queue::Ticket;

/// Others do not wait for longer for an attempt, whatever the command timeout is.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);

/// The way of one acquisition from attempt to attempt.
///
/// An acquisition that may wait stands in the queue from its begin to its end, the first attempt
/// included; one without retries never does. Dropping this hands its place on.
pub(crate) struct Wait<'a> {
    core: &'a Arc<Core>,
    resources: &'a Resources,
    command_timeout: Duration,
    begun: Instant,
    deadline: Option<Instant>,
    ticket: Option<Ticket>,
    /// Was it first when it looked last?
    is_first: bool,
    /// Is there a reason for an attempt that was not made yet?
    is_ready: bool,
    /// How long to let others go first, who have waited for longer.
    courtesy: Duration,
    /// Is the attempt that is under way, or comes next, made because masters said that it is free?
    is_early: bool,
    /// How often somebody else was quicker when the lock was free.
    missed: AtomicU32,
    pauses: Pauses<'a>,
    /// When the busy masters, and those in quarantine, say that a quorum of them is free.
    free_at: Option<Instant>,
    sent: Instant,
    count: u64,
    failed: Option<Failed>,
}

impl<'a> Wait<'a> {
    pub(crate) fn new(
        core: &'a Arc<Core>,
        settings: &'a Settings,
        resources: &'a Resources,
        command_timeout: Duration,
    ) -> Self {
        let begun = Instant::now();
        let may_wait = settings.busy.retries() != RetryCount::Limited(0);
        let ticket = may_wait.then(|| core.queue.enter(resources));
        let is_alone = ticket.as_ref().is_some_and(Ticket::is_first);
        Self {
            core,
            resources,
            command_timeout,
            begun,
            // A limit beyond what the clock can tell is none.
            deadline: settings
                .wait_limit
                .and_then(|limit| begun.checked_add(limit)),
            ticket,
            is_first: false,
            is_ready: false,
            courtesy: if is_alone {
                core.crowd.courtesy(resources)
            } else {
                Duration::ZERO
            },
            is_early: false,
            missed: AtomicU32::new(0),
            pauses: Pauses::new(settings),
            free_at: None,
            sent: begun,
            count: 0,
            failed: None,
        }
    }

    /// When the acquisition has to end.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How many attempts were made, with the one under way.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Waits until it is time for the next attempt, or says why there is none.
    ///
    /// # Cancel safety
    /// Loses nothing, and keeps the place until this is dropped.
    pub(crate) async fn turn(&mut self) -> Result<(), AcquireError> {
        loop {
            if self.core.shutdown.is_cancelled() {
                return Err(AcquireError::ShutDown);
            }
            let was_first = self.is_first;
            self.is_first = self.ticket.as_ref().is_none_or(Ticket::is_first);
            self.is_ready |= self.is_first && !was_first;
            if !self.is_ready {
                if self.is_first {
                    self.pause().await?;
                } else {
                    self.stand().await?;
                }
            } else if self.courtesy.is_zero() {
                self.is_ready = false;
                self.count += 1;
                self.sent = Instant::now();
                // It ends by its timeouts, of which raising the fence takes several.
                let longest = self.command_timeout.saturating_mul(10);
                self.promise(after(longest.min(ATTEMPT_MAX)));
                return Ok(());
            } else {
                let end = after(std::mem::take(&mut self.courtesy));
                self.promise(end);
                self.sleep_until(self.deadline.map_or(end, |deadline| deadline.min(end)))
                    .await;
            }
        }
    }

    /// The attempt has failed. Whether there is another one is for [`turn`](Self::turn) to say.
    pub(crate) fn failed(&mut self, failed: Failed) {
        let now = Instant::now();
        self.free_at = None;
        if failed.cause == Cause::Busy {
            let took = now.duration_since(self.sent);
            self.core.crowd.refused(self.resources, took, self.is_early);
            *self.missed.get_mut() += u32::from(self.is_early);
        }
        if matches!(failed.cause, Cause::Busy | Cause::Quarantined) {
            let free = quorum::time_until_free(self.core.quorum, failed.outcomes.answers());
            // Masters round the time left down: a millisecond later it is gone. Of those who wait
            // for the same end, not all go at once.
            self.free_at = free.map(|left| {
                let left = left.saturating_add(Duration::from_millis(1));
                after(left.saturating_add(self.spread()))
            });
        }
        self.is_early = false;
        if let Some(ticket) = self.ticket.as_ref().filter(|_| self.is_first) {
            ticket.tell(&failed);
        }
        self.failed = Some(failed);
    }

    /// The attempt got it.
    pub(crate) fn won(&self, token: Token) {
        let (crowd, own) = (&self.core.crowd, self.core.mark);
        crowd.won(self.resources, own, token.begin());
    }

    /// Behind others: they ask the masters.
    async fn stand(&mut self) -> Result<(), AcquireError> {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(self.timed_out());
        }
        let pause_end = self.pause_end()?;
        let end = pause_end.min(now + LOOK_AFTER);
        let end = self.deadline.map_or(end, |deadline| deadline.min(end));
        let Some(ticket) = &self.ticket else {
            return Ok(());
        };
        tokio::select! {
            biased;
            () = self.core.shutdown.cancelled() => {}
            () = ticket.turn() => {}
            () = sleep_until(end) => {}
        }
        if Instant::now() >= pause_end {
            self.pauses.end();
            self.is_ready = ticket.may_pass();
        }
        Ok(())
    }

    /// First, and refused: until the earliest of what may have changed that.
    async fn pause(&mut self) -> Result<(), AcquireError> {
        let now = Instant::now();
        let pause_end = self.pause_end()?;
        let mut end = pause_end;
        if let Some(deadline) = self.deadline {
            // The last attempt begins early enough to be answered within the limit. One that is short
            // beside the command timeout is waited for all the same: every attempt ends with it.
            let reserve = self
                .command_timeout
                .min(deadline.duration_since(self.begun) / 4);
            let last_chance = deadline - reserve;
            if now >= last_chance {
                return Err(self.timed_out());
            }
            end = end.min(last_chance);
        }
        let is_busy = matches!(&self.failed, Some(failed) if failed.cause == Cause::Busy);
        let listens = is_busy && self.ticket.is_some() && self.pauses.may_be_early();
        let free_at = self.free_at.filter(|_| self.pauses.may_be_early());
        if self.core.breaks(Mutant::NoPolling) && is_busy {
            end = self.deadline.unwrap_or_else(|| after(Duration::MAX));
        }
        let (core, resources) = (self.core, self.resources);
        let freed = async {
            if listens {
                news::freed(core, resources, |cause| self.moment(cause), &self.missed).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        let freed_by_time = async {
            match free_at {
                Some(free_at) if !core.breaks(Mutant::NoPolling) => sleep_until(free_at).await,
                _ => std::future::pending().await,
            }
        };
        let is_early = tokio::select! {
            biased;
            () = core.shutdown.cancelled() => return Ok(()),
            () = sleep_until(end) => false,
            () = freed_by_time => true,
            () = freed => true,
            never = self.be_heard_of(end) => match never {},
        };
        self.is_ready = true;
        self.is_early = is_early;
        if is_early {
            self.free_at = None;
            self.pauses.early();
        } else if end == pause_end {
            self.pauses.end();
        }
        Ok(())
    }

    /// The end of the pause under way, or of the next one.
    fn pause_end(&mut self) -> Result<Instant, AcquireError> {
        let cause = self.failed.as_ref().map(|failed| failed.cause);
        let end = self.pauses.until(cause, &self.core.entropy);
        end.ok_or_else(|| self.used_up())
    }

    async fn sleep_until(&self, end: Instant) {
        tokio::select! {
            biased;
            () = sleep_until(end) => {}
            () = self.core.shutdown.cancelled() => {}
        }
    }
}

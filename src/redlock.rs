//! The handle: acquire, use, shut down.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::timeout_at;
use tracing::{Instrument, debug_span};

use crate::{
    attempt::attempt,
    builder::{BuildError, Builder},
    clock::after,
    core::{Core, whole_ms},
    error::{AcquireError, InvalidTtl, UsingError},
    lock::Lock,
    mutant::Mutant,
    resources::Resources,
    settings::{Settings, whole_ttl},
    signal::Signal,
    telemetry::TARGET,
    token::Token,
    using::{self, Kept},
    wait::Wait,
};

/// Locks over N independent masters. Cheap to clone; clones share the connections.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use fredlock::Redlock;
/// use std::time::Duration;
///
/// let masters = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let redlock = Redlock::connect(masters).await?;
/// let lock = redlock.acquire(["invoice:4821"], Duration::from_secs(5)).await?;
/// // … the work …
/// lock.release().await?;
/// # Ok(()) }
/// ```
///
/// When the last clone and the last lock are gone, the connections are closed in the background.
#[derive(Debug, Clone)]
pub struct Redlock {
    core: Arc<Core>,
    settings: Arc<Settings>,
}

impl Redlock {
    /// Connects to masters by their URLs, with every setting at its default. See
    /// [`Builder::url`] for their form and [`Builder::connect`] for what is waited for.
    ///
    /// # Errors
    /// See [`Builder::connect`].
    ///
    /// # Cancel safety
    /// Connections that were begun are closed.
    pub async fn connect<I>(urls: I) -> Result<Self, BuildError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self::builder().urls(urls).connect().await
    }

    /// Starts with no master and every setting at its default: see [`Builder`].
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn new(core: Arc<Core>, settings: Settings) -> Self {
        Self {
            core,
            settings: Arc::new(settings),
        }
    }

    /// A handle on the same masters, over the same connections, with other settings; this one keeps
    /// its own. [`Settings`] has an example.
    #[must_use]
    pub fn with(&self, change: impl FnOnce(Settings) -> Settings) -> Self {
        let settings = change(Settings::clone(&self.settings));
        Self {
            core: Arc::clone(&self.core),
            settings: Arc::new(settings),
        }
    }

    /// Acquires all of the resources, or none, trying again as the settings say
    /// ([`Settings::retry`], [`Settings::wait_limit`]): by default 10 times, about 200 ms apart.
    ///
    /// Acquisitions of one `Redlock` and its clones that want a common resource are served in the
    /// order of their calls, and only the first asks the masters; the others' retries and wait limits
    /// run all the same. Across processes there is no order. A release is mostly noticed within a
    /// millisecond ([`Retry::delay`](crate::Retry::delay) is the longest). One that wants only a part
    /// of what those before it want may come before them, after a pause. Without retries
    /// ([`Retry::none`](crate::Retry::none)) it asks once and does not queue.
    ///
    /// `resources` are 1 to [`RESOURCES_MAX`](crate::RESOURCES_MAX) names of 1 to
    /// [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX) bytes; order and duplicates do not matter. A lock
    /// is not reentrant: whoever holds a resource already waits for itself.
    ///
    /// `ttl` is how long masters keep the lock unless it is extended: from 1 ms to 100 years, in
    /// whole milliseconds. The validity is shorter (see [`Lock::remaining`]), and nothing is left of
    /// it for a ttl of 1 or 2 ms, which is refused.
    ///
    /// # Errors
    /// - [`AcquireError::Busy`] if somebody else held it to the last attempt;
    /// - [`AcquireError::NoQuorum`] if too few masters answered to the last attempt;
    /// - [`AcquireError::Quarantined`] if too few masters are out of quarantine
    ///   ([`Builder::restart_guard`]);
    /// - [`AcquireError::Expired`] if masters were too slow for the ttl;
    /// - [`AcquireError::Timeout`] if the wait limit ran out;
    /// - [`AcquireError::InvalidResources`], [`AcquireError::InvalidTtl`] before anything is sent;
    /// - [`AcquireError::FenceExhausted`] if masters have seen the largest fence that there can be;
    /// - [`AcquireError::ShutDown`] after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    /// Dropping the future takes back whatever was written, in the background, and hands its place in
    /// the queue on.
    pub async fn acquire<I>(&self, resources: I, ttl: Duration) -> Result<Lock, AcquireError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let resources = Resources::parse(resources)?;
        let ttl = whole_ttl(ttl)?;
        let span = debug_span!(target: TARGET, "acquire", %resources, ttl_ms = whole_ms(ttl));
        let counted = self.core.meter.acquisition();
        let result = self.acquire_parsed(resources, ttl).instrument(span).await;
        counted.ended(&result);
        result
    }

    /// Makes one attempt, whatever the retry policies; the wait limit holds. It does not queue behind
    /// acquisitions that wait, and may come before them.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As for [`acquire`](Self::acquire).
    pub async fn try_acquire<I>(&self, resources: I, ttl: Duration) -> Result<Lock, AcquireError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.with(|settings| settings.retry(crate::Retry::none()))
            .acquire(resources, ttl)
            .await
    }

    /// Acquires the resources, runs the routine, extends in the background as long as it runs, and
    /// releases.
    ///
    /// The routine gets a [`Signal`] that fires no later than the end of validity. It may borrow,
    /// and return anything. It is called once, after the lock was acquired, on the calling task; not
    /// at all if exclusivity ended before it could begin.
    ///
    /// On a multi-threaded runtime a routine that blocks its thread loses nothing, as long as one
    /// thread of the runtime is left. On a single-threaded one nothing can extend the lock
    /// meanwhile: the first look at the signal afterwards says so.
    ///
    /// ```no_run
    /// # async fn load(_: &str) -> Result<u32, Box<dyn std::error::Error>> { Ok(1) }
    /// # async fn post(_: u32, _: fredlock::Fence) -> Result<(), Box<dyn std::error::Error>> { Ok(()) }
    /// # async fn example(redlock: fredlock::Redlock) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// redlock
    ///     .using(["invoice:4821"], Duration::from_secs(5), async |signal| {
    ///         let invoice = load("4821").await?;
    ///         signal.check()?; // an error once it is no longer ours
    ///         post(invoice, signal.fence()).await // the ledger refuses an older fence
    ///     })
    ///     .await?
    /// # }
    /// ```
    ///
    /// `examples/wrapper.rs` has a generic function around it, whose future can be spawned.
    ///
    /// # Errors
    /// - [`UsingError::Acquire`] if the lock was not acquired: the routine never ran;
    /// - [`UsingError::Lost`] if exclusivity ended before the routine did; with its output.
    ///
    /// The routine's own error is its output: `Ok(Err(…))`. A release that failed at the end is
    /// logged, and never takes the place of the output.
    ///
    /// # Cancel safety
    /// Dropping the future drops the routine, and releases the lock in the background.
    ///
    /// # Panics
    /// Passes on a panic of the routine; the lock is released in the background.
    pub async fn using<I, F, Fut>(
        &self,
        resources: I,
        ttl: Duration,
        routine: F,
    ) -> Result<Fut::Output, UsingError<Fut::Output>>
    where
        I: IntoIterator,
        I::Item: Into<String>,
        F: FnOnce(Signal) -> Fut,
        Fut: Future,
    {
        // Boxed: its memory is not to stay for as long as the routine runs.
        let kept = Box::pin(self.acquire_and_keep(resources, ttl)).await?;
        using::run(kept, self.settings.abort_mode, routine).await
    }

    /// Ends the use of the masters, for all clones: no new lock is given, the signal of every running
    /// [`using`](Self::using) fires, routines, roll-backs and releases are waited for, and the
    /// connections are closed; all within `deadline`. Locks that the caller holds still are left to
    /// their ttl: over closed connections they can be neither extended nor released.
    ///
    /// Returns whether everything had ended in time. The connections are closed either way, if need
    /// be in the background: a hung master takes half a second to be let go of.
    ///
    /// # Cancel safety
    /// What was begun goes on; the connections may stay open. Call it again to wait again.
    pub async fn shutdown(&self, deadline: Duration) -> bool {
        let (core, end) = (&self.core, after(deadline));
        core.shutdown.cancel();
        let had_ended = timeout_at(end, core.background.idle()).await.is_ok();
        for master in &core.masters {
            core.background.spawn(master.close());
        }
        let were_closed = timeout_at(end, core.background.idle()).await.is_ok();
        core.closed.cancel();
        had_ended && were_closed
    }

    /// How many tasks of its own are running: keepers, roll-backs, calls that were decided before
    /// they were answered. 0 once all calls have ended and all masters have answered. For tests and
    /// metrics.
    #[must_use]
    pub fn background_tasks(&self) -> usize {
        self.core.background.running()
    }

    /// How many acquisitions wait for their turn or for an answer: all that have begun and may be
    /// tried again. For tests and metrics.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.core.queue.len()
    }

    async fn acquire_and_keep<I>(&self, resources: I, ttl: Duration) -> Result<Kept, AcquireError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let ttl = whole_ttl(ttl)?;
        // A shutdown does not come between the acquisition and the task that keeps the lock.
        let call = self.core.background.begin_call();
        let lock = self.acquire(resources, ttl).await?;
        Ok(using::keep(&self.core, &self.settings, call, lock, ttl).await)
    }

    async fn acquire_parsed(
        &self,
        resources: Resources,
        ttl: Duration,
    ) -> Result<Lock, AcquireError> {
        // Dropped last: what is taken back is taken back by then.
        let _call = self.core.background.begin_call();
        if self.core.window(ttl).is_zero() {
            // No answer could come in time.
            return Err(InvalidTtl { ttl, guard: None }.into());
        }
        self.core.admit_ttl(ttl)?;
        let command_timeout = self.settings.command_timeout_for(ttl);
        let mut wait = Wait::new(&self.core, &self.settings, &resources, command_timeout);
        let mut token = Token::fresh(&self.core.entropy, self.core.mark);
        loop {
            wait.turn().await?;
            let number = debug_span!(target: TARGET, "attempt", count = wait.count());
            // Never used again once a delete for it was sent.
            if !self.core.breaks(Mutant::OneToken) {
                token = Token::fresh(&self.core.entropy, self.core.mark);
            }
            let attempt = attempt(
                &self.core,
                &resources,
                token,
                self.settings.owner_label.as_ref(),
                ttl,
                command_timeout,
                wait.deadline(),
            );
            let counted = self.core.meter.attempt();
            let result = attempt.instrument(number).await;
            counted.ended(&result);
            match result {
                // Dropping it takes it back.
                Ok(_) if self.core.shutdown.is_cancelled() => return Err(AcquireError::ShutDown),
                Ok(lock) => {
                    wait.won(token);
                    return Ok(lock);
                }
                Err(failed) => wait.failed(failed),
            }
        }
    }
}

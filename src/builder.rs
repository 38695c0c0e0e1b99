//! Building a `Redlock`: which masters, and every setting.

mod connect;
mod error;

use std::{sync::Arc, time::Duration};

use fred::{clients::Client, interfaces::ClientLike, types::config::Config};

pub use self::error::BuildError;
use crate::{
    clock::{Clock, wall_clock},
    core::WallClock,
    entropy::Entropy,
    fence::Fencing,
    fleet::Source,
    settings::Settings,
};

/// The most masters that one [`Redlock`](crate::Redlock) can have.
pub const MASTERS_MAX: usize = 63;

/// Collects masters and settings; made by [`Redlock::builder`](crate::Redlock::builder).
///
/// Every client of the same resources must have the same masters: lists that share too few break
/// exclusion.
///
/// ```no_run
/// # async fn example() -> Result<(), fredlock::BuildError> {
/// use fredlock::{Redlock, Retry};
/// use std::time::Duration;
///
/// let redlock = Redlock::builder()
///     .urls(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
///     .connect_timeout(Duration::from_secs(5))
///     .settings(|settings| settings.retry(Retry::default().count(3)))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is connected until `connect`"]
pub struct Builder {
    sources: Vec<Source>,
    fencing: Fencing,
    drift_factor: f64,
    quorum: Option<usize>,
    guard: Option<Duration>,
    settings: Settings,
    allow_sentinel_managed: bool,
    connect_timeout: Duration,
    wall_clock: WallClock,
    clock: Clock,
    entropy: Entropy,
    direct_max: Option<usize>,
    #[cfg(feature = "testing")]
    mutant: Option<crate::testing::Mutant>,
    #[cfg(feature = "testing")]
    pause: Option<crate::testing::Pause>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            fencing: Fencing::default(),
            drift_factor: 0.01,
            quorum: None,
            guard: None,
            settings: Settings::default(),
            allow_sentinel_managed: false,
            connect_timeout: Duration::from_secs(2),
            wall_clock: Arc::new(wall_clock),
            clock: Clock::default(),
            entropy: Entropy::default(),
            direct_max: None,
            #[cfg(feature = "testing")]
            mutant: None,
            #[cfg(feature = "testing")]
            pause: None,
        }
    }
}

impl Builder {
    /// Adds a master by its URL, as fred has them: `redis://user:password@host:port/database`,
    /// `rediss://…` for TLS (with the feature `rustls`), `redis+unix:///path/to/socket`. The port
    /// defaults to 6379. `valkey` may stand for `redis`. It is parsed in [`connect`](Self::connect).
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.sources.push(Source::Url(url.into()));
        self
    }

    /// Adds a master for each URL.
    pub fn urls<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.sources
            .extend(urls.into_iter().map(|url| Source::Url(url.into())));
        self
    }

    /// Adds a master by a configuration of fred, for what a URL cannot say, such as certificates.
    /// Its `fail_fast` does not count: a master that is down is connected to when it comes up.
    pub fn config(mut self, config: Config) -> Self {
        self.sources
            .push(Source::Config(Box::new(config), Box::default()));
        self
    }

    /// Adds the master that a client of fred is configured for. The client itself is not used: a
    /// sibling on a connection of its own is made, with its configuration, but so that it never
    /// sends a command twice and reconnects without end.
    pub fn client(mut self, client: &Client) -> Self {
        let settings = client.connection_config().clone();
        self.sources.push(Source::Config(
            Box::new(client.client_config()),
            Box::new(settings),
        ));
        self
    }

    /// Adds in-memory masters, in the order of their indices.
    #[cfg(feature = "testing")]
    pub fn memory(mut self, masters: &crate::testing::MemoryMasters) -> Self {
        self.sources
            .extend(masters.as_masters().map(Source::Memory));
        self
    }

    /// Whether masters keep fences, and how long. Defaults to [`Fencing::On`] with a retention of
    /// ten minutes. All clients of the same resources must agree on this.
    pub fn fencing(mut self, fencing: Fencing) -> Self {
        self.fencing = fencing;
        self
    }

    /// By how much the clocks of masters and client may differ in rate, as a part of the ttl that
    /// is taken off the validity (with 2 ms more): from 0 to 0.5. Defaults to 0.01. Exclusion rests
    /// on it.
    pub fn drift_factor(mut self, factor: f64) -> Self {
        self.drift_factor = factor;
        self
    }

    /// How many masters have to agree: from N / 2 + 1, the default, to N.
    ///
    /// Each one more allows one master less to be down, and buys masters that may forget: with a
    /// quorum of q, exclusion and the order of fences survive 2q − N − 1 masters that come back
    /// empty while locks are held (none for 3 of 5, one for 3 of 4, two for 4 of 5), since any two
    /// quorums share 2q − N masters, one of which has to remember. Nothing has to wait for it, unlike
    /// under [`restart_guard`](Self::restart_guard). All clients of the same resources should have
    /// the same: the smallest decides.
    pub fn quorum(mut self, quorum: usize) -> Self {
        self.quorum = Some(quorum);
        self
    }

    /// Keeps a master that comes back empty out of every quorum for so long: from 1 ms to 100 years,
    /// in whole milliseconds. `None`, the default, is no guard.
    ///
    /// A master without persistence that restarts, one that is flushed, and a new one at the same
    /// address have forgotten locks and fences; a vote of theirs can let in a second holder. With a
    /// guard every master has a marker, a key without expiry. Where that is gone, the first command
    /// that finds it so puts it back, and the master in quarantine: it grants nothing, and no
    /// extension is counted there, until the guard's time is over.
    ///
    /// It must be at least the longest ttl in use, so that whatever the master had granted is over
    /// by then (a longer ttl is refused), and more by the skew of the clients' clocks, so that
    /// fences rise. It does not see a master that comes back with an older state, from a snapshot
    /// say.
    ///
    /// What it costs: a master that restarted is missing for that much longer, on the master one
    /// read for every command, and scripts instead of native commands under [`Fencing::Off`]. A new
    /// cluster gives no lock until the guard's time is over, unless
    /// [`Redlock::initialise`](crate::Redlock::initialise) was called; so does one that is in use and has no marker yet. All
    /// clients of the same masters must have the same guard: one without it is let in by a master in
    /// quarantine, and with different ones the first to ask decides how long that lasts.
    pub fn restart_guard(mut self, guard: impl Into<Option<Duration>>) -> Self {
        self.guard = guard.into();
        self
    }

    /// Changes the settings of all calls; [`Redlock::with`](crate::Redlock::with) changes those of some.
    pub fn settings(mut self, change: impl FnOnce(Settings) -> Settings) -> Self {
        self.settings = change(self.settings);
        self
    }

    /// Lets masters pass that sentinels manage. A fail-over promotes a replica that may not have
    /// the lock yet: then two holders are possible. Defaults to false.
    pub fn allow_sentinel_managed(mut self, allow: bool) -> Self {
        self.allow_sentinel_managed = allow;
        self
    }

    /// The longest that [`connect`](Self::connect) waits for masters; zero waits for none. Defaults
    /// to 2 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// What tells the time of day in microseconds since 1970. It only chooses which fence is
    /// proposed first; no guarantee rests on it. Defaults to the system's.
    #[cfg(feature = "testing")]
    pub fn wall_clock(mut self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.wall_clock = Arc::new(clock);
        self
    }

    /// What tells for how long the machine has been suspended in all; only how it grows counts. A
    /// validity is shorter by what comes to it. Defaults to what the system tells: on Linux and
    /// Android by how much `CLOCK_BOOTTIME` is ahead of `CLOCK_MONOTONIC`, elsewhere nothing.
    #[cfg(feature = "testing")]
    pub fn suspended(mut self, told: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.clock = Clock::suspended_by(told);
        self
    }

    /// Draws every random number, tokens and jitter, from a seed: for simulations that have to be
    /// replayed. Tokens are no secret then.
    #[cfg(feature = "testing")]
    pub fn seed(mut self, seed: u64) -> Self {
        self.entropy = Entropy::from_seed(seed);
        self
    }

    /// Lets a test stop everything that this client does in the background, as SIGSTOP would.
    #[cfg(feature = "testing")]
    pub fn pause(mut self, pause: &crate::testing::Pause) -> Self {
        self.pause = Some(pause.clone());
        self
    }

    /// How many calls to one master may be under way by themselves before more are grouped.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn direct_max(mut self, calls: usize) -> Self {
        self.direct_max = Some(calls);
        self
    }

    /// Breaks a rule of the protocol on purpose.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn mutant(mut self, mutant: Option<crate::testing::Mutant>) -> Self {
        self.mutant = mutant;
        self
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // URLs and configurations may hold passwords.
        f.debug_struct("Builder")
            .field("masters", &self.sources.len())
            .field("fencing", &self.fencing)
            .field("drift_factor", &self.drift_factor)
            .field("quorum", &self.quorum)
            .field("restart_guard", &self.guard)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

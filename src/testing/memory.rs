//! In-memory masters, and what a test can do to them.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    link::{Link, Network},
    network::{Fate, Message},
    server::{Condition, Server, State},
};

/// Independent in-memory masters, named `memory-0`, `memory-1` and so on.
///
/// Give them to any number of [`Redlock`](crate::Redlock)s by
/// [`Builder::memory`](crate::Builder::memory): each is one more client of the same masters.
/// Cheap to clone; clones are the same masters. Has to be made on a tokio runtime if its time is
/// paused. Methods that take the index of a master panic if there is none.
#[derive(Clone)]
pub struct MemoryMasters {
    servers: Arc<[Arc<Server>]>,
    network: Arc<Network>,
    clients: Arc<AtomicUsize>,
}

impl MemoryMasters {
    /// So many empty masters: five as a rule. A [`Redlock`](crate::Redlock) takes 1 to
    /// [`MASTERS_MAX`](crate::MASTERS_MAX).
    #[must_use]
    pub fn new(count: usize) -> Self {
        let named = |index| Arc::new(Server::new(format!("memory-{index}")));
        Self {
            servers: (0..count).map(named).collect(),
            network: Arc::new(Mutex::new(Box::new(|_| Fate::default()))),
            clients: Arc::default(),
        }
    }

    /// How many there are.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a count of masters, not a collection"
    )]
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Takes the lock on a resource away from whoever holds it, on every master: what does your
    /// code do then?
    pub fn lose(&self, resource: &str) {
        for master in 0..self.len() {
            self.delete(master, resource);
        }
    }

    /// Stops a master: it refuses every request at once, and keeps its keys.
    pub fn stop(&self, master: usize) {
        self.state(master).set_condition(Condition::Stopped);
    }

    /// Freezes a master: requests to it time out, and are done once it is healed, as by a process
    /// under SIGSTOP.
    pub fn hang(&self, master: usize) {
        self.state(master).set_condition(Condition::Frozen);
    }

    /// Loses every request to a master: they time out, and are never done.
    pub fn deafen(&self, master: usize) {
        self.state(master).set_condition(Condition::Deaf);
    }

    /// Loses every answer of a master: requests are done, and time out.
    pub fn mute(&self, master: usize) {
        self.state(master).set_condition(Condition::Mute);
    }

    /// Answers every request with this error, such as `READONLY …`.
    pub fn fail(&self, master: usize, error: impl Into<String>) {
        self.state(master)
            .set_condition(Condition::Failing(error.into()));
    }

    /// Ends every fault of a master; its clock stays what it is.
    pub fn heal(&self, master: usize) {
        self.state(master).set_condition(Condition::Well);
    }

    /// Empties a master, as `FLUSHALL` does.
    pub fn clear(&self, master: usize) {
        self.state(master).store.clear();
    }

    /// Restarts a master that has persistence: it keeps its keys; requests on their way are lost.
    pub fn restart(&self, master: usize) {
        self.state(master).restart();
    }

    /// Restarts a master that has none: it comes back empty; requests on their way are lost.
    pub fn restart_empty(&self, master: usize) {
        let mut state = self.state(master);
        state.restart();
        state.store.clear();
    }

    /// How long a master takes to answer, half of it on the way there. Zero at first.
    pub fn set_latency(&self, master: usize, latency: Duration) {
        self.state(master).latency = latency;
    }

    /// How fast the clock of a master runs, from now on: 1 at first. Keys expire by it.
    pub fn set_clock_rate(&self, master: usize, rate: f64) {
        self.state(master).clock.set_rate(Instant::now(), rate);
    }

    /// Sets the clock of a master forward.
    pub fn jump_clock_forward(&self, master: usize, by: Duration) {
        self.state(master)
            .clock
            .jump(Instant::now(), by, Duration::ZERO);
    }

    /// Sets the clock of a master back.
    pub fn jump_clock_back(&self, master: usize, by: Duration) {
        self.state(master)
            .clock
            .jump(Instant::now(), Duration::ZERO, by);
    }

    /// Decides from now on what becomes of every request, to any master, by any client: it may be
    /// delayed, lost, repeated or overtaken, and so may its answer. The conditions of the master
    /// come on top.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), fredlock::AcquireError> {
    /// use fredlock::{Redlock, testing::{Fate, MemoryMasters, MessageKind}};
    /// use std::time::Duration;
    ///
    /// let masters = MemoryMasters::new(3);
    /// let redlock = Redlock::builder().memory(&masters).connect().await.expect("masters of memory");
    /// // Every answer to an acquire is lost on two masters of three.
    /// masters.set_network(|message| match message.kind {
    ///     MessageKind::Acquire if message.master < 2 => Fate::default().lose_reply(),
    ///     _ => Fate::default(),
    /// });
    /// let error = redlock.try_acquire(["job"], Duration::from_secs(1)).await.unwrap_err();
    /// println!("{error}");
    /// # Ok(()) }
    /// ```
    pub fn set_network(&self, decide: impl FnMut(&Message) -> Fate + Send + 'static) {
        *self.network.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(decide);
    }

    /// Breaks a rule of the protocol on every master on purpose.
    #[doc(hidden)]
    pub fn mutate(&self, mutant: Option<crate::testing::Mutant>) {
        for master in 0..self.len() {
            self.state(master).store.mutant = mutant;
        }
    }

    /// How many keys a master has written under a token for which it had done a release: with
    /// fencing, none ever, unless it was emptied in between.
    #[must_use]
    pub fn resurrections(&self, master: usize) -> u64 {
        self.state(master).store.resurrections
    }

    /// What stands under a key.
    #[must_use]
    pub fn get(&self, master: usize, key: &str) -> Option<String> {
        let mut state = self.state(master);
        let now = state.time();
        state.store.get(key, now)
    }

    /// Sets a key, as another client would.
    pub fn set(&self, master: usize, key: &str, value: &str, ttl: Option<Duration>) {
        let mut state = self.state(master);
        let now = state.time();
        state.store.set(key, value, ttl.map(|ttl| now + ttl));
    }

    /// Deletes a key; true if there was one.
    #[allow(clippy::must_use_candidate, reason = "most tests know")]
    pub fn delete(&self, master: usize, key: &str) -> bool {
        let mut state = self.state(master);
        let now = state.time();
        state.store.remove(key, now)
    }

    /// How long a key has to live; `None` if there is none, or it does not expire.
    #[must_use]
    pub fn time_left(&self, master: usize, key: &str) -> Option<Duration> {
        let mut state = self.state(master);
        let now = state.time();
        state.store.time_left(key, now)
    }

    /// All keys of a master, sorted; those of fences too.
    #[must_use]
    pub fn keys(&self, master: usize) -> Vec<String> {
        let mut state = self.state(master);
        let now = state.time();
        state.store.keys(now)
    }

    /// How many requests a master was sent.
    #[must_use]
    pub fn calls(&self, master: usize) -> u64 {
        self.state(master).calls
    }

    /// The way of one more client to every master.
    pub(crate) fn as_masters(&self) -> impl Iterator<Item = Link> + '_ {
        let client = self.clients.fetch_add(1, Ordering::Relaxed);
        let servers = self.servers.iter().enumerate();
        servers.map(move |(master, server)| Link::new(server, &self.network, master, client))
    }

    fn state(&self, master: usize) -> MutexGuard<'_, State> {
        self.servers[master].now()
    }
}

impl fmt::Debug for MemoryMasters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryMasters").field(&self.servers).finish()
    }
}

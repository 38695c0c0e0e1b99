//! In-memory masters and what a test can do to them.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep, sleep_until};

use super::store::Store;
use crate::{
    master::{Call, Master, Request},
    outcome::{Answer, MasterError},
};

/// Independent in-memory masters, named `memory-0`, `memory-1` and so on.
///
/// Give them to any number of [`Redlock`](crate::Redlock)s by
/// [`Builder::memory`](crate::Builder::memory): each is one more client of the same masters.
/// Cheap to clone; clones are the same masters.
///
/// # Panics
/// Methods that take the index of a master, which counts from 0, panic if there is none.
#[derive(Debug, Clone)]
pub struct MemoryMasters(Arc<[Arc<MemoryMaster>]>);

#[derive(Debug)]
struct MemoryMaster {
    name: Arc<str>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    store: Store,
    latency: Duration,
    fault: Fault,
    calls: u64,
}

#[derive(Debug, Clone, Default)]
enum Fault {
    #[default]
    None,
    /// Refuses connections.
    Stopped,
    /// Takes requests and does nothing.
    Hung,
    /// Does what is asked; the answer is lost.
    Mute,
    /// Answers every request with this error.
    Error(String),
}

impl MemoryMasters {
    /// So many empty masters: five as a rule. A [`Redlock`](crate::Redlock) takes 1 to
    /// [`MASTERS_MAX`](crate::MASTERS_MAX).
    #[must_use]
    pub fn new(count: usize) -> Self {
        let named = |index| MemoryMaster {
            name: format!("memory-{index}").into(),
            state: Mutex::default(),
        };
        Self((0..count).map(|index| Arc::new(named(index))).collect())
    }

    pub(crate) fn as_masters(&self) -> impl Iterator<Item = Arc<dyn Master>> + '_ {
        self.0
            .iter()
            .map(|master| Arc::new(Link(Arc::clone(master))) as Arc<dyn Master>)
    }

    /// How many there are.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a count of masters, not a collection"
    )]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Stops a master: it refuses every request at once, and keeps its keys.
    pub fn stop(&self, master: usize) {
        self.state(master).fault = Fault::Stopped;
    }

    /// Lets a master hang: requests time out, and are never done, not even after
    /// [`heal`](Self::heal).
    pub fn hang(&self, master: usize) {
        self.state(master).fault = Fault::Hung;
    }

    /// Loses every answer of a master: requests are done, and time out.
    pub fn mute(&self, master: usize) {
        self.state(master).fault = Fault::Mute;
    }

    /// Answers every request with this error, such as `READONLY …`.
    pub fn fail(&self, master: usize, error: impl Into<String>) {
        self.state(master).fault = Fault::Error(error.into());
    }

    /// Ends every fault of a master.
    pub fn heal(&self, master: usize) {
        self.state(master).fault = Fault::None;
    }

    /// Empties a master, as a restart without persistence does, or `FLUSHALL`.
    pub fn clear(&self, master: usize) {
        self.state(master).store.clear();
    }

    /// How long a master takes to answer, half of it on the way there. Zero at first.
    pub fn set_latency(&self, master: usize, latency: Duration) {
        self.state(master).latency = latency;
    }

    /// What stands under a key.
    #[must_use]
    pub fn get(&self, master: usize, key: &str) -> Option<String> {
        self.state(master).store.get(key)
    }

    /// Sets a key, as another client would.
    pub fn set(&self, master: usize, key: &str, value: &str, ttl: Option<Duration>) {
        self.state(master).store.set(key, value, ttl);
    }

    /// Deletes a key; true if there was one.
    #[allow(clippy::must_use_candidate, reason = "most tests know")]
    pub fn delete(&self, master: usize, key: &str) -> bool {
        self.state(master).store.remove(key)
    }

    /// How long a key has to live; `None` if there is none, or it does not expire.
    #[must_use]
    pub fn time_left(&self, master: usize, key: &str) -> Option<Duration> {
        self.state(master).store.time_left(key)
    }

    /// All keys of a master, sorted; those of fences too.
    #[must_use]
    pub fn keys(&self, master: usize) -> Vec<String> {
        self.state(master).store.keys()
    }

    /// How many requests have reached a master, those that it refused or did not answer included.
    #[must_use]
    pub fn calls(&self, master: usize) -> u64 {
        self.state(master).calls
    }

    /// Takes the lock on a resource away from whoever holds it, on every master: what does your
    /// code do then?
    pub fn lose(&self, resource: &str) {
        for master in 0..self.len() {
            self.delete(master, resource);
        }
    }

    fn state(&self, master: usize) -> MutexGuard<'_, State> {
        self.0[master].state()
    }
}

impl MemoryMaster {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What comes back for a request that arrived now.
enum Reply {
    After(Duration, Result<Answer, MasterError>),
    Never,
}

impl MemoryMaster {
    fn receive(&self, request: &Request) -> Reply {
        let mut state = self.state();
        state.calls += 1;
        let latency = state.latency;
        match state.fault.clone() {
            Fault::None => Reply::After(latency, Ok(state.store.apply(request))),
            Fault::Stopped => Reply::After(
                Duration::ZERO,
                Err(MasterError::NotConnected("stopped".to_owned())),
            ),
            Fault::Error(error) => Reply::After(latency, Err(MasterError::Server(error))),
            Fault::Hung => Reply::Never,
            Fault::Mute => {
                state.store.apply(request);
                Reply::Never
            }
        }
    }
}

/// One client's way to a master.
#[derive(Debug)]
struct Link(Arc<MemoryMaster>);

impl Master for Link {
    fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    fn call(&self, request: &Request, timeout: Duration) -> Call {
        let (master, request) = (Arc::clone(&self.0), request.clone());
        Box::pin(async move {
            let gives_up = Instant::now() + timeout;
            // Half of the latency on the way there, half on the way back.
            let one_way = master.state().latency / 2;
            if !one_way.is_zero() {
                sleep_until(gives_up.min(Instant::now() + one_way)).await;
            }
            match master.receive(&request) {
                Reply::After(latency, result) if latency < timeout => {
                    if !latency.is_zero() {
                        sleep(latency.saturating_sub(one_way)).await;
                    }
                    return result;
                }
                _ => sleep_until(gives_up).await,
            }
            Err(MasterError::Timeout)
        })
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

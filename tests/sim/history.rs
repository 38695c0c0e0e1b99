//! What happened in a run: what clients believed, what masters showed, and what went wrong.

use std::{
    collections::HashMap,
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::hold::Hold;

/// A hold that lasts at most as long as this does: a call that is cancelled gives it up.
pub(crate) struct Holding {
    history: Arc<History>,
    number: usize,
}

impl Holding {
    /// The client looked: it holds, for as long as `remaining`.
    pub(crate) fn valid(&self, remaining: Duration) {
        let until = self.history.now() + remaining;
        let hold = &mut self.history.inner().holds[self.number];
        hold.until = hold.until.max(until);
    }

    /// The client gives it up, or has learnt of its loss.
    pub(crate) fn ended(&self, how: &str) {
        let client = {
            let now = self.history.now();
            let hold = &mut self.history.inner().holds[self.number];
            hold.ended.get_or_insert(now);
            hold.client
        };
        self.history.note(format!("client {client}: {how}"));
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let now = self.history.now();
        self.history.inner().holds[self.number]
            .ended
            .get_or_insert(now);
    }
}

/// All holds, what the clients did, and the violations that were noticed on the way.
#[derive(Debug)]
pub(crate) struct History(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    holds: Vec<Hold>,
    /// For each resource, the largest fence that was written to the thing it protects.
    stored: Vec<u64>,
    trace: Vec<(Duration, String)>,
    violations: Vec<String>,
    /// For each client, when it was last paused, and when it went on.
    paused: HashMap<usize, (Instant, Option<Instant>)>,
}

impl History {
    pub(crate) fn new(resources: usize) -> Self {
        Self(Mutex::new(Inner {
            start: Instant::now(),
            holds: Vec::new(),
            stored: vec![0; resources],
            trace: Vec::new(),
            violations: Vec::new(),
            paused: HashMap::new(),
        }))
    }

    /// The time since the run began, as holds count it.
    pub(crate) fn now(&self) -> Duration {
        self.at(Instant::now())
    }

    pub(crate) fn at(&self, time: Instant) -> Duration {
        time.duration_since(self.inner().start)
    }

    pub(crate) fn note(&self, what: impl Into<String>) {
        let mut inner = self.inner();
        let at = inner.start.elapsed();
        inner.trace.push((at, what.into()));
    }

    pub(crate) fn violation(&self, what: impl Into<String>) {
        let what = what.into();
        self.note(format!("VIOLATION: {what}"));
        self.inner().violations.push(what);
    }

    pub(crate) fn hold(self: &Arc<Self>, hold: Hold) -> Holding {
        let valid = hold.until.saturating_sub(self.now());
        self.note(format!(
            "client {} holds {:?} with fence {} for {valid:?}",
            hold.client, hold.resources, hold.fence
        ));
        let mut inner = self.inner();
        inner.holds.push(hold);
        Holding {
            history: Arc::clone(self),
            number: inner.holds.len() - 1,
        }
    }

    pub(crate) fn paused(&self, client: usize) {
        self.inner().paused.insert(client, (Instant::now(), None));
    }

    pub(crate) fn resumed(&self, client: usize) {
        if let Some((_, resumed)) = self.inner().paused.get_mut(&client) {
            resumed.get_or_insert_with(Instant::now);
        }
    }

    /// Was the client never paused since then?
    pub(crate) fn was_awake(&self, client: usize, since: Instant) -> bool {
        let inner = self.inner();
        let last = inner.paused.get(&client);
        last.is_none_or(|(_, resumed)| resumed.is_some_and(|resumed| resumed < since))
    }

    /// Writes to what the resources protect, which refuses a fence older than the newest. True if
    /// all of them took it.
    pub(crate) fn write(&self, resources: &[usize], fence: u64) -> bool {
        let mut inner = self.inner();
        let is_newest = resources
            .iter()
            .all(|&resource| inner.stored[resource] <= fence);
        if is_newest {
            for &resource in resources {
                inner.stored[resource] = fence;
            }
        }
        is_newest
    }

    pub(crate) fn holds(&self) -> Vec<Hold> {
        self.inner().holds.clone()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.inner().violations.clone()
    }

    /// The trace as a person reads it, a line an event.
    pub(crate) fn trace(&self) -> String {
        let mut text = String::new();
        for (at, what) in &self.inner().trace {
            writeln!(text, "{:>10.3} ms  {what}", at.as_secs_f64() * 1e3).unwrap();
        }
        text
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

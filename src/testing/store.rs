//! What one master does: the semantics of the scripts in `master/*.lua`, without a server.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    master::{Holder, Operation, Request},
    mutant::Mutant,
    outcome::Answer,
    resources::Resources,
    token::Token,
};

mod fences;
mod guard;
mod protocol;
mod question;

/// The keys of one master, with their expiry.
#[derive(Debug, Default)]
pub(super) struct Store {
    keys: HashMap<String, Entry>,
    /// The master's clock, at the request that is being done.
    now: Duration,
    /// The tokens for which a release was done here, since the master forgot last.
    released: HashSet<Token>,
    /// How many keys were written under such a token.
    pub(super) resurrections: u64,
    /// Who is to be told, once, when one of these keys is changed.
    pub(super) watchers: Vec<(Resources, Arc<Notify>)>,
    /// A rule that this master breaks.
    pub(super) mutant: Option<Mutant>,
}

#[derive(Debug, Clone)]
struct Entry {
    value: String,
    /// By the clock of the master.
    expires: Option<Duration>,
}

impl Store {
    pub(super) fn apply(&mut self, request: &Request, now: Duration) -> Answer {
        self.expire(now);
        let quarantine = self.guard(request);
        match (request.operation, quarantine) {
            (Operation::Acquire { .. }, Some(time_left)) => Answer::Quarantined {
                time_left,
                missing: false,
            },
            (Operation::Acquire { ttl_ms }, None) => self.acquire(request, ttl_ms),
            (
                Operation::Extend {
                    ttl_ms, missing, ..
                },
                quarantine,
            ) => match (self.extend(request, ttl_ms, missing), quarantine) {
                (answer @ (Answer::Extended | Answer::Missing), Some(time_left))
                    if self.mutant != Some(Mutant::QuarantineCounted) =>
                {
                    Answer::Quarantined {
                        time_left,
                        missing: answer == Answer::Missing,
                    }
                }
                (answer, _) => answer,
            },
            (Operation::Release { may_return }, _) => self.release(request, may_return),
        }
    }

    /// `None` where none of the keys is there; else whose the first is, too.
    pub(super) fn watch(
        &mut self,
        resources: &Resources,
        now: Duration,
    ) -> Option<(Arc<Notify>, Option<Holder>)> {
        self.expire(now);
        let mut held = resources.iter().map(|key| self.keys.get(key)).enumerate();
        let (resource, entry) = held.find_map(|(index, entry)| Some((index, entry?)))?;
        let holder = Holder::of(resource, &entry.value);
        let changed = Arc::new(Notify::new());
        // Those of waiters that have gone are let go of.
        self.watchers
            .retain(|(_, other)| Arc::strong_count(other) > 1);
        self.watchers
            .push((resources.clone(), Arc::clone(&changed)));
        Some((changed, holder))
    }

    fn tell_change(&mut self, key: &str) {
        self.watchers.retain(|(resources, changed)| {
            let is_meant = resources.iter().any(|name| name == key);
            if is_meant {
                changed.notify_one();
            }
            !is_meant
        });
    }

    pub(super) fn clear(&mut self) {
        // A real server tells that all keys are gone, which its client does not understand.
        self.keys.clear();
        self.released.clear();
    }

    pub(super) fn get(&mut self, key: &str, now: Duration) -> Option<String> {
        self.expire(now);
        self.keys.get(key).map(|entry| entry.value.clone())
    }

    pub(super) fn set(&mut self, key: &str, value: &str, expires: Option<Duration>) {
        self.tell_change(key);
        self.keys.insert(
            key.to_owned(),
            Entry {
                value: value.to_owned(),
                expires,
            },
        );
    }

    pub(super) fn remove(&mut self, key: &str, now: Duration) -> bool {
        self.expire(now);
        self.tell_change(key);
        self.keys.remove(key).is_some()
    }

    pub(super) fn time_left(&mut self, key: &str, now: Duration) -> Option<Duration> {
        self.expire(now);
        self.left(self.keys.get(key)?)
    }

    pub(super) fn keys(&mut self, now: Duration) -> Vec<String> {
        self.expire(now);
        let mut keys: Vec<_> = self.keys.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    fn expire(&mut self, now: Duration) {
        self.now = now;
        self.keys
            .retain(|_, entry| entry.expires.is_none_or(|expires| expires > now));
    }

    fn left(&self, entry: &Entry) -> Option<Duration> {
        entry
            .expires
            .map(|expires| expires.saturating_sub(self.now))
    }

    fn set_for(&mut self, key: &str, value: &str, ttl_ms: u64) {
        self.set(key, value, Some(self.now + Duration::from_millis(ttl_ms)));
    }
}

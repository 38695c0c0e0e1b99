//! What one master does: the semantics of the scripts in `master/*.lua`, without a server.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    master::{
        Break, FenceWrite, GUARD_MARKER, GUARD_QUARANTINE, GuardSight, Missing, Operation,
        Question, Request, Sight,
    },
    mutant::Mutant,
    outcome::Answer,
    resources::Resources,
    token::Token,
};

/// How many releases are remembered for the audit; then it begins anew.
const AUDITED_MAX: usize = 512;

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

    pub(super) fn tell(&mut self, question: &Question, now: Duration) -> Sight {
        self.expire(now);
        match question {
            Question::Inspect { resource, guarded } => self.sight(resource, *guarded),
            Question::Alive { .. } => Sight::default(),
            Question::Break(task) => {
                self.mark(task.guard_ms);
                let deleted = self.break_lock(task);
                Sight {
                    deleted,
                    ..self.sight(&task.resource, task.guard_ms.is_some())
                }
            }
            Question::GuardState => Sight::of_guard(self.guard_sight()),
            Question::Initialise if self.guard_sight() == GuardSight::Ready => {
                Sight::of_guard(GuardSight::Ready)
            }
            Question::Initialise => {
                self.set(GUARD_MARKER, "1", None);
                self.keys.remove(GUARD_QUARANTINE);
                Sight::of_guard(GuardSight::Initialised)
            }
        }
    }

    fn sight(&self, resource: &Resources, guarded: bool) -> Sight {
        let name = resource.iter().next().unwrap_or_default();
        let entry = self.keys.get(name);
        Sight {
            value: entry.map(|entry| entry.value.clone().into_bytes()),
            time_left: entry.and_then(|entry| self.left(entry)),
            fence: resource.fence_keys().map(|key| self.fence(key)).sum(),
            guard: guarded.then(|| self.guard_sight()),
            deleted: false,
        }
    }

    /// Was it deleted?
    fn break_lock(&mut self, task: &Break) -> bool {
        let name = task.resource.iter().next().unwrap_or_default();
        let entry = self.keys.get(name);
        let was_seen = |entry: &Entry| {
            let value = entry.value.as_bytes();
            task.values.iter().any(|seen| seen == value)
        };
        let deleted = entry.is_some_and(was_seen);
        if entry.is_some() && !deleted {
            return false;
        }
        if self.keys.remove(name).is_some() {
            self.tell_change(name);
        }
        self.raise_to(&task.resource, task.write);
        self.keep_for(&task.resource, task.write);
        deleted
    }

    /// A master that has forgotten that it was marked marks itself.
    fn mark(&mut self, guard_ms: Option<u64>) {
        if let Some(guard_ms) = guard_ms
            && !self.keys.contains_key(GUARD_MARKER)
        {
            self.set(GUARD_MARKER, "1", None);
            self.set_for(GUARD_QUARANTINE, "1", guard_ms);
        }
    }

    /// Marks the master if it has forgotten that it was; gives the time left if it is in quarantine.
    fn guard(&mut self, request: &Request) -> Option<Duration> {
        let guard_ms = request.guard_ms?;
        let is_acquire = matches!(request.operation, Operation::Acquire { .. });
        if self.mutant == Some(Mutant::GuardOnlyInAcquire) && !is_acquire {
            return None;
        }
        self.mark(Some(guard_ms));
        match self.guard_sight() {
            GuardSight::Quarantined { time_left } => Some(time_left),
            _ => None,
        }
    }

    fn guard_sight(&self) -> GuardSight {
        if !self.keys.contains_key(GUARD_MARKER) {
            return GuardSight::Unmarked;
        }
        match self.keys.get(GUARD_QUARANTINE) {
            None => GuardSight::Ready,
            Some(entry) => GuardSight::Quarantined {
                time_left: self
                    .left(entry)
                    .unwrap_or_default()
                    .max(Duration::from_millis(1)),
            },
        }
    }

    /// `None` where none of the keys is there.
    pub(super) fn watch(&mut self, resources: &Resources, now: Duration) -> Option<Arc<Notify>> {
        self.expire(now);
        if !resources.iter().any(|key| self.keys.contains_key(key)) {
            return None;
        }
        let changed = Arc::new(Notify::new());
        // Those of waiters that have gone are let go of.
        self.watchers
            .retain(|(_, other)| Arc::strong_count(other) > 1);
        self.watchers
            .push((resources.clone(), Arc::clone(&changed)));
        Some(changed)
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

    fn acquire(&mut self, request: &Request, ttl_ms: u64) -> Answer {
        let token = request.value.to_string();
        let seen = self.seen(request);
        let (mut busy, mut wait, mut free) = (false, Some(Duration::ZERO), false);
        for key in request.resources.iter() {
            match self.keys.get(key) {
                None => free = true,
                Some(entry) if entry.value == token => {}
                Some(entry) => {
                    busy = true;
                    let left = self.left(entry);
                    wait = wait.zip(left).map(|(wait, left)| wait.max(left));
                }
            }
        }
        if busy {
            return Answer::Busy {
                seen,
                time_left: wait,
            };
        }
        let is_stale = |write: FenceWrite| {
            let checked = match self.mutant {
                Some(Mutant::FirstFenceOnly) => 1,
                _ => request.resources.len(),
            };
            let pairs = request
                .resources
                .iter()
                .zip(request.resources.fence_keys())
                .take(checked);
            let mut fences = pairs
                .filter(|(key, _)| !self.keys.contains_key(*key))
                .map(|(_, key)| self.fence(key));
            fences.any(|fence| fence >= write.fence)
        };
        if free && request.fence.is_some_and(is_stale) {
            return Answer::Stale { seen };
        }
        for key in request.resources.iter() {
            if !self.keys.contains_key(key) {
                self.resurrections += u64::from(self.released.contains(&request.token));
                self.set_for(key, &token, ttl_ms);
            }
        }
        self.raise_fences(request);
        Answer::Granted { seen }
    }

    fn extend(&mut self, request: &Request, ttl_ms: u64, missing: Missing) -> Answer {
        let token = request.value.to_string();
        let mut is_missing = false;
        for (key, fence_key) in request.resources.iter().zip(request.resources.fence_keys()) {
            match self.keys.get(key) {
                Some(entry) if entry.value == token => {}
                Some(_) => return Answer::NotHeld,
                None if request
                    .fence
                    .is_some_and(|write| self.fence(fence_key) > write.fence) =>
                {
                    return Answer::NotHeld;
                }
                None => is_missing = true,
            }
        }
        if is_missing && missing == Missing::Report {
            return Answer::Missing;
        }
        let ttl = Duration::from_millis(ttl_ms);
        for key in request.resources.iter() {
            let left = self.keys.get(key).and_then(|entry| self.left(entry));
            let shortens = self.mutant == Some(Mutant::ExtensionShortens);
            if left.is_none() {
                self.resurrections += u64::from(self.released.contains(&request.token));
            }
            if shortens || left.is_none_or(|left| left < ttl) {
                self.set_for(key, &token, ttl_ms);
            }
        }
        self.raise_fences(request);
        self.keep_fences(request);
        Answer::Extended
    }

    fn release(&mut self, request: &Request, may_return: bool) -> Answer {
        if self.released.len() >= AUDITED_MAX {
            self.released.clear();
        }
        self.released.insert(request.token);
        let token = request.value.to_string();
        let mut all = true;
        for key in request.resources.iter() {
            let is_ours = self.keys.get(key).is_some_and(|entry| entry.value == token);
            if is_ours {
                self.keys.remove(key);
                self.tell_change(key);
            }
            all &= is_ours;
        }
        if !all || may_return {
            self.raise_fences(request);
        }
        if all {
            Answer::Released
        } else {
            Answer::Missing
        }
    }

    fn seen(&self, request: &Request) -> u64 {
        if request.fence.is_none() {
            return 0;
        }
        request
            .resources
            .fence_keys()
            .map(|key| self.fence(key))
            .max()
            .unwrap_or(0)
    }

    fn fence(&self, key: &str) -> u64 {
        self.keys
            .get(key)
            .and_then(|entry| entry.value.parse().ok())
            .unwrap_or(0)
    }

    fn raise_fences(&mut self, request: &Request) {
        if let Some(write) = request.fence {
            self.raise_to(&request.resources, write);
        }
    }

    fn raise_to(&mut self, resources: &Resources, FenceWrite { fence, lives_ms }: FenceWrite) {
        for key in resources.fence_keys() {
            let known = self.fence(key);
            if known < fence {
                self.set_for(key, &fence.to_string(), lives_ms);
            }
        }
    }

    /// A fence that is large enough already lives at least as long as the extension asks.
    fn keep_fences(&mut self, request: &Request) {
        if let Some(write) = request.fence {
            self.keep_for(&request.resources, write);
        }
    }

    fn keep_for(&mut self, resources: &Resources, FenceWrite { lives_ms, .. }: FenceWrite) {
        let end = self.now + Duration::from_millis(lives_ms);
        for key in resources.fence_keys() {
            if let Some(Entry {
                expires: Some(expires),
                ..
            }) = self.keys.get_mut(key)
            {
                *expires = end.max(*expires);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Redlock, testing::MemoryMasters};

    #[tokio::test(start_paused = true)]
    async fn a_fence_outlives_every_extension_by_its_retention() {
        let masters = MemoryMasters::new(1);
        let fencing = crate::Fencing::on(Duration::from_secs(10));
        let builder = Redlock::builder().memory(&masters).fencing(fencing);
        let redlock = builder.connect().await.unwrap();
        let ttl = Duration::from_secs(3);
        let mut lock = redlock.acquire(["a"], ttl).await.unwrap();
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            lock.extend(ttl).await.unwrap();
            let left = masters.time_left(0, "{a}:fence");
            assert_eq!(left, Some(Duration::from_secs(13)));
        }
        assert_eq!(masters.get(0, "{a}:fence"), Some(lock.fence().to_string()));
    }
}

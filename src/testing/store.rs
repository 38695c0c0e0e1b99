//! What one master does: the semantics of the scripts in `master/*.lua`, without a server.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::{
    master::{FenceWrite, Missing, Operation, Request},
    outcome::Answer,
};

/// The keys of one master, with their expiry.
#[derive(Debug, Default)]
pub(super) struct Store(HashMap<String, Entry>);

#[derive(Debug, Clone)]
struct Entry {
    value: String,
    expires: Option<Instant>,
}

impl Store {
    pub(super) fn apply(&mut self, request: &Request) -> Answer {
        self.expire();
        match request.operation {
            Operation::Acquire { ttl_ms } => self.acquire(request, ttl_ms),
            Operation::Extend {
                ttl_ms, missing, ..
            } => self.extend(request, ttl_ms, missing),
            Operation::Release => self.release(request),
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn get(&mut self, key: &str) -> Option<String> {
        self.expire();
        self.0.get(key).map(|entry| entry.value.clone())
    }

    pub(super) fn set(&mut self, key: &str, value: &str, ttl: Option<Duration>) {
        let expires = ttl.map(|ttl| Instant::now() + ttl);
        self.0.insert(
            key.to_owned(),
            Entry {
                value: value.to_owned(),
                expires,
            },
        );
    }

    pub(super) fn remove(&mut self, key: &str) -> bool {
        self.expire();
        self.0.remove(key).is_some()
    }

    pub(super) fn time_left(&mut self, key: &str) -> Option<Duration> {
        self.expire();
        let expires = self.0.get(key)?.expires?;
        Some(expires.duration_since(Instant::now()))
    }

    pub(super) fn keys(&mut self) -> Vec<String> {
        self.expire();
        let mut keys: Vec<_> = self.0.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    fn expire(&mut self) {
        let now = Instant::now();
        self.0
            .retain(|_, entry| entry.expires.is_none_or(|expires| expires > now));
    }

    fn acquire(&mut self, request: &Request, ttl_ms: u64) -> Answer {
        let token = request.token.reveal();
        let seen = self.seen(request);
        let (mut busy, mut wait, mut free) = (false, Some(Duration::ZERO), false);
        for key in request.resources.iter() {
            match self.0.get(key) {
                None => free = true,
                Some(entry) if entry.value == token => {}
                Some(entry) => {
                    busy = true;
                    let left = entry
                        .expires
                        .map(|expires| expires.duration_since(Instant::now()));
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
            let pairs = request.resources.iter().zip(request.resources.fence_keys());
            let mut fences = pairs
                .filter(|(key, _)| !self.0.contains_key(*key))
                .map(|(_, key)| self.fence(key));
            fences.any(|fence| fence >= write.fence)
        };
        if free && request.fence.is_some_and(is_stale) {
            return Answer::Stale { seen };
        }
        for key in request.resources.iter() {
            if !self.0.contains_key(key) {
                self.set(key, &token, Some(Duration::from_millis(ttl_ms)));
            }
        }
        self.raise_fences(request);
        Answer::Granted { seen }
    }

    fn extend(&mut self, request: &Request, ttl_ms: u64, missing: Missing) -> Answer {
        let token = request.token.reveal();
        let mut is_missing = false;
        for (key, fence_key) in request.resources.iter().zip(request.resources.fence_keys()) {
            match self.0.get(key) {
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
            let left = self
                .0
                .get(key)
                .and_then(|entry| entry.expires)
                .map(|expires| expires.duration_since(Instant::now()));
            if left.is_none_or(|left| left < ttl) {
                self.set(key, &token, Some(ttl));
            }
        }
        self.raise_fences(request);
        self.keep_fences(request);
        Answer::Extended
    }

    fn release(&mut self, request: &Request) -> Answer {
        let token = request.token.reveal();
        let mut all = true;
        for key in request.resources.iter() {
            let is_ours = self.0.get(key).is_some_and(|entry| entry.value == token);
            if is_ours {
                self.0.remove(key);
            }
            all &= is_ours;
        }
        self.raise_fences(request);
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
        self.0
            .get(key)
            .and_then(|entry| entry.value.parse().ok())
            .unwrap_or(0)
    }

    fn raise_fences(&mut self, request: &Request) {
        let Some(FenceWrite { fence, lives_ms }) = request.fence else {
            return;
        };
        for key in request.resources.fence_keys() {
            let known = self.fence(key);
            if known < fence {
                self.set(
                    key,
                    &fence.to_string(),
                    Some(Duration::from_millis(lives_ms)),
                );
            }
        }
    }

    /// An extension starts the retention anew.
    fn keep_fences(&mut self, request: &Request) {
        let Some(FenceWrite { lives_ms, .. }) = request.fence else {
            return;
        };
        let lives = Duration::from_millis(lives_ms);
        for key in request.resources.fence_keys() {
            if self.time_left(key).is_none_or(|left| left < lives) {
                let fence = self.fence(key).to_string();
                self.set(key, &fence, Some(lives));
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

//! Acquire, extend and release on one master (`master/acquire.lua`, `extend.lua`, `release.lua`).

use std::time::Duration;

use super::Store;
use crate::{
    master::{FenceWrite, Missing, Request},
    mutant::Mutant,
    outcome::Answer,
};

/// How many releases are remembered for the audit; then it begins anew.
const AUDITED_MAX: usize = 512;

impl Store {
    pub(super) fn acquire(&mut self, request: &Request, ttl_ms: u64) -> Answer {
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

    pub(super) fn extend(&mut self, request: &Request, ttl_ms: u64, missing: Missing) -> Answer {
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

    pub(super) fn release(&mut self, request: &Request, may_return: bool) -> Answer {
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
}

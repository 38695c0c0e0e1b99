//! One client: what it does.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fredlock::{
    AbortMode, Lock, LostReason, Redlock, Retry, Signal, UsingError, testing::MemoryMasters,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    faults::{Fault, Injected, resource_name},
    history::History,
    keys::Keys,
    plan::Plan,
};

pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) plan: Plan,
    pub(crate) redlock: Redlock,
    pub(crate) masters: MemoryMasters,
    pub(crate) history: Arc<History>,
    pub(crate) injected: Arc<Injected>,
    pub(crate) rng: StdRng,
}

impl Client {
    pub(crate) fn rng(plan: &Plan, number: usize) -> StdRng {
        StdRng::seed_from_u64(plan.seed.wrapping_mul(31) + number as u64)
    }

    pub(crate) async fn run(mut self) {
        for _ in 0..self.plan.operations {
            let idle = self.share(0.5);
            sleep(idle).await;
            let set = self.pick_set();
            // A call that is cancelled at some await, or runs to its end.
            let patience = if self.rng.gen_bool(0.2) {
                Some(self.share(1.0))
            } else {
                None
            };
            let (history, number) = (Arc::clone(&self.history), self.number);
            let call = self.call(set);
            match patience {
                None => call.await,
                Some(patience) => {
                    if timeout(patience, call).await.is_err() {
                        self.injected.count(Fault::CancelCall);
                        history.note(format!("client {number}: call cancelled"));
                    }
                }
            }
        }
    }

    async fn call(&mut self, set: Vec<usize>) {
        if self.rng.gen_bool(0.4) {
            self.using(set).await;
        } else {
            self.acquire(set).await;
        }
    }

    /// A part of the ttl, at random.
    fn share(&mut self, most: f64) -> Duration {
        self.plan.ttl.mul_f64(self.rng.gen_range(0.0..most))
    }

    fn pick_set(&mut self) -> Vec<usize> {
        let all = self.plan.resources;
        let first = self.rng.gen_range(0..all);
        let mut set: Vec<usize> = (0..all)
            .filter(|&r| r == first || self.rng.gen_bool(0.3))
            .collect();
        if self.rng.gen_bool(0.5) {
            set.reverse();
        }
        set
    }

    async fn acquire(&mut self, set: Vec<usize>) {
        let names: Vec<_> = set.iter().map(|&r| resource_name(r)).collect();
        let begun = Instant::now();
        let ttl = self.plan.ttl;
        let result = if self.rng.gen_bool(0.5) {
            let result = self.redlock.try_acquire(names, ttl).await;
            self.assert_within(begun, ttl, "try_acquire");
            result
        } else {
            let limit = ttl.mul_f64(self.rng.gen_range(0.1..3.0));
            let retry = Retry::default().unlimited().delay(ttl / 5).jitter(ttl / 10);
            let waiting = self
                .redlock
                .with(|settings| settings.retry(retry).wait_limit(limit));
            let result = waiting.acquire(names, ttl).await;
            self.assert_within(begun, limit, "acquire with a wait limit");
            result
        };
        match result {
            Ok(lock) => self.hold(lock, set, begun).await,
            Err(error) => self.note_failure(&error),
        }
    }

    async fn hold(&mut self, mut lock: Lock, set: Vec<usize>, begun: Instant) {
        if !lock.is_valid() {
            self.history.violation("an expired lock was given");
            return;
        }
        let keys = Keys::of(self, &set, Some(lock.token().reveal()));
        let hold = self.open(&set, lock.fence().get(), begun, lock.remaining());
        for _ in 0..self.rng.gen_range(1..5) {
            // Often to just before the end, where it matters most.
            let pause = if self.rng.gen_bool(0.4) {
                lock.remaining()
                    .saturating_sub(Duration::from_micros(self.rng.gen_range(1..1500)))
            } else {
                self.share(0.6)
            };
            sleep(pause).await;
            self.look(
                &keys,
                &hold,
                lock.is_valid().then(|| lock.remaining()),
                lock.fence().get(),
                &set,
            );
            if self.rng.gen_bool(0.5) {
                let ttl = if self.rng.gen_bool(0.3) {
                    self.plan.ttl / 2
                } else {
                    self.plan.ttl
                };
                let extends = Instant::now();
                let end = extends + lock.remaining();
                match lock.extend(ttl).await {
                    Ok(()) => {
                        if Instant::now() >= end {
                            self.history
                                .violation("an extension revived a lock that had expired");
                        }
                        self.history
                            .note(format!("client {}: extended", self.number));
                        hold.valid(lock.remaining());
                        self.look(
                            &keys,
                            &hold,
                            lock.is_valid().then(|| lock.remaining()),
                            lock.fence().get(),
                            &set,
                        );
                    }
                    Err(error) => self
                        .history
                        .note(format!("client {}: {error}", self.number)),
                }
                self.assert_within(extends, end - extends, "extend");
            }
        }
        hold.ended("gives the lock up");
        let begun = Instant::now();
        match self.rng.gen_range(0..10) {
            0..=6 => {
                let result = lock.release().await;
                self.history.note(format!(
                    "client {}: release: {}",
                    self.number,
                    result.is_ok()
                ));
                self.assert_within(begun, self.plan.ttl, "release");
            }
            _ => drop(lock),
        }
    }

    async fn using(&mut self, set: Vec<usize>) {
        let names: Vec<_> = set.iter().map(|&r| resource_name(r)).collect();
        let ttl = self.plan.ttl;
        let drops = self.rng.gen_bool(0.3);
        let hold_limit = self.rng.gen_bool(0.2).then(|| self.share(3.0));
        let mode = if drops {
            AbortMode::DropRoutine
        } else {
            AbortMode::Cooperative
        };
        let redlock = self.redlock.with(|settings| {
            settings
                .retry(Retry::none().count(2).delay(ttl / 4))
                .hold_limit(hold_limit)
                .abort_mode(mode)
        });
        let begun = Instant::now();
        let has_begun = std::sync::atomic::AtomicBool::new(false);
        let result = redlock
            .using(names, ttl, async |signal| {
                has_begun.store(true, Ordering::Relaxed);
                self.routine(signal, &set, begun).await;
            })
            .await;
        match result {
            Ok(()) => {}
            Err(UsingError::Acquire(error)) => self.note_failure(&error),
            Err(UsingError::Lost { output, reason, .. }) => {
                self.history
                    .note(format!("client {}: lost: {reason}", self.number));
                // One whose lock was over before never begins, and has none.
                if output.is_none() && !drops && has_begun.load(Ordering::Relaxed) {
                    self.history
                        .violation("the output of a routine that ran to its end was lost");
                }
            }
            Err(error) => self
                .history
                .violation(format!("an error nobody knows: {error}")),
        }
    }

    async fn routine(&mut self, signal: Signal, set: &[usize], begun: Instant) {
        if signal.is_aborted() {
            return;
        }
        let keys = Keys::of(self, set, None);
        let fence = signal.fence().get();
        let hold = self.open(set, fence, begun, signal.remaining());
        let opened = Instant::now();
        for _ in 0..self.rng.gen_range(1..8) {
            let pause = self.share(0.5);
            let was_held = !signal.is_aborted();
            tokio::select! {
                biased;
                reason = signal.aborted() => {
                    let expired = matches!(reason, LostReason::Expired { .. });
                    hold.ended(&format!("signal: {reason}"));
                    if was_held && expired && self.history.was_awake(self.number, opened) {
                        self.assert_held(&keys, "when the signal fired");
                    }
                    if self.rng.gen_bool(0.5) {
                        return;
                    }
                    sleep(pause).await;
                }
                () = sleep(pause) => {}
            }
            let remaining = (!signal.is_aborted()).then(|| signal.remaining());
            self.look(&keys, &hold, remaining, fence, set);
        }
        hold.ended("routine ends");
    }
}

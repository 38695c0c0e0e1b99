//! One task of a client: what it does, and what it looks at while it believes that it holds a lock.

use std::{sync::Arc, time::Duration};

use fredlock::{AbortMode, Lock, Redlock, Retry, Signal, UsingError};
use rand::{Rng, rngs::StdRng};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    clock::{Pulse, now},
    hold::Hold,
    notice::time_notice,
    plan::{RESOURCES, TTL, resource_name},
    record::{Holding, Recorder},
    section::Sections,
    store::RemoteStore,
};

pub(crate) struct Client {
    pub(crate) process: usize,
    /// Among those of all processes.
    pub(crate) number: usize,
    pub(crate) redlock: Redlock,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) pulse: Pulse,
    pub(crate) sections: Sections,
    pub(crate) store: RemoteStore,
    pub(crate) rng: StdRng,
}

/// The set that is held, and how to ask whether it still is.
struct Held<'a, V> {
    set: &'a [usize],
    fence: u64,
    /// How much is left of the validity; `None` when it is over.
    left: V,
}

impl Client {
    pub(crate) async fn run(mut self, finish: watch::Receiver<bool>) {
        while !*finish.borrow() {
            self.step().await;
        }
        // All is well again: everybody has a turn.
        let patient = self
            .redlock
            .with(|settings| settings.retry(quick_retry()).wait_for(TTL * 40));
        match patient.acquire(names(&all()), TTL).await {
            Ok(lock) => drop(lock.release().await),
            Err(error) => {
                let what = format!("no lock after all was healed: {error}");
                self.recorder.violation(self.number, &what);
            }
        }
    }

    async fn step(&mut self) {
        let idle = self.share(0.3);
        sleep(idle).await;
        let set = self.pick_set();
        // A call that is cancelled at some await, or runs to its end.
        let patience = if self.rng.gen_bool(0.15) {
            self.share(1.0)
        } else {
            Duration::MAX
        };
        let uses = self.rng.gen_bool(0.5);
        let call = async {
            if uses {
                self.using(&set).await;
            } else {
                self.acquire(&set).await;
            }
        };
        timeout(patience, call).await.ok();
    }

    async fn acquire(&mut self, set: &[usize]) {
        let limit = self.share(2.0);
        let redlock = self
            .redlock
            .with(|settings| settings.retry(quick_retry()).wait_for(limit));
        let begun = now();
        if let Ok(lock) = redlock.acquire(names(set), TTL).await {
            self.hold(lock, set, begun).await;
        }
    }

    async fn hold(&mut self, mut lock: Lock, set: &[usize], begun: Duration) {
        let fence = lock.fence().get();
        let Some(mut holding) = self.open(set, fence, begun, || lock_left(&lock)) else {
            return;
        };
        let mut inside = Vec::new();
        for _ in 0..self.rng.gen_range(1..5) {
            let held = Held {
                set,
                fence,
                left: || lock_left(&lock),
            };
            self.work(&held, &mut holding, &mut inside).await;
            // Often to just before the end, where it matters most.
            let pause = if self.rng.gen_bool(0.2) {
                lock.remaining()
                    .saturating_sub(Duration::from_micros(self.rng.gen_range(500..20_000)))
            } else {
                self.share(0.4)
            };
            sleep(pause).await;
            if self.rng.gen_bool(0.5) {
                if let Err(error) = lock.extend(TTL).await {
                    self.recorder.lost(self.number, &error.to_string());
                    break;
                }
                if let Some(end) = end_of(|| lock_left(&lock)) {
                    holding.valid(end);
                }
            }
        }
        inside.clear();
        holding.ended();
        if self.rng.gen_bool(0.7) {
            lock.release().await.ok();
        }
    }

    async fn using(&mut self, set: &[usize]) {
        let mode = if self.rng.gen_bool(0.3) {
            AbortMode::DropRoutine
        } else {
            AbortMode::Cooperative
        };
        let limit = self.rng.gen_bool(0.1).then(|| self.share(3.0));
        let redlock = self.redlock.with(|settings| {
            let retry = quick_retry().count(5);
            settings.retry(retry).abort_mode(mode).hold_limit(limit)
        });
        let begun = now();
        let result = redlock
            .using(names(set), TTL, async |signal| {
                self.routine(signal, set, begun).await;
            })
            .await;
        if let Err(UsingError::Lost { reason, .. }) = result {
            self.recorder.lost(self.number, &reason.to_string());
        }
    }

    async fn routine(&mut self, signal: Signal, set: &[usize], begun: Duration) {
        let fence = signal.fence().get();
        let Some(mut holding) = self.open(set, fence, begun, || signal_left(&signal)) else {
            return;
        };
        tokio::spawn(time_notice(
            signal.clone(),
            Arc::clone(&self.recorder),
            self.pulse.clone(),
            self.process,
        ));
        let mut inside = Vec::new();
        let held = Held {
            set,
            fence,
            left: || signal_left(&signal),
        };
        // Some hold on for as long as they can, and wait for nothing but the signal: a look would
        // fire it.
        let mut holds_on = self.rng.gen_bool(0.3).then(|| self.share(8.0));
        for _ in 0..self.rng.gen_range(1..8) {
            self.work(&held, &mut holding, &mut inside).await;
            let pause = holds_on.take().unwrap_or_else(|| self.share(0.4));
            tokio::select! {
                biased;
                _ = signal.aborted() => break,
                () = sleep(pause) => {}
            }
        }
        if signal.is_aborted() {
            holding.ended();
            // Whoever does not look at its signal writes after its time; the fence is for that.
            for &resource in set {
                self.store.write(resource, fence).await.ok();
            }
        }
        inside.clear();
        holding.ended();
    }

    /// The beginning of a hold, unless its validity is over already.
    fn open(
        &self,
        set: &[usize],
        fence: u64,
        begun: Duration,
        left: impl Fn() -> Option<Duration>,
    ) -> Option<Holding> {
        let until = end_of(left)?;
        let hold = Hold {
            client: self.number,
            resources: set.to_vec(),
            fence,
            begun,
            from: now(),
            until,
            ended: None,
        };
        (hold.from < until).then(|| self.recorder.hold(&hold))
    }

    /// Looks whether it still holds: then it may enter, and write.
    async fn work<V: Fn() -> Option<Duration>>(
        &self,
        held: &Held<'_, V>,
        holding: &mut Holding,
        inside: &mut Vec<crate::section::Inside>,
    ) {
        let Some(end) = end_of(&held.left) else {
            return holding.ended();
        };
        holding.valid(end);
        if inside.is_empty() {
            for &resource in held.set {
                let (entered, found) = self.sections.enter(resource, holding.id());
                inside.push(entered);
                // Only if it still held when it saw that.
                if let Some(other) = found
                    && (held.left)().is_some()
                {
                    holding.found(other);
                }
            }
        }
        for &resource in held.set {
            let written = self.store.write(resource, held.fence).await;
            if let Err(newer) = written
                && (held.left)().is_some()
            {
                let what = format!(
                    "the write of a valid holder was refused: hold {:?} of resource {resource}, fence {}, newer {newer}",
                    holding.id(),
                    held.fence
                );
                self.recorder.violation(self.number, &what);
            }
        }
    }

    /// A part of the ttl, at random.
    fn share(&mut self, most: f64) -> Duration {
        TTL.mul_f64(self.rng.gen_range(0.0..most))
    }

    fn pick_set(&mut self) -> Vec<usize> {
        let first = self.rng.gen_range(0..RESOURCES);
        let rng = &mut self.rng;
        all()
            .into_iter()
            .filter(|&resource| resource == first || rng.gen_bool(0.2))
            .collect()
    }
}

/// When the validity ends, by a look at what is left of it. The clock is read first: the end is
/// rather too early than too late.
pub(crate) fn end_of(left: impl Fn() -> Option<Duration>) -> Option<Duration> {
    let looked = now();
    left().map(|left| looked + left)
}

fn lock_left(lock: &Lock) -> Option<Duration> {
    Some(lock.remaining()).filter(|left| !left.is_zero())
}

pub(crate) fn signal_left(signal: &Signal) -> Option<Duration> {
    Some(signal.remaining()).filter(|left| !left.is_zero())
}

fn quick_retry() -> Retry {
    Retry::default().delay(TTL / 10).jitter(TTL / 20)
}

fn all() -> Vec<usize> {
    (0..RESOURCES).collect()
}

fn names(set: &[usize]) -> Vec<String> {
    set.iter()
        .map(|&resource| resource_name(resource))
        .collect()
}

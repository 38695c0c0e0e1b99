//! Wakes a task from outside the runtime: what must not wait for a timer that nobody looks at.
//!
//! Timers and sockets of a multi-threaded runtime are looked at by a worker that has nothing else
//! to do. One that comes from there with a single task to run rouses no other to take its place.
//! If that task blocks, and the other workers sleep, no timer fires and no reply is read until it
//! ends, however many workers there are. A wake from a thread that is none of theirs rouses one of
//! them, and that one then looks at timers and sockets.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    time::Instant,
};

use crate::clock::{NOISE, suspended_so_far};

/// How often the thread looks whether the machine was suspended, while any alarm is set.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the thread stays when no alarm is set.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Drives the future. From `since` on, for as long as it runs, its task is woken every `step` even
/// if the runtime's own timers stand still.
pub(crate) async fn rouse<F: Future>(since: Instant, step: Duration, future: F) -> F::Output {
    let mut rouser = Rouser::new(since);
    let mut future = pin!(future);
    poll_fn(|cx| {
        rouser.watch_over(step, cx);
        future.as_mut().poll(cx)
    })
    .await
}

/// Wakes a task again and again, from a certain moment on, until it is dropped.
///
/// It does nothing where there is one thread only, which a wake cannot help, and whose clock may be
/// paused.
pub(crate) struct Rouser {
    alarm: Option<Alarm>,
    at: Instant,
}

impl Rouser {
    /// For a task of the runtime that this is called on.
    pub(crate) fn new(since: Instant) -> Self {
        let is_alone = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        Self {
            alarm: (!is_alone).then(|| Alarm::of(&CLOCK)),
            at: since,
        }
    }

    /// Does it nothing?
    pub(crate) fn is_idle(&self) -> bool {
        self.alarm.is_none()
    }

    /// Sees to it that the task is polled again within such a step. To be called with each poll.
    pub(crate) fn watch_over(&mut self, step: Duration, cx: &Context<'_>) {
        if let Some(alarm) = &mut self.alarm {
            let now = Instant::now();
            if now >= self.at {
                self.at = now + step;
            }
            alarm.set(self.at, cx);
        }
    }
}

/// One alarm, which rings once. Dropping it takes it back.
struct Alarm {
    clock: &'static Clock,
    setting: Option<Setting>,
}

struct Setting {
    key: Key,
    waker: Waker,
}

/// When it rings, and a number that tells it from others of the same moment.
type Key = (Instant, u64);

impl Alarm {
    fn of(clock: &'static Clock) -> Self {
        let setting = None;
        Self { clock, setting }
    }

    fn set(&mut self, at: Instant, cx: &Context<'_>) {
        if let Some(Setting { key, waker }) = &self.setting
            && key.0 == at
            && waker.will_wake(cx.waker())
        {
            return;
        }
        self.take_back();
        self.setting = Some(Setting {
            key: self.clock.set(at, cx.waker().clone()),
            waker: cx.waker().clone(),
        });
    }

    fn take_back(&mut self) {
        if let Some(Setting { key, .. }) = self.setting.take() {
            // Dropped after the lock is free: a waker may own what has an alarm of its own.
            let waker = self.clock.state().alarms.remove(&key);
            drop(waker);
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// That of the process.
static CLOCK: Clock = Clock::new(suspended_so_far);

/// Alarms, and the one thread that rings them, which lives while there are any.
struct Clock {
    state: Mutex<State>,
    changed: Condvar,
    /// How long the machine was suspended in all.
    suspended: fn() -> Duration,
}

struct State {
    alarms: BTreeMap<Key, Waker>,
    next_number: u64,
    /// When the thread looks again by itself.
    sleeps_until: Option<Instant>,
    is_running: bool,
    /// How long the machine had been suspended in all, when the thread looked last.
    suspended: Duration,
}

impl Clock {
    const fn new(suspended: fn() -> Duration) -> Self {
        Self {
            state: Mutex::new(State {
                alarms: BTreeMap::new(),
                next_number: 0,
                sleeps_until: None,
                is_running: false,
                suspended: Duration::ZERO,
            }),
            changed: Condvar::new(),
            suspended,
        }
    }

    fn set(&'static self, at: Instant, waker: Waker) -> Key {
        let mut state = self.state();
        let key = (at, state.next_number);
        state.next_number += 1;
        state.alarms.insert(key, waker);
        if !state.is_running {
            let thread = thread::Builder::new().name("fredlock-alarm".to_owned());
            // Without a thread, the runtime's own timers have to do.
            state.is_running = thread.spawn(|| self.run()).is_ok();
        } else if state.sleeps_until.is_some_and(|until| at < until) {
            self.changed.notify_one();
        }
        key
    }

    fn run(&self) {
        let mut state = self.state();
        state.suspended = (self.suspended)();
        loop {
            let now = Instant::now();
            let mut due = state.roused_by((self.suspended)());
            while let Some(first) = state.alarms.first_entry()
                && first.key().0 <= now
            {
                due.push(first.remove());
            }
            if !due.is_empty() {
                // With the lock free: whoever is woken may set an alarm at once.
                drop(state);
                due.into_iter().for_each(Waker::wake);
                state = self.state();
                continue;
            }
            let first = state.alarms.first_key_value().map(|(key, _)| key.0);
            let until = first.map_or(now + IDLE_MAX, |first| first.min(now + LOOK_EVERY));
            state.sleeps_until = Some(until);
            let waited = self.changed.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if first.is_none() && state.alarms.is_empty() && Instant::now() >= until {
                state.is_running = false;
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whoever has an alarm, if the machine was suspended meanwhile: what they wait for by a clock
    /// that stood still may be over. Their alarms stay.
    fn roused_by(&mut self, suspended: Duration) -> Vec<Waker> {
        let before = std::mem::replace(&mut self.suspended, suspended);
        if suspended < before + NOISE {
            return Vec::new();
        }
        self.alarms.values().cloned().collect()
    }
}

#[cfg(test)]
#[path = "alarm_tests.rs"]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::Wake,
};

use tokio::time::sleep;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A future that counts its polls, and ends after so many.
async fn polled(times: u32) {
    let mut polls = 0;
    poll_fn(|_| {
        polls += 1;
        if polls > times {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_future_that_nothing_else_wakes_is_polled_again_and_again() {
    let begun = Instant::now();
    rouse(begun + 20 * MS, 10 * MS, polled(3)).await;
    assert!(begun.elapsed() >= 40 * MS, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_earlier_alarm_does_not_wait_for_a_later_one() {
    let begun = Instant::now();
    let later = tokio::spawn(rouse(begun + 3600 * 1000 * MS, MS, polled(1)));
    sleep(20 * MS).await;
    rouse(begun + 40 * MS, MS, polled(1)).await;
    later.abort();
    assert!(begun.elapsed() < 1000 * MS, "{:?}", begun.elapsed());
}

/// An alarm, and whether it rang.
struct Ringing {
    alarm: Alarm,
    rang: Arc<Rang>,
}

#[derive(Default)]
struct Rang(AtomicUsize);

impl Wake for Rang {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Ringing {
    fn set(clock: &'static Clock, at: Instant) -> Self {
        let (mut alarm, rang) = (Alarm::of(clock), Arc::new(Rang::default()));
        let waker = Waker::from(Arc::clone(&rang));
        alarm.set(at, &Context::from_waker(&waker));
        Self { alarm, rang }
    }

    async fn rings(&self, times: usize) {
        let limit = Instant::now() + 10 * LOOK_EVERY;
        while self.rang.0.load(Ordering::SeqCst) < times {
            assert!(Instant::now() < limit, "not within {:?}", 10 * LOOK_EVERY);
            sleep(MS).await;
        }
    }
}

#[tokio::test]
async fn whoever_has_an_alarm_is_woken_after_a_suspension_and_keeps_it() {
    static SUSPENDED_MS: AtomicU64 = AtomicU64::new(5_000);
    static SLEEPER: Clock =
        Clock::new(|| Duration::from_millis(SUSPENDED_MS.load(Ordering::SeqCst)));
    let far = Instant::now() + 3600 * 1000 * MS;
    let alarms = [far, far + MS].map(|at| Ringing::set(&SLEEPER, at));
    // The thread has looked once when it sleeps.
    while SLEEPER.state().sleeps_until.is_none() {
        sleep(MS).await;
    }
    for times in 1..=2 {
        SUSPENDED_MS.fetch_add(60_000, Ordering::SeqCst);
        for ringing in &alarms {
            ringing.rings(times).await;
        }
        assert_eq!(SLEEPER.state().alarms.len(), 2, "they stay");
    }
    for Ringing { alarm, rang } in &alarms {
        assert_eq!(rang.0.load(Ordering::SeqCst), 2, "once for each");
        assert!(alarm.setting.is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_has_ended_or_was_dropped_leaves_no_alarm() {
    let far = Instant::now() + 7200 * 1000 * MS;
    rouse(far, MS, sleep(MS)).await;
    let dropped = tokio::time::timeout(MS, rouse(far, MS, std::future::pending::<()>()));
    assert!(dropped.await.is_err());
    let at_far = |key: &&Key| key.0 == far;
    assert_eq!(CLOCK.state().alarms.keys().filter(at_far).count(), 0);
}

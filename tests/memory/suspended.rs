//! A machine that is suspended: its timers stand still, the masters' clocks do not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fredlock::{
    AcquireError, ExtendError, LostReason, Redlock,
    testing::{Fate, MemoryMasters, MessageKind},
};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(60);

/// The machine of a client, which can be suspended.
#[derive(Clone, Default)]
struct Machine(Arc<AtomicU64>);

impl Machine {
    fn suspend(&self, lasts: Duration) {
        let ms = u64::try_from(lasts.as_millis()).unwrap();
        self.0.fetch_add(ms, Ordering::Relaxed);
    }

    async fn client(&self, masters: &MemoryMasters) -> Redlock {
        let told = Arc::clone(&self.0);
        let builder = Redlock::builder().memory(masters).suspended(move || {
            // It was suspended before, as laptops are.
            Duration::from_secs(5 * 3600) + Duration::from_millis(told.load(Ordering::Relaxed))
        });
        builder.connect().await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn validity_ends_in_a_suspension_and_an_extension_after_it_is_refused_without_asking() {
    let (masters, machine) = (MemoryMasters::new(3), Machine::default());
    let redlock = machine.client(&masters).await;
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    let whole = lock.remaining();
    machine.suspend(TTL / 3);
    assert_eq!(lock.remaining(), whole - TTL / 3);
    lock.extend(TTL).await.unwrap();
    assert_eq!(lock.remaining(), whole, "from now on again");
    machine.suspend(TTL);
    assert!(!lock.is_valid());
    let calls = masters.calls(0);
    let error = lock.extend(TTL).await.unwrap_err();
    assert!(matches!(error, ExtendError::Expired { .. }), "{error}");
    assert_eq!(masters.calls(0), calls);
}

#[tokio::test(start_paused = true)]
async fn the_first_look_after_a_suspension_says_lost_and_waiters_are_told_within_a_second() {
    let (masters, machine) = (MemoryMasters::new(3), Machine::default());
    let redlock = machine.client(&masters).await;
    let (looked, waited) = (machine.clone(), machine.clone());
    let result = redlock
        .using(["a"], TTL, async move |signal| {
            sleep(Duration::from_millis(2_345)).await;
            looked.suspend(TTL);
            signal.check()
        })
        .await;
    assert!(
        matches!(
            result,
            Err(fredlock::UsingError::Lost {
                output: Some(Err(LostReason::Expired { .. })),
                ..
            })
        ),
        "{result:?}"
    );

    let result = redlock
        .using(["b"], TTL, async move |signal| {
            sleep(Duration::from_millis(2_345)).await;
            waited.suspend(TTL);
            let begun = Instant::now();
            // A clone that only waits: nobody looks.
            let reason = signal.aborted().await;
            (reason, begun.elapsed())
        })
        .await;
    let Err(fredlock::UsingError::Lost {
        output: Some((_, took)),
        ..
    }) = result
    else {
        panic!("{result:?}");
    };
    assert!(took <= Duration::from_millis(1_001), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_a_suspension_made_due_is_made_within_a_second() {
    let (masters, machine) = (MemoryMasters::new(3), Machine::default());
    let redlock = machine.client(&masters).await;
    let sleeper = machine.clone();
    let using = redlock.using(["a"], TTL, async |signal| {
        sleep(Duration::from_secs(1)).await;
        let before = masters.calls(0);
        // Two thirds of the ttl until it is due, and a bit of it has passed.
        sleeper.suspend(TTL * 2 / 3);
        sleep(Duration::from_millis(1_100)).await;
        assert_eq!(masters.calls(0), before + 1, "extended");
        assert!(
            signal.remaining() > TTL * 9 / 10,
            "{:?}",
            signal.remaining()
        );
        sleep(Duration::from_secs(10)).await;
        assert_eq!(
            masters.calls(0),
            before + 1,
            "and not before it is due again"
        );
    });
    using.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_a_suspension_interrupts_for_longer_than_its_ttl_gives_no_lock() {
    let (masters, machine) = (MemoryMasters::new(3), Machine::default());
    let redlock = machine.client(&masters).await;
    let sleeper = machine.clone();
    masters.set_network(move |message| {
        if message.kind == MessageKind::Acquire && message.master == 1 {
            sleeper.suspend(TTL);
        }
        Fate::default()
    });
    let error = redlock.try_acquire(["a"], TTL).await.unwrap_err();
    assert!(matches!(error, AcquireError::Expired(_)), "{error}");
    sleep(Duration::from_millis(1)).await;
    for master in 0..3 {
        assert_eq!(masters.get(master, "a"), None);
    }
}

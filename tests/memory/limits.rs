//! Values at the ends of their ranges.

use std::time::Duration;

use fredlock::{AcquireError, Fencing, Redlock, Retry, TTL_MAX, TTL_MIN, testing::MemoryMasters};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(start_paused = true)]
async fn an_endless_hold_limit_is_none() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| settings.hold_limit(Duration::MAX)).await;
    let using = redlock.using(["a"], SECOND, async |signal| {
        sleep(HOUR).await;
        signal.check()
    });
    using.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_endless_pause_ends_where_the_masters_say_that_they_will_be_free() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| {
        settings.retry(Retry::default().delay(Duration::MAX))
    })
    .await;
    redlock.acquire(["a"], SECOND).await.unwrap().forget();
    redlock.acquire(["a"], SECOND).await.unwrap().forget();
}

#[tokio::test(start_paused = true)]
async fn an_endless_pause_ends_with_the_wait_limit() {
    let masters = MemoryMasters::new(1);
    masters.stop(0);
    let redlock = crate::client(&masters, |settings| {
        settings
            .retry(Retry::default().delay(Duration::MAX))
            .wait_limit(HOUR)
    })
    .await;
    let begun = Instant::now();
    let error = redlock.acquire(["a"], SECOND).await.unwrap_err();
    assert!(matches!(error, AcquireError::Timeout { .. }), "{error}");
    assert!(begun.elapsed() <= HOUR);
}

#[tokio::test(start_paused = true)]
async fn an_endless_pause_with_neither_goes_on() {
    let masters = MemoryMasters::new(1);
    masters.stop(0);
    let redlock = crate::client(&masters, |settings| {
        settings.retry(Retry::default().delay(Duration::MAX))
    })
    .await;
    let acquiring = redlock.acquire(["a"], SECOND);
    timeout(1_000 * HOUR, acquiring).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn with_an_endless_command_timeout_a_release_is_still_sent() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| settings.command_timeout(Duration::MAX)).await;
    drop(redlock.acquire(["a"], SECOND).await.unwrap());
    sleep(Duration::from_millis(1)).await;
    assert!((0..3).all(|master| masters.get(master, "a").is_none()));
    assert_eq!(redlock.background_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_longest_ttl_and_wait_limit_are_taken() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| settings.wait_limit(Duration::MAX)).await;
    let mut lock = redlock.acquire(["a"], TTL_MAX).await.unwrap();
    assert!(lock.remaining() > TTL_MAX / 2);
    lock.extend(TTL_MAX).await.unwrap();
    lock.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_ttl_that_leaves_no_validity_ends_though_a_majority_hangs() {
    let masters = MemoryMasters::new(3);
    masters.hang(0);
    masters.hang(1);
    let redlock = crate::client(&masters, |settings| settings.retry(Retry::none())).await;
    let acquiring = timeout(SECOND, redlock.acquire(["a"], TTL_MIN));
    assert!(acquiring.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn an_endless_connect_timeout_is_taken() {
    let masters = MemoryMasters::new(1);
    let builder = Redlock::builder()
        .memory(&masters)
        .connect_timeout(Duration::MAX);
    builder.connect().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_retention_beyond_the_longest_counts_as_the_longest() {
    let masters = MemoryMasters::new(1);
    let redlock = Redlock::builder()
        .memory(&masters)
        .fencing(Fencing::on(Duration::MAX))
        .connect()
        .await
        .unwrap();
    drop(redlock.acquire(["a"], SECOND).await.unwrap());
    let left = masters.time_left(0, "{a}:fence").unwrap();
    assert!(left <= TTL_MAX + SECOND, "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_ttl_of_which_no_validity_is_left_is_refused_before_anything_is_sent() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| settings).await;
    for ms in [1, 2] {
        let refused = redlock.acquire(["a"], Duration::from_millis(ms)).await;
        assert!(
            matches!(refused, Err(AcquireError::InvalidTtl(_))),
            "{ms} ms: {refused:?}"
        );
    }
    assert_eq!(masters.calls(0), 0);
    assert!(
        redlock
            .acquire(["a"], Duration::from_millis(5))
            .await
            .is_ok()
    );
}

#[tokio::test(start_paused = true)]
async fn a_threshold_that_leaves_no_time_for_a_round_loses_no_lock() {
    let masters = MemoryMasters::new(3);
    for threshold in [Duration::ZERO, Duration::from_millis(5)] {
        let redlock =
            crate::client(&masters, |settings| settings.extension_threshold(threshold)).await;
        let routine = async |_| tokio::time::sleep(Duration::from_secs(10)).await;
        redlock
            .using(["a"], Duration::from_secs(1), routine)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_after_a_shutdown_ends_at_once_and_says_why() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| settings).await;
    let mut lock = redlock
        .acquire(["a"], Duration::from_secs(3600))
        .await
        .unwrap();
    masters.stop(0);
    masters.stop(1);
    let begun = tokio::time::Instant::now();
    let extended = tokio::join!(lock.extend(Duration::from_secs(3600)), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        redlock.shutdown(Duration::from_secs(1)).await
    });
    assert!(
        matches!(extended.0, Err(fredlock::ExtendError::ShutDown { .. })),
        "{extended:?}"
    );
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(lock.is_valid(), "for what it was");
    lock.forget();
}

//! How waiting ends without the lock: limits, retries that are used up, a shutdown.

use std::time::Duration;

use fredlock::{AcquireError, Retry, testing::MemoryMasters};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{HOUR, MS, TTL, by_news_alone, line_up, unlimited};

#[tokio::test(start_paused = true)]
async fn an_attempt_that_somebody_else_is_quicker_than_uses_up_no_retry() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| {
        let retry = Retry::default().count(3).delay(Duration::from_secs(1));
        settings.retry(retry.jitter(Duration::ZERO))
    })
    .await;
    let others_take_it = || {
        for master in 0..3 {
            masters.delete(master, "a");
            masters.set(master, "a", "another", None);
        }
    };
    others_take_it();
    let begun = Instant::now();
    let waiting = tokio::spawn(async move { redlock.acquire(["a"], TTL).await });
    for _ in 0..10 {
        sleep(50 * MS).await;
        others_take_it();
    }
    let error = waiting.await.unwrap().unwrap_err();
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(3), "{took:?}: {error}");
    assert!(
        matches!(&error, AcquireError::Busy(attempts) if attempts.count > 4),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_wait_limit_holds_in_the_queue_and_tells_what_the_first_has_heard() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, unlimited).await;
    redlock.acquire(["a"], HOUR).await.unwrap().forget();
    let (_, tasks) = line_up(&redlock, 2).await;
    sleep(MS).await;
    let hasty = redlock.with(|settings| settings.wait_limit(Duration::from_secs(1)));
    let begun = Instant::now();
    let error = timeout(TTL, hasty.acquire(["a"], TTL))
        .await
        .expect("a limit")
        .unwrap_err();
    assert!(begun.elapsed() <= Duration::from_secs(1) + MS);
    assert!(error.is_busy(), "{error}");
    let text = error.to_string();
    assert!(text.contains("behind 2 of this process"), "{text}");
    assert!(text.contains("memory-2 held for"), "{text}");
    let AcquireError::Timeout { last, .. } = error else {
        panic!("{error}");
    };
    assert!(matches!(*last, AcquireError::Busy(attempts) if attempts.count == 0));

    masters.stop(0);
    masters.stop(1);
    sleep(Duration::from_secs(1)).await;
    let error = timeout(TTL, hasty.acquire(["a"], TTL))
        .await
        .expect("a limit")
        .unwrap_err();
    assert!(
        !error.is_busy() && error.to_string().contains("not connected"),
        "{error}"
    );
    tasks.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn retries_are_used_up_in_the_queue_too() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, unlimited).await;
    redlock.acquire(["a"], HOUR).await.unwrap().forget();
    let (_, tasks) = line_up(&redlock, 2).await;
    let begun = Instant::now();
    let usual = redlock.with(|settings| settings.retry(Retry::default()));
    let error = usual.acquire(["a"], TTL).await.unwrap_err();
    assert!(matches!(error, AcquireError::Busy(_)), "{error}");
    let took = begun.elapsed();
    assert!((1_000 * MS..=3_020 * MS).contains(&took), "{took:?}");
    tasks.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_every_wait() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, by_news_alone).await;
    redlock.acquire(["a"], HOUR).await.unwrap().forget();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let redlock = redlock.clone();
            tokio::spawn(async move { redlock.acquire(["a"], TTL).await })
        })
        .collect();
    sleep(MS).await;
    assert!(redlock.shutdown(Duration::from_secs(1)).await);
    for task in waiting {
        let result = task.await.unwrap();
        assert!(matches!(result, Err(AcquireError::ShutDown)), "{result:?}");
    }
}

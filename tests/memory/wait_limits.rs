//! Waiting ends: by its limit, by its retries, by a shutdown; and what it may cost until then.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fredlock::{
    AcquireError, Retry,
    testing::{Fate, MemoryMasters, MessageKind},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::waiting::{HOUR, MS, TTL, by_news_alone, line_up, unlimited};

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_always_said_to_be_free_and_never_is_costs_a_bounded_number_of_attempts() {
    let masters = MemoryMasters::new(3);
    let (servers, acquires) = (masters.clone(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&acquires);
    masters.set_network(move |message| {
        match message.kind {
            MessageKind::Watch => drop(servers.delete(message.master, "a")),
            MessageKind::Acquire => {
                count.fetch_add(1, Ordering::Relaxed);
                servers.set(message.master, "a", "another", None);
            }
            _ => {}
        }
        Fate::default()
    });
    let redlock = crate::client(&masters, by_news_alone).await;
    let (_, tasks) = line_up(&redlock, 1).await;
    sleep(Duration::from_secs(60)).await;
    let attempts = acquires.load(Ordering::Relaxed) / 3;
    assert!((2..=17).contains(&attempts), "{attempts} within one pause");
    tasks[0].abort();
}

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
async fn a_limit_that_is_short_beside_the_command_timeout_is_waited_for_too() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| {
        unlimited(settings).command_timeout(TTL).wait_limit(TTL / 2)
    })
    .await;
    let held = redlock.acquire(["a"], TTL).await.unwrap();
    let (served, tasks) = line_up(&redlock, 1).await;
    sleep(TTL / 4).await;
    held.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), [0]);
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
async fn one_attempt_is_made_without_standing_in_the_queue() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, unlimited).await;
    let held = redlock.acquire(["a", "b"], HOUR).await.unwrap();
    let (_, tasks) = line_up(&redlock, 3).await;
    sleep(MS).await;
    let begun = Instant::now();
    let error = redlock.try_acquire(["a"], TTL).await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::Busy(a) if a.count == 1),
        "{error}"
    );
    assert_eq!((begun.elapsed(), redlock.waiting()), (Duration::ZERO, 3));
    tasks.iter().for_each(JoinHandle::abort);
    drop(held);
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

//! Who is served when: the order of one process, and places that are handed on.

use std::time::Duration;

use fredlock::{AcquireError, testing::MemoryMasters};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{HOUR, MS, TTL, by_news_alone, line_up, no_news, unlimited};

#[tokio::test(start_paused = true)]
async fn waiters_of_one_process_are_served_in_the_order_in_which_they_came() {
    for has_news in [true, false] {
        let masters = MemoryMasters::new(3);
        if !has_news {
            masters.set_network(no_news);
        }
        let redlock = crate::client(&masters, unlimited).await;
        let held = redlock.acquire(["a"], TTL).await.unwrap();
        let (served, tasks) = line_up(&redlock, 20).await;
        assert_eq!(redlock.waiting(), 20);
        sleep(MS).await;
        held.release().await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*served.lock().unwrap(), (0..20).collect::<Vec<_>>());
        assert_eq!(redlock.waiting(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_cancelled_hands_its_place_on() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, by_news_alone).await;
    let held = redlock.acquire(["a"], TTL).await.unwrap();
    let (served, tasks) = line_up(&redlock, 6).await;
    // The first, one in the middle, and the last.
    sleep(MS).await;
    for number in [0, 3, 5] {
        tasks[number].abort();
    }
    sleep(MS).await;
    assert_eq!(redlock.waiting(), 3);
    held.release().await.unwrap();
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.is_ok(), ![0, 3, 5].contains(&number));
    }
    assert_eq!(*served.lock().unwrap(), [1, 2, 4]);
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
async fn a_waiter_that_nobody_polls_does_not_keep_the_others_from_the_lock() {
    for patience in [unlimited, by_news_alone] {
        let masters = MemoryMasters::new(3);
        let redlock = crate::client(&masters, patience).await;
        let held = redlock.acquire(["a"], HOUR).await.unwrap();
        let mut aside = Box::pin(redlock.acquire(["a"], TTL));
        // It is first, and is never polled again.
        assert!(timeout(10 * MS, &mut aside).await.is_err());
        let (served, tasks) = line_up(&redlock, 3).await;
        held.release().await.unwrap();
        let released = Instant::now();
        for task in tasks {
            timeout(HOUR, task).await.expect("passed over").unwrap();
        }
        assert_eq!(*served.lock().unwrap(), [0, 1, 2]);
        assert!(
            released.elapsed() < Duration::from_secs(4),
            "{:?}",
            released.elapsed()
        );
        aside.await.unwrap().release().await.unwrap();
        assert_eq!(redlock.waiting(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_sleeps_for_long_keeps_its_place() {
    let masters = MemoryMasters::new(3);
    masters.set_network(no_news);
    let redlock = crate::client(&masters, unlimited).await;
    let hour = redlock.with(by_news_alone);
    let held = redlock.acquire(["a"], HOUR / 4).await.unwrap();
    let first = tokio::spawn({
        let hour = hour.clone();
        async move { hour.acquire(["a"], TTL).await }
    });
    sleep(MS).await;
    let (served, tasks) = line_up(&redlock, 2).await;
    held.forget();
    sleep(Duration::from_secs(10)).await;
    masters.lose("a");
    // The others would have asked by then.
    sleep(Duration::from_secs(5)).await;
    assert!(served.lock().unwrap().is_empty(), "it was passed over");
    drop(first.await.unwrap().unwrap());
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_holds_one_and_wants_another_is_not_kept_by_a_waiter_for_both() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, unlimited).await;
    for (first, second) in [("a", "b"), ("b", "a")] {
        let held = redlock.acquire([first], HOUR).await.unwrap();
        let both = tokio::spawn({
            let redlock = redlock.clone();
            async move { redlock.acquire(["a", "b"], HOUR).await }
        });
        sleep(MS).await;
        let nested = timeout(Duration::from_secs(1), redlock.acquire([second], HOUR));
        drop(nested.await.expect("no deadlock").unwrap());
        drop(held);
        drop(both.await.unwrap().unwrap());
        sleep(MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn sets_without_a_common_resource_do_not_wait_for_each_other() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, unlimited).await;
    let held = redlock.acquire(["a", "b"], HOUR).await.unwrap();
    let (_, tasks) = line_up(&redlock, 10).await;
    let begun = Instant::now();
    drop(redlock.acquire(["c", "d"], TTL).await.unwrap());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    tasks.iter().for_each(JoinHandle::abort);
    drop(held);
}

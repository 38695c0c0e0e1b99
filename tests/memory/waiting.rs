//! Waiting: who comes first is served first, and what wakes a waiter.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fredlock::{
    Redlock, Retry, Settings,
    testing::{Fate, MemoryMasters, Message, MessageKind},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const MS: Duration = Duration::from_millis(1);

/// Waits for ever; between two attempts an hour, unless something wakes it.
pub(crate) fn by_news_alone(settings: Settings) -> Settings {
    let retry = Retry::default().unlimited();
    settings.retry(retry.delay(HOUR).jitter(Duration::ZERO))
}

pub(crate) fn unlimited(settings: Settings) -> Settings {
    settings.retry(Retry::default().unlimited())
}

/// Notices never come.
fn no_news(message: &Message) -> Fate {
    match message.kind {
        MessageKind::Watch => Fate::default().lose_request(),
        _ => Fate::default(),
    }
}

/// Tasks that all want "a", one after the other, and note who gets it.
pub(crate) async fn line_up(
    redlock: &Redlock,
    count: usize,
) -> (Arc<Mutex<Vec<usize>>>, Vec<JoinHandle<()>>) {
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..count {
        let (redlock, served) = (redlock.clone(), Arc::clone(&served));
        tasks.push(tokio::spawn(async move {
            let lock = redlock.acquire(["a"], TTL).await.unwrap();
            served.lock().unwrap().push(number);
            sleep(5 * MS).await;
            lock.release().await.unwrap();
        }));
        tokio::task::yield_now().await;
    }
    (served, tasks)
}

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
async fn a_thousand_waiters_of_one_process_ask_the_masters_as_one_does() {
    let mut calls = Vec::new();
    for count in [1, 1_000] {
        let masters = MemoryMasters::new(3);
        let redlock = crate::client(&masters, unlimited).await;
        let held = redlock.acquire(["a"], HOUR).await.unwrap();
        let (_, tasks) = line_up(&redlock, count).await;
        sleep(Duration::from_secs(20)).await;
        calls.push(masters.calls(0));
        tasks.iter().for_each(JoinHandle::abort);
        held.forget();
    }
    // Jitter makes them differ a little.
    assert!(calls[1] < calls[0] * 3 / 2, "{calls:?}");
    assert!(calls[0] > 100, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_the_next_waiter_of_another_process_at_once() {
    let masters = MemoryMasters::new(5);
    let (one, other) = (
        crate::client(&masters, by_news_alone).await,
        crate::client(&masters, by_news_alone).await,
    );
    let mut held = one.acquire(["a"], HOUR).await.unwrap();
    for turn in 0..10 {
        let waiter = if turn % 2 == 0 { &other } else { &one }.clone();
        let waiting = tokio::spawn(async move { waiter.acquire(["a"], HOUR).await });
        sleep(50 * MS).await;
        let released = Instant::now();
        let fence = held.fence();
        held.release().await.unwrap();
        held = waiting.await.unwrap().unwrap();
        assert!(held.fence() > fence);
        assert!(released.elapsed() < 50 * MS, "{:?}", released.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_hears_nothing_asks_by_its_retry_policy() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, unlimited).await;
    masters.set_network(no_news);
    let held = redlock.acquire(["a"], HOUR).await.unwrap();
    let waiting = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.acquire(["a"], HOUR).await }
    });
    sleep(Duration::from_secs(5)).await;
    let released = Instant::now();
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().forget();
    assert!(released.elapsed() <= 301 * MS, "{:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_expires_goes_to_the_next_waiter_though_nobody_tells() {
    let masters = MemoryMasters::new(5);
    masters.set_network(no_news);
    let redlock = crate::client(&masters, by_news_alone).await;
    let begun = Instant::now();
    redlock.acquire(["a"], TTL).await.unwrap().forget();
    let (_, tasks) = line_up(&redlock, 1).await;
    for task in tasks {
        task.await.unwrap();
    }
    assert!(begun.elapsed() < TTL + 50 * MS, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn extensions_of_the_holder_do_not_make_waiters_write() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, by_news_alone).await;
    let mut held = redlock.acquire(["a"], TTL).await.unwrap();
    let (_, tasks) = line_up(&redlock, 1).await;
    sleep(MS).await;
    let before = masters.calls(0);
    for _ in 0..100 {
        sleep(100 * MS).await;
        held.extend(TTL).await.unwrap();
    }
    let asked = masters.calls(0) - before - 100;
    assert!(asked <= 4, "{asked} acquires and roll-backs");
    held.release().await.unwrap();
    for task in tasks {
        timeout(TTL, task).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_nobody_polls_does_not_keep_the_others_from_the_lock() {
    let unlimited: fn(Settings) -> Settings = unlimited;
    for (patience, knows_of_others) in [
        (unlimited, false),
        (by_news_alone, false),
        (by_news_alone, true),
    ] {
        let masters = MemoryMasters::new(3);
        let redlock = crate::client(&masters, patience).await;
        let held = redlock.acquire(["a"], HOUR).await.unwrap();
        let mut aside = Box::pin(redlock.acquire(["a"], TTL));
        // It is first.
        assert!(timeout(10 * MS, &mut aside).await.is_err());
        let (served, tasks) = line_up(&redlock, 3).await;
        if knows_of_others {
            assert!(timeout(10 * MS, &mut aside).await.is_err());
        }
        // And is not polled any more.
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
async fn a_waiter_whose_attempt_takes_long_keeps_its_place() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| {
        unlimited(settings).command_timeout(TTL / 2)
    })
    .await;
    (0..3).for_each(|master| masters.hang(master));
    let (_, tasks) = line_up(&redlock, 3).await;
    sleep(TTL * 2 / 5).await;
    assert_eq!(masters.calls(0), 1, "the first one's, which is under way");
    tasks.iter().for_each(JoinHandle::abort);
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

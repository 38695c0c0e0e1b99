//! What wakes a waiter, and what it costs the masters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fredlock::testing::{Fate, MemoryMasters, MessageKind};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{HOUR, MS, TTL, by_news_alone, line_up, no_news, unlimited};

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

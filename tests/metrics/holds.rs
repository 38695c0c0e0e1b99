//! Locks that are held, given back, and lost.

use fredlock::{
    metrics::{
        HELD, HOLD, LABEL_MASTER, LABEL_OUTCOME, LABEL_REASON, LEFT_TO_TTL, LOST, PUT_BACKS,
        RELEASES,
    },
    testing::MemoryMasters,
};
use tokio::time::{sleep, timeout};

use crate::{TTL, assert_times, client, ms, recorder::Book, settled};

/// What was counted of a lock's end: its losses, and its releases.
pub(crate) fn ends(book: &Book) -> Vec<String> {
    let counts = book.locks().into_iter();
    let is_end = |count: &String| count.starts_with(LOST) || count.starts_with(RELEASES);
    counts.filter(is_end).collect()
}

/// No lock is left among those that are held.
#[track_caller]
pub(crate) fn assert_none_held(book: &Book) {
    let held = book.gauge(HELD);
    assert!(held.abs() < 0.5, "{held} are held");
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_held_until_it_is_released_dropped_or_forgotten_and_no_longer() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let mut locks = Vec::new();
    for name in ["released", "dropped", "forgotten"] {
        locks.push(redlock.acquire([name], TTL).await.unwrap());
        sleep(ms(100)).await;
    }
    assert!((book.gauge(HELD) - 3.0).abs() < 0.5);
    let mut locks = locks.into_iter();
    locks.next().unwrap().release().await.unwrap();
    drop(locks.next());
    locks.next().unwrap().forget();
    assert_none_held(&book);
    assert_times(&book.times_ms(HOLD, &[]), &[300.0, 200.0, 100.0]);
    settled(&redlock).await;
    let expected = [
        "fredlock_releases_total outcome=dropped 1",
        "fredlock_releases_total outcome=released 1",
    ];
    assert_eq!(ends(&book), expected);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_extended_is_held_beyond_its_first_validity() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    for _ in 0..3 {
        sleep(ms(8_000)).await;
        lock.extend(TTL).await.unwrap();
    }
    lock.release().await.unwrap();
    assert_times(&book.times_ms(HOLD, &[]), &[24_000.0]);
    assert_eq!(ends(&book), ["fredlock_releases_total outcome=released 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_waits_for_counts_once_and_one_without_a_quorum_as_that() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let lock = redlock.acquire(["a"], TTL).await.unwrap();
    (0..3).for_each(|master| masters.set_latency(master, ms(40)));
    assert!(timeout(ms(10), lock.release()).await.is_err());
    settled(&redlock).await;
    assert_eq!(ends(&book), ["fredlock_releases_total outcome=dropped 1"]);

    let lock = redlock.acquire(["a"], TTL).await.unwrap();
    masters.stop(0);
    masters.stop(1);
    lock.release().await.unwrap_err();
    let expected = [
        "fredlock_releases_total outcome=dropped 1",
        "fredlock_releases_total outcome=no_quorum 1",
    ];
    assert_eq!(ends(&book), expected);
    assert_none_held(&book);
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_validity_is_over_counts_as_lost_once_whoever_notices_it() {
    let masters = MemoryMasters::new(3);
    let expired = "fredlock_lost_total reason=expired 1";
    let (redlock, book) = client(&masters).await;

    let lock = redlock.acquire(["a"], ms(1_000)).await.unwrap();
    sleep(TTL).await;
    lock.release().await.unwrap_err();
    let released = "fredlock_releases_total outcome=expired 1";
    assert_eq!(ends(&book), [expired, released]);
    // It was held for its validity: the ttl less the drift.
    assert_times(&book.times_ms(HOLD, &[]), &[988.0]);

    let (redlock, book) = client(&masters).await;
    let lock = redlock.acquire(["a"], ms(1_000)).await.unwrap();
    sleep(TTL).await;
    drop(lock);
    let dropped = "fredlock_releases_total outcome=dropped 1";
    assert_eq!(ends(&book), [expired, dropped]);
    assert_times(&book.times_ms(HOLD, &[]), &[988.0]);

    let (redlock, book) = client(&masters).await;
    let mut lock = redlock.acquire(["a"], ms(1_000)).await.unwrap();
    sleep(TTL).await;
    lock.extend(TTL).await.unwrap_err();
    lock.extend(TTL).await.unwrap_err();
    lock.release().await.unwrap_err();
    assert_eq!(ends(&book), [expired, released]);
    assert_times(&book.times_ms(HOLD, &[]), &[988.0]);
    assert_none_held(&book);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_away_counts_as_gone_once_whoever_notices_it() {
    let masters = MemoryMasters::new(3);
    let gone = "fredlock_lost_total reason=gone 1";
    let released = "fredlock_releases_total outcome=gone 1";
    let (redlock, book) = client(&masters).await;
    let lock = redlock.acquire(["a"], TTL).await.unwrap();
    masters.lose("a");
    lock.release().await.unwrap_err();
    assert_eq!(ends(&book), [gone, released]);

    let (redlock, book) = client(&masters).await;
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    masters.lose("a");
    sleep(ms(300)).await;
    lock.extend(TTL).await.unwrap_err();
    assert_eq!(ends(&book), [gone]);
    assert_none_held(&book);
    sleep(ms(300)).await;
    lock.release().await.unwrap_err();
    let released = "fredlock_releases_total outcome=expired 1";
    assert_eq!(ends(&book), [gone, released]);
    assert_times(&book.times_ms(HOLD, &[]), &[300.0]);
}

#[tokio::test(start_paused = true)]
async fn what_a_master_keeps_until_its_ttl_and_what_is_put_back_there_is_counted() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    masters.clear(0);
    lock.extend(TTL).await.unwrap();
    lock.extend(TTL).await.unwrap();
    settled(&redlock).await;
    assert_eq!(book.count(PUT_BACKS, &[(LABEL_MASTER, "memory-0")]), 1);
    assert_eq!(book.count(PUT_BACKS, &[(LABEL_MASTER, "memory-1")]), 0);
    assert_eq!(book.count(LEFT_TO_TTL, &[]), 0);
    masters.hang(2);
    lock.release().await.unwrap();
    sleep(2 * TTL).await;
    assert_eq!(book.count(LEFT_TO_TTL, &[]), 1);
    assert_eq!(book.count(RELEASES, &[(LABEL_OUTCOME, "released")]), 1);
    assert_eq!(book.count(LOST, &[(LABEL_REASON, "gone")]), 0);
}

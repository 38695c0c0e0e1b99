//! Extensions: how many, how late, and how near the end.

use fredlock::{
    metrics::{
        EXTENSION_LATENESS, EXTENSION_LEFT, EXTENSION_RETRIES, EXTENSIONS, HOLD, LABEL_OUTCOME,
    },
    testing::MemoryMasters,
};
use tokio::time::{advance, sleep, timeout};

use crate::{TTL, assert_times, client, ms, settled};

#[tokio::test(start_paused = true)]
async fn an_extension_by_hand_tells_what_validity_was_left_and_is_never_late() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    sleep(ms(4_000)).await;
    (0..3).for_each(|master| masters.set_latency(master, ms(40)));
    lock.extend(TTL).await.unwrap();
    let left = book.times_ms(EXTENSION_LEFT, &[]);
    // 10 s less a drift of 102 ms, when the masters had answered: a millisecond later at most.
    assert!(
        left.len() == 1 && (5_855.0..=5_858.0).contains(&left[0]),
        "{left:?}"
    );
    assert_times(&book.times_ms(EXTENSION_LATENESS, &[]), &[]);
    lock.extend(ms(0)).await.unwrap_err();
    assert!(timeout(ms(10), lock.extend(TTL)).await.is_err());
    lock.release().await.unwrap();
    settled(&redlock).await;
    let counts = book.locks().into_iter();
    let counts: Vec<_> = counts
        .filter(|count| count.starts_with(EXTENSIONS))
        .collect();
    let expected = [
        "fredlock_extensions_total outcome=cancelled 1",
        "fredlock_extensions_total outcome=extended 1",
    ];
    assert_eq!(counts, expected);
}

#[tokio::test(start_paused = true)]
async fn an_extension_by_hand_that_fails_counts_as_how_it_did() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let mut locks = Vec::new();
    for name in ["gone", "expired"] {
        locks.push(redlock.acquire([name], TTL).await.unwrap());
    }
    masters.lose("gone");
    locks[0].extend(TTL).await.unwrap_err();
    masters.stop(0);
    masters.stop(1);
    locks[1].extend(TTL).await.unwrap_err();
    masters.heal(0);
    masters.heal(1);
    for outcome in ["gone", "expired"] {
        assert_eq!(
            book.count(EXTENSIONS, &[(LABEL_OUTCOME, outcome)]),
            1,
            "{outcome}"
        );
    }
    let mut lock = redlock.acquire(["shut down"], TTL).await.unwrap();
    redlock.shutdown(TTL).await;
    lock.extend(TTL).await.unwrap_err();
    assert_eq!(book.count(EXTENSIONS, &[(LABEL_OUTCOME, "shut_down")]), 1);
    assert_eq!(book.count(EXTENSIONS, &[(LABEL_OUTCOME, "extended")]), 0);
    assert_times(&book.times_ms(EXTENSION_LEFT, &[]), &[]);
}

#[tokio::test(start_paused = true)]
async fn every_extension_of_a_routine_is_late_by_what_its_masters_take() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    (0..3).for_each(|master| masters.set_latency(master, ms(40)));
    let routine = redlock.using(["a"], TTL, async |_| sleep(6 * TTL).await);
    routine.await.unwrap();
    let late = book.times_ms(EXTENSION_LATENESS, &[]);
    let left = book.times_ms(EXTENSION_LEFT, &[]);
    assert_times(&late, &vec![40.0; late.len()]);
    // Each comes after half of its time at the earliest, and 500 ms before the end at the latest.
    assert!((6..=13).contains(&late.len()), "{late:?}");
    assert!(
        left.iter().all(|left| (457.0..5_200.0).contains(left)),
        "{left:?}"
    );
    let extended = book.count(EXTENSIONS, &[(LABEL_OUTCOME, "extended")]);
    assert_eq!((extended, left.len()), (late.len() as u64, late.len()));
    assert_eq!(book.count(EXTENSION_RETRIES, &[]), 0);
    assert_times(&book.times_ms(HOLD, &[]), &[60_000.0]);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_a_blocked_thread_held_up_is_late_by_that_and_near_the_end() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let routine = redlock.using(["a"], TTL, async |signal| {
        // Due 500 ms before the end at the latest, which is at 9,898 ms.
        advance(ms(9_600)).await;
        sleep(ms(100)).await;
        assert!(!signal.is_aborted());
    });
    routine.await.unwrap();
    let late = book.times_ms(EXTENSION_LATENESS, &[]);
    let left = book.times_ms(EXTENSION_LEFT, &[]);
    assert!(
        late.len() == 1 && late[0] >= 201.0 && late[0] < 5_000.0,
        "{late:?}"
    );
    assert!(
        left.len() == 1 && (294.0..=298.0).contains(&left[0]),
        "{left:?}"
    );
}

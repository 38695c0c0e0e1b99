//! Acquisitions and their attempts.

use std::time::Duration;

use fredlock::{
    AcquireError, Retry,
    metrics::{ACQUISITIONS, ATTEMPTS, LABEL_OUTCOME, WAIT, WAITING},
    testing::MemoryMasters,
};
use tokio::time::{advance, sleep, timeout};

use crate::{TTL, assert_times, client, client_with, ms, settled, stranger};

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_had_and_released_counts_once_each() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    assert_eq!(book.counts(), [""; 0]);
    redlock
        .try_acquire(["a"], TTL)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    settled(&redlock).await;
    assert_eq!(
        book.counts(),
        [
            "fredlock_acquisitions_total outcome=acquired 1",
            "fredlock_attempts_total outcome=acquired 1",
            "fredlock_releases_total outcome=released 1",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_counts_one_acquisition_and_every_attempt_of_it() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let stranger = stranger(&masters).await;
    let held = stranger.acquire(["a"], 100 * TTL).await.unwrap();
    redlock.try_acquire(["a"], TTL).await.unwrap_err();
    let patient = redlock.with(|settings| settings.retry(Retry::none().count(3).delay(ms(200))));
    patient.acquire(["a"], TTL).await.unwrap_err();
    settled(&redlock).await;
    assert_eq!(
        book.counts(),
        [
            "fredlock_acquisitions_total outcome=busy 2",
            "fredlock_attempts_total outcome=busy 5",
        ]
    );
    assert_times(&book.times_ms(WAIT, &[]), &[]);

    // The wait limit ends it: what it waited for is what counts.
    let hasty =
        patient.with(|settings| settings.wait_for(ms(500)).retry(Retry::none().unlimited()));
    let error = hasty.acquire(["a"], TTL).await.unwrap_err();
    assert!(matches!(error, AcquireError::Timeout { .. }), "{error}");
    assert_eq!(book.count(ACQUISITIONS, &[(LABEL_OUTCOME, "busy")]), 3);
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_an_acquisition_counts_as_that_and_each_master_as_it_failed() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    masters.stop(0);
    masters.fail(1, "OOM command not allowed");
    redlock.acquire(["a"], TTL).await.unwrap_err();
    settled(&redlock).await;
    assert_eq!(
        book.counts(),
        [
            "fredlock_acquisitions_total outcome=no_quorum 1",
            "fredlock_attempts_total outcome=no_quorum 1",
            // The acquire, and the release that takes it back.
            "fredlock_master_errors_total master=memory-0 error=not_connected 2",
            "fredlock_master_errors_total master=memory-1 error=server 2",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_granted_too_late_and_what_is_in_quarantine_or_has_no_larger_fence_is_told_apart() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    (0..3).for_each(|master| masters.set_latency(master, ms(40)));
    // The thread is blocked until its time is over; the answers are there by then.
    let (late, ()) = tokio::join!(redlock.acquire(["late"], TTL), advance(TTL));
    late.unwrap_err();
    (0..3).for_each(|master| masters.set_latency(master, Duration::ZERO));
    settled(&redlock).await;
    let expected = [
        "fredlock_acquisitions_total outcome=expired 1",
        "fredlock_attempts_total outcome=expired 1",
    ];
    assert_eq!(book.locks(), expected);

    let (guarded, book) = client_with(&masters, |builder| builder.restart_guard(TTL)).await;
    guarded.acquire(["new"], TTL).await.unwrap_err();
    settled(&guarded).await;
    let expected = [
        "fredlock_acquisitions_total outcome=quarantined 1",
        "fredlock_attempts_total outcome=quarantined 1",
    ];
    assert_eq!(book.locks(), expected);

    let (redlock, book) = client(&masters).await;
    for master in 0..3 {
        masters.set(master, "{full}:fence", "9007199254740990", None);
    }
    redlock.acquire(["full"], TTL).await.unwrap_err();
    settled(&redlock).await;
    let expected = [
        "fredlock_acquisitions_total outcome=fence_exhausted 1",
        "fredlock_attempts_total outcome=fence_exhausted 1",
    ];
    assert_eq!(book.locks(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_is_dropped_counts_as_cancelled_with_the_attempt_that_it_was_at() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    (0..3).for_each(|master| masters.set_latency(master, ms(40)));
    let cut_off = timeout(ms(10), redlock.acquire(["a"], TTL)).await;
    assert!(cut_off.is_err());
    settled(&redlock).await;
    assert_eq!(
        book.counts(),
        [
            "fredlock_acquisitions_total outcome=cancelled 1",
            "fredlock_attempts_total outcome=cancelled 1",
        ]
    );

    // Between two attempts there is none to be cancelled.
    let stranger = stranger(&masters).await;
    let _held = stranger.acquire(["a"], 100 * TTL).await.unwrap();
    let patient = redlock.with(|settings| settings.retry(Retry::none().count(9).delay(TTL)));
    let cut_off = timeout(ms(500), patient.acquire(["a"], TTL)).await;
    assert!(cut_off.is_err());
    settled(&redlock).await;
    assert_eq!(
        book.counts(),
        [
            "fredlock_acquisitions_total outcome=cancelled 2",
            "fredlock_attempts_total outcome=busy 1",
            "fredlock_attempts_total outcome=cancelled 1",
        ]
    );
    assert!(book.gauge(WAITING).abs() < 0.5);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_its_arguments_is_not_counted_and_after_a_shutdown_it_is_as_that() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    redlock.acquire([""], TTL).await.unwrap_err();
    redlock.acquire(["a"], Duration::ZERO).await.unwrap_err();
    redlock.acquire(["a"], ms(2)).await.unwrap_err();
    assert_eq!(book.counts(), [""; 0]);
    redlock.shutdown(TTL).await;
    redlock.acquire(["a"], TTL).await.unwrap_err();
    assert_eq!(
        book.counts(),
        ["fredlock_acquisitions_total outcome=shut_down 1"]
    );
    assert!(book.gauge(WAITING).abs() < 0.5);
}

#[tokio::test(start_paused = true)]
async fn the_time_in_the_queue_counts_as_waiting_and_each_is_seen_to_wait() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let redlock = redlock.with(|settings| settings.wait_for(100 * TTL));
    let hold = async |name: &str| {
        let lock = redlock.acquire([name], TTL).await.unwrap();
        sleep(ms(1_000)).await;
        lock.release().await.unwrap();
    };
    let look = async {
        sleep(ms(500)).await;
        assert!(
            (book.gauge(WAITING) - 2.0).abs() < 0.5,
            "{}",
            book.gauge(WAITING)
        );
        sleep(ms(1_000)).await;
        assert!(
            (book.gauge(WAITING) - 1.0).abs() < 0.5,
            "{}",
            book.gauge(WAITING)
        );
    };
    tokio::join!(hold("a"), hold("a"), hold("a"), hold("b"), look);
    assert!(book.gauge(WAITING).abs() < 0.5);
    let mut waits = book.times_ms(WAIT, &[]);
    waits.sort_by(f64::total_cmp);
    // Each hand-over adds what its timers are late by.
    let expected = [0.0, 0.0, 1_000.0, 2_000.0];
    let are_near = waits
        .iter()
        .zip(expected)
        .all(|(wait, expected)| (0.0..20.0).contains(&(wait - expected)));
    assert!(waits.len() == 4 && are_near, "{waits:?}");
    assert_eq!(book.count(ACQUISITIONS, &[(LABEL_OUTCOME, "acquired")]), 4);
    assert_eq!(book.count(ATTEMPTS, &[(LABEL_OUTCOME, "acquired")]), 4);
}

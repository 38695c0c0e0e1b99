//! Locks of routines: how they end, and that a loss is counted once.

use std::future::pending;

use fredlock::{
    Redlock, Retry,
    metrics::{EXTENSION_RETRIES, HOLD},
    testing::MemoryMasters,
};
use tokio::time::{sleep, timeout};

use crate::{
    TTL, assert_times, client,
    holds::{assert_none_held, ends},
    ms, settled,
};

/// Runs a routine that waits until it is told of the end, and longer.
async fn using(redlock: &Redlock) {
    let routine = redlock.using(["a"], TTL, async |signal| {
        signal.aborted().await;
        sleep(ms(5_000)).await;
    });
    routine.await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_routine_whose_masters_hang_loses_its_lock_once_at_the_end_of_its_validity() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let hang = async {
        sleep(ms(100)).await;
        masters.hang(0);
        masters.hang(1);
        sleep(2 * TTL).await;
        masters.heal(0);
        masters.heal(1);
    };
    tokio::join!(using(&redlock), hang);
    settled(&redlock).await;
    // As often as it was tried again, by its jitter.
    let retries = book.count(EXTENSION_RETRIES, &[]);
    assert!(retries > 1, "{retries}");
    assert_eq!(
        book.locks(),
        [
            "fredlock_acquisitions_total outcome=acquired 1",
            "fredlock_attempts_total outcome=acquired 1",
            &format!("fredlock_extension_retries_total {retries}"),
            "fredlock_extensions_total outcome=expired 1",
            "fredlock_lost_total reason=expired 1",
            "fredlock_releases_total outcome=expired 1",
        ]
    );
    // Until the signal, 2 ms before the end: 10 s less a drift of 102 ms.
    assert_times(&book.times_ms(HOLD, &[]), &[9_896.0]);
    assert_none_held(&book);
}

#[tokio::test(start_paused = true)]
async fn a_routine_whose_lock_is_taken_over_loses_it_once_at_its_next_extension() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let (stranger, other) = client(&masters).await;
    let stranger = stranger.with(|settings| settings.retry(Retry::none().unlimited()));
    let take_over = async {
        sleep(ms(100)).await;
        masters.lose("a");
        stranger.acquire(["a"], 10 * TTL).await.unwrap()
    };
    let ((), successor) = tokio::join!(using(&redlock), take_over);
    settled(&redlock).await;
    assert_eq!(
        book.locks(),
        [
            "fredlock_acquisitions_total outcome=acquired 1",
            "fredlock_attempts_total outcome=acquired 1",
            "fredlock_extensions_total outcome=gone 1",
            "fredlock_lost_total reason=gone 1",
            // The routine ran on for another 5 s: by then it was over too.
            "fredlock_releases_total outcome=expired 1",
        ]
    );
    let hold = book.times_ms(HOLD, &[]);
    assert!(
        hold.len() == 1 && (100.0..9_896.0).contains(&hold[0]),
        "{hold:?}"
    );
    assert!(ends(&other).is_empty());
    successor.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_limit_and_a_shutdown_are_losses_of_their_own_kind() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    using(&redlock.with(|settings| settings.hold_limit(ms(300)))).await;
    let limited = "fredlock_lost_total reason=hold_limit 1";
    let released = "fredlock_releases_total outcome=released 1";
    assert_eq!(ends(&book), [limited, released]);
    assert_times(&book.times_ms(HOLD, &[]), &[300.0]);

    // That its keys are gone too when it is released is no second loss.
    let (redlock, book) = client(&masters).await;
    let limited_redlock = redlock.with(|settings| settings.hold_limit(ms(300)));
    let routine = limited_redlock.using(["a"], TTL, async |signal| {
        signal.aborted().await;
        masters.lose("a");
    });
    routine.await.unwrap_err();
    let gone = "fredlock_releases_total outcome=gone 1";
    assert_eq!(ends(&book), [limited, gone]);

    let (redlock, book) = client(&masters).await;
    let shut_down = async {
        sleep(ms(300)).await;
        redlock.shutdown(TTL).await;
    };
    tokio::join!(using(&redlock), shut_down);
    assert_eq!(
        ends(&book),
        ["fredlock_lost_total reason=shut_down 1", released]
    );
    assert_times(&book.times_ms(HOLD, &[]), &[300.0]);
    assert_none_held(&book);
}

#[test]
fn a_routine_whose_runtime_ends_loses_its_lock_by_that() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let masters = MemoryMasters::new(3);
    let (redlock, book) = runtime.block_on(client(&masters));
    let held = runtime.block_on(async {
        let (tell, told) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let routine = redlock.using(["a"], TTL, async |_| {
                tell.send(()).unwrap();
                pending::<()>().await;
            });
            routine.await
        });
        told.await
    });
    held.unwrap();
    drop(runtime);
    let expected = [
        "fredlock_lost_total reason=shut_down 1",
        "fredlock_releases_total outcome=dropped 1",
    ];
    assert_eq!(ends(&book), expected);
    assert_none_held(&book);
}

#[tokio::test(start_paused = true)]
async fn a_routine_that_ends_or_is_dropped_loses_nothing() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let routine = redlock.using(["a"], TTL, async |_| sleep(ms(300)).await);
    routine.await.unwrap();
    let routine = redlock.using(["b"], TTL, async |_| pending::<()>().await);
    assert!(timeout(ms(200), routine).await.is_err());
    settled(&redlock).await;
    assert_eq!(ends(&book), ["fredlock_releases_total outcome=released 2"]);
    assert_times(&book.times_ms(HOLD, &[]), &[300.0, 200.0]);
    assert_none_held(&book);
}

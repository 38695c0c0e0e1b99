//! `using`: what becomes of the lock and of the routine's result, however the routine ends.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use fredlock::{AcquireError, LostReason, Redlock, Retry, UsingError, testing::MemoryMasters};
use tokio::{task::yield_now, time::sleep};

use super::clients::{KEY, LONG, SOON, carriers, client, freed, idle, ms};
use super::steady::steadily;
use super::support::{eventually, servers::Servers};

#[tokio::test]
async fn a_routine_may_borrow_and_return_what_borrows() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let text = String::from("a b c");
    let mut count = 0;
    let words: Vec<&str> = redlock
        .using([KEY], LONG, async |_| {
            count = carriers(&servers, KEY).await;
            text.split(' ').collect()
        })
        .await
        .unwrap();
    assert_eq!((count, words), (3, vec!["a", "b", "c"]));
    freed(&servers, KEY).await;
}

#[tokio::test]
async fn a_routine_never_runs_without_the_lock() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let held = redlock.acquire([KEY], LONG).await.unwrap();
    let result = redlock
        .using([KEY], LONG, async |_| unreachable!("it is held"))
        .await;
    let error: UsingError<()> = result.unwrap_err();
    assert!(
        matches!(error, UsingError::Acquire(AcquireError::Busy(_))),
        "{error}"
    );
    assert_eq!(servers[0].get(KEY).await, Some(held.token().reveal()));
}

#[tokio::test]
async fn a_routine_does_not_begin_once_its_lock_has_no_validity_left() {
    // In memory, as no server answers soon enough for certain.
    let masters = MemoryMasters::new(3);
    let redlock = Redlock::builder().memory(&masters);
    let redlock = redlock.connect().await.unwrap();
    // 1.96 ms of validity; the signal fires 2 ms before its end.
    let result = redlock
        .using([KEY], ms(4), async |_| unreachable!("it is over"))
        .await;
    let error: UsingError<()> = result.unwrap_err();
    assert!(
        matches!(error, UsingError::Lost { output: None, .. }),
        "{error}"
    );
    assert_eq!(masters.get(0, KEY), None);
}

#[tokio::test]
async fn several_resources_are_kept_and_freed_together() {
    steadily(async || {
        let servers = Servers::start(3).await;
        let redlock = client(&servers, |settings| settings).await;
        let ttl = ms(1_000);
        redlock
            .using(["b", "a", "b"], ttl, async |signal| {
                let tokens = servers.values_of("a").await;
                assert!(tokens.iter().all(Option::is_some), "{tokens:?}");
                sleep(3 * ttl / 2).await;
                assert_eq!(servers.values_of("a").await, tokens);
                assert_eq!(servers.values_of("b").await, tokens);
                signal.check()
            })
            .await
            .unwrap()
            .unwrap();
        freed(&servers, "a").await;
        freed(&servers, "b").await;
    })
    .await;
}

#[tokio::test]
async fn a_routine_that_fails_is_reported_though_the_release_fails_too() {
    let servers = Servers::start(5).await;
    let redlock = client(&servers, |settings| {
        settings.command_timeout(ms(200)).retry(Retry::default())
    })
    .await;
    let result = redlock
        .using([KEY], LONG, async |_| {
            servers.freeze(&[0, 1, 2]);
            Err::<(), _>("the routine's own")
        })
        .await;
    assert_eq!(result.unwrap(), Err("the routine's own"));
    servers.thaw(&[0, 1, 2]);
    freed(&servers, KEY).await;
}

#[tokio::test]
async fn a_good_result_is_handed_over_together_with_the_loss() {
    steadily(async || {
        let servers = Servers::start(5).await;
        let redlock = client(&servers, |settings| settings).await;
        let result = redlock
            .using([KEY], ms(500), async |signal| {
                servers.kill(&[0, 1, 2]).await;
                signal.aborted().await;
                "done all the same"
            })
            .await;
        let Err(UsingError::Lost { output, reason, .. }) = result else {
            panic!("{result:?}");
        };
        assert_eq!(output, Some("done all the same"));
        assert!(matches!(reason, LostReason::Expired { .. }), "{reason}");
    })
    .await;
}

#[tokio::test]
async fn a_routine_that_panics_frees_the_lock_and_passes_the_panic_on() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let clone = redlock.clone();
    let running = tokio::spawn(async move {
        clone
            .using([KEY], LONG, async |_| {
                yield_now().await;
                panic!("in the routine")
            })
            .await
    });
    let panic = running.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the routine"));
    freed(&servers, KEY).await;
    idle(&redlock).await;
}

#[tokio::test]
async fn a_panic_before_there_is_a_future_frees_the_lock_too() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let clone = redlock.clone();
    let running = tokio::spawn(async move {
        let panics = |_| -> std::future::Ready<()> { panic!("instead of a future") };
        clone.using([KEY], LONG, panics).await
    });
    assert!(running.await.unwrap_err().is_panic());
    freed(&servers, KEY).await;
    idle(&redlock).await;
}

/// Where a future of `using` is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Acquire,
    Routine,
    Release,
}

#[tokio::test]
async fn dropping_it_at_any_await_frees_the_lock() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    for cut_in in [Stage::Acquire, Stage::Routine, Stage::Release] {
        // At its first await in there, its second, and so on, as long as there is one.
        for awaits in 1.. {
            let stage = Cell::new(Stage::Acquire);
            let was_cut = {
                let routine = async |_| {
                    stage.set(Stage::Routine);
                    yield_now().await;
                    sleep(ms(2)).await;
                    stage.set(Stage::Release);
                };
                let using = pin!(redlock.using([KEY], LONG, routine));
                is_cut_at(using, awaits, || stage.get() == cut_in).await
            };
            freed(&servers, KEY).await;
            idle(&redlock).await;
            // No late write either.
            let late = carriers(&servers, KEY).await;
            assert_eq!(late, 0, "await {awaits} in {cut_in:?}");
            if !was_cut {
                assert!(awaits > 1, "never cut in {cut_in:?}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn what_was_never_polled_sends_nothing() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let before = servers[0].commands_processed().await;
    drop(redlock.using([KEY], LONG, async |_| ()));
    idle(&redlock).await;
    assert_eq!(servers[0].commands_processed().await, before);
}

#[tokio::test]
async fn what_was_dropped_in_its_routine_does_not_keep_others_waiting() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let endless = redlock.using([KEY], LONG, async |_| std::future::pending::<()>().await);
    assert!(tokio::time::timeout(ms(100), endless).await.is_err());
    let patient = redlock.with(|settings| settings.wait_for(SOON));
    drop(patient.acquire([KEY], LONG).await.unwrap());
}

/// A healthy lock of 50 ms lives through many extensions. A machine that stalls for as long as its
/// validity takes it away from any client, so it may try again.
#[tokio::test]
async fn a_ttl_of_50_ms_is_enough_on_healthy_masters() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings.command_timeout(None)).await;
    eventually("a routine of six ttls", 2 * SOON, async || {
        held_for(&redlock, ms(50), ms(300)).await
    })
    .await;
}

async fn held_for(redlock: &Redlock, ttl: Duration, time: Duration) -> bool {
    let result = redlock.using([KEY], ttl, async |_| sleep(time).await).await;
    result.is_ok()
}

/// Polls the future until it has been left pending so many times while `counts`; false if it ended
/// before.
async fn is_cut_at(
    mut future: Pin<&mut impl Future>,
    awaits: u32,
    counts: impl Fn() -> bool,
) -> bool {
    let mut left = awaits;
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(false),
        Poll::Pending => {
            left -= u32::from(counts());
            if left == 0 {
                Poll::Ready(true)
            } else {
                Poll::Pending
            }
        }
    })
    .await
}

//! Masters that are marked as new, so that a restart guard need not wait.

use std::time::Duration;

use fredlock::{
    AcquireError, GuardState, InitialiseError, InitialiseState, Redlock, Retry,
    testing::MemoryMasters,
};
use tokio::time::sleep;

use crate::guard::{GUARD, MARKER, QUARANTINE, TTL, guarded, in_use};

fn states(report: &fredlock::Initialisation) -> Vec<InitialiseState> {
    report.iter().map(|master| master.state().clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_cluster_that_is_initialised_gives_locks_at_once() {
    let masters = MemoryMasters::new(3);
    let redlock = guarded(&masters).await;
    let report = redlock.initialise().await.unwrap();
    assert_eq!(states(&report), vec![InitialiseState::Initialised; 3]);
    assert_eq!(
        report.to_string(),
        "memory-0 initialised; memory-1 initialised; memory-2 initialised"
    );
    let lock = redlock.try_acquire(["a"], TTL).await.unwrap();
    let again = redlock.initialise().await.unwrap();
    assert_eq!(states(&again), vec![InitialiseState::Already; 3]);
    assert!(lock.is_valid());
    for master in 0..3 {
        assert_eq!(masters.get(master, QUARANTINE), None);
    }
}

/// Where clients came before the operator did.
#[tokio::test(start_paused = true)]
async fn initialising_ends_the_quarantines_of_masters_none_of_which_was_in_use() {
    let masters = MemoryMasters::new(3);
    let redlock = guarded(&masters).await;
    redlock
        .with(|s| s.retry(Retry::none()))
        .acquire(["a"], TTL)
        .await
        .unwrap_err();
    masters.clear(1); // and one that nobody has asked yet
    redlock.initialise().await.unwrap();
    redlock
        .try_acquire(["a"], TTL)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_master_that_was_swapped_for_a_new_one_is_not_spared_its_quarantine() {
    let (masters, redlock, _) = in_use(3).await;
    masters.restart_empty(1);
    let Err(InitialiseError::InUse(report)) = redlock.initialise().await else {
        panic!("one master has forgotten");
    };
    let unmarked = InitialiseState::LeftAlone(GuardState::Unmarked);
    assert_eq!(states(&report)[1], unmarked);
    assert_eq!(masters.keys(1), [""; 0], "left alone");
    redlock
        .acquire(["a"], TTL)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    sleep(Duration::from_millis(1)).await;
    let error = redlock.initialise().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("memory-1 in quarantine for 19999 ms more"),
        "{error}"
    );
    assert!(masters.time_left(1, QUARANTINE).is_some(), "left alone");
    sleep(GUARD).await;
    let report = redlock.initialise().await.unwrap();
    assert_eq!(states(&report), vec![InitialiseState::Already; 3]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_initialised_while_a_master_that_may_be_in_use_does_not_answer() {
    let masters = MemoryMasters::new(3);
    let redlock = guarded(&masters).await;
    masters.hang(2);
    let Err(InitialiseError::Unanswered(report)) = redlock.initialise().await else {
        panic!("one does not answer");
    };
    assert!(matches!(states(&report)[2], InitialiseState::Failed(_)));
    assert!(
        report.to_string().contains("memory-2 timed out"),
        "{report}"
    );
    masters.heal(2);
    for master in 0..3 {
        assert_eq!(masters.keys(master), [""; 0]);
    }
    redlock.initialise().await.unwrap();
    redlock.shutdown(Duration::from_secs(1)).await;
    let error = redlock.initialise().await.unwrap_err();
    assert!(matches!(error, InitialiseError::ShutDown), "{error}");
}

#[tokio::test(start_paused = true)]
async fn without_a_guard_masters_are_not_marked() {
    let masters = MemoryMasters::new(3);
    let redlock = Redlock::builder().memory(&masters).connect().await.unwrap();
    redlock
        .acquire(["a"], TTL)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    sleep(Duration::from_millis(1)).await;
    for master in 0..3 {
        assert_eq!(masters.keys(master), ["{a}:fence"]);
    }
    for name in [MARKER, QUARANTINE, "fredlock:guard:"] {
        let error = redlock.acquire([name], TTL).await.unwrap_err();
        assert!(
            matches!(error, AcquireError::InvalidResources(_)),
            "{error}"
        );
    }
}

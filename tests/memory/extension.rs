//! Extensions and releases while masters fail in several ways at once.

use std::time::Duration;

use fredlock::{ExtendError, Fencing, Redlock, ReleaseError, testing::MemoryMasters};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn an_empty_master_and_two_that_are_down_for_a_while_lose_nothing() {
    let masters = MemoryMasters::new(5);
    let redlock = crate::client(&masters, |settings| settings).await;
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    masters.clear(0);
    masters.stop(1);
    masters.hang(2);
    let back = masters.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(1)).await;
        back.heal(1);
        back.heal(2);
    });
    lock.extend(TTL).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(masters.get(0, "a"), Some(lock.token().reveal()), "healed");
}

#[tokio::test(start_paused = true)]
async fn where_masters_fail_to_answer_the_lock_lasts_until_its_validity_ends() {
    let masters = MemoryMasters::new(5);
    let redlock = crate::client(&masters, |settings| settings).await;
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    masters.clear(0);
    masters.stop(1);
    masters.stop(2);
    let error = lock.extend(TTL).await.unwrap_err();
    assert!(matches!(error, ExtendError::Expired { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_gone_from_a_majority_is_lost_at_once_whatever_the_rest_does() {
    let masters = MemoryMasters::new(5);
    let redlock = crate::client(&masters, |settings| settings).await;
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    (0..3).for_each(|master| masters.clear(master));
    masters.hang(3);
    let error = lock.extend(TTL).await.unwrap_err();
    assert!(matches!(error, ExtendError::Lost { .. }), "{error}");
    assert!(!lock.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_master_that_fails_first_does_not_hide_that_the_lock_is_gone_from_the_others() {
    let masters = MemoryMasters::new(5);
    let redlock = crate::client(&masters, |settings| settings).await;
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    masters.lose("a");
    masters.stop(0);
    for master in 1..5 {
        masters.set_latency(master, Duration::from_millis(10 * master as u64));
    }
    let error = lock.extend(TTL).await.unwrap_err();
    assert!(matches!(error, ExtendError::Lost { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_put_back_after_the_release_has_begun() {
    let masters = MemoryMasters::new(5);
    let builder = Redlock::builder().memory(&masters).fencing(Fencing::Off);
    let redlock = builder.connect().await.unwrap();
    let mut lock = redlock.acquire(["a"], TTL).await.unwrap();
    masters.clear(0);
    masters.set_latency(0, Duration::from_millis(40));
    lock.extend(TTL).await.unwrap();
    lock.release().await.unwrap();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(masters.get(0, "a"), None);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_too_few_masters_answered_does_not_call_the_lock_lost() {
    let masters = MemoryMasters::new(5);
    let redlock = crate::client(&masters, |settings| settings).await;
    let lock = redlock.acquire(["a"], TTL).await.unwrap();
    masters.clear(0);
    masters.stop(1);
    masters.stop(2);
    let error = lock.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::NoQuorum { .. }), "{error}");
}

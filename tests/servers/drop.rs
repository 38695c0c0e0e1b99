//! Locks that are dropped are released in the background; those that are forgotten are not.

use std::time::Duration;

use fredlock::{AcquireError, Fencing, Lock, Redlock};

use crate::support::{eventually, servers::Servers};
use crate::voters::{AT_ONCE, LONG, both, client_of, everywhere, gone, idle};

/// Three servers, a client, and a lock on `k` that stands on every one of them.
async fn held(fencing: Fencing, ttl: Duration) -> (Servers, Redlock, Lock) {
    let servers = Servers::start(3).await;
    let redlock = client_of(&servers, fencing).await;
    let lock = redlock.acquire(["k"], ttl).await.expect("acquired");
    everywhere(&servers, "k", &lock.token().reveal()).await;
    idle(&redlock).await;
    (servers, redlock, lock)
}

#[tokio::test]
async fn dropped_lock_is_released_on_every_master_and_free_for_others() {
    for fencing in both() {
        let (servers, redlock, lock) = held(fencing, LONG).await;
        drop(lock);
        gone(&servers, "k").await;
        idle(&redlock).await;
        let next = redlock.acquire(["k"], LONG).await.expect("it is free");
        next.release().await.expect("released");
    }
}

#[tokio::test]
async fn lock_can_be_dropped_where_no_runtime_is() {
    let (servers, redlock, lock) = held(Fencing::default(), LONG).await;
    let dropped = std::thread::spawn(move || drop(lock));
    dropped.join().expect("dropped without a panic");
    gone(&servers, "k").await;
    idle(&redlock).await;
}

#[test]
fn lock_can_be_dropped_after_its_runtime_is_gone() {
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    let (servers, redlock, lock) = runtime.block_on(held(Fencing::default(), LONG));
    runtime.shutdown_background();
    drop(lock);
    drop(redlock);
    drop(servers);
}

#[tokio::test]
async fn lock_that_is_dropped_while_masters_are_frozen_is_freed_when_they_are_thawed() {
    for fencing in both() {
        let (servers, redlock, lock) = held(fencing, LONG).await;
        servers.freeze(&[1, 2]);
        drop(lock);
        eventually("the one that answers is free", AT_ONCE, async || {
            servers[0].get("k").await.is_none()
        })
        .await;
        servers.thaw(&[1, 2]);
        gone(&servers, "k").await;
        idle(&redlock).await;
    }
}

#[tokio::test]
async fn lock_that_is_dropped_after_the_last_handle_is_released_all_the_same() {
    for fencing in both() {
        let (servers, redlock, lock) = held(fencing, LONG).await;
        drop(redlock);
        drop(lock);
        gone(&servers, "k").await;
        eventually("connections are closed", AT_ONCE, async || {
            servers[0].connected_clients().await == 0
        })
        .await;
    }
}

#[tokio::test]
async fn forgotten_lock_is_nobodys_until_its_ttl_is_over_and_costs_nothing() {
    for fencing in both() {
        let ttl = Duration::from_secs(1);
        let (servers, redlock, lock) = held(fencing, ttl).await;
        let token = lock.token().reveal();
        let before = servers[0].commands_processed().await;
        lock.forget();
        idle(&redlock).await;
        assert_eq!(servers[0].commands_processed().await, before);
        assert_eq!(servers[0].get("k").await, Some(token));
        let busy = redlock.try_acquire(["k"], LONG).await;
        assert!(matches!(busy, Err(AcquireError::Busy(_))), "{busy:?}");
        gone(&servers, "k").await;
        let next = redlock.try_acquire(["k"], LONG).await.expect("it is free");
        next.release().await.expect("released");
    }
}
